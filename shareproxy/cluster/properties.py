"""Read the client property files that people already have for Kafka's own tools.

In: the path of a file (`--command-config`). Out: how connections are secured, and what else of the file is of use.
Must never: refuse a key it does not know, or put a secret into a message.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final
from urllib.parse import unquote, urlsplit

from shareproxy.cluster.errors import PropertiesError
from shareproxy.cluster.jaas import Login, parse_jaas
from shareproxy.cluster.oauth import ClientCredentials
from shareproxy.cluster.property_file import Property, PropertySyntaxError, parse_properties, read_property_text
from shareproxy.cluster.security import MECHANISMS, PROTOCOLS, Security

KEYS: Final = (
    "security.protocol",
    "sasl.mechanism",
    "sasl.jaas.config",
    "sasl.kerberos.service.name",
    "sasl.oauthbearer.token.endpoint.url",
    "sasl.oauthbearer.client.credentials.client.id",
    "sasl.oauthbearer.client.credentials.client.secret",
    "sasl.oauthbearer.scope",
    "sasl.login.callback.handler.class",
    "ssl.truststore.location",
    "ssl.truststore.type",
    "ssl.truststore.password",
    "ssl.truststore.certificates",
    "ssl.keystore.location",
    "ssl.keystore.type",
    "ssl.keystore.password",
    "ssl.keystore.key",
    "ssl.keystore.certificate.chain",
    "ssl.key.password",
    "ssl.endpoint.identification.algorithm",
    "client.id",
    "request.timeout.ms",
)
BOOTSTRAP: Final = "bootstrap.servers"

_PEM: Final = b"-----BEGIN "
_PEM_BLOCK: Final = re.compile(r"(-----BEGIN [^-]+-----)(.*?)(-----END [^-]+-----)", re.DOTALL)
_JKS: Final = b"\xfe\xed\xfe\xed"
_DER: Final = b"\x30"
_MODULES: Final = {
    "PLAIN": "PlainLoginModule",
    "SCRAM-SHA-256": "ScramLoginModule",
    "SCRAM-SHA-512": "ScramLoginModule",
    "OAUTHBEARER": "OAuthBearerLoginModule",
    "GSSAPI": "Krb5LoginModule",
}


@dataclass(frozen=True)
class ClientProperties:
    """What a client property file says.

    Args:
        security: how connections are secured.
        client_id: `client.id`, None if absent.
        request_timeout_ms: `request.timeout.ms`, None if absent.
        ignored: keys that mean nothing here, in the file's order, with a note where one may be expected to.
    """

    security: Security
    client_id: str | None = None
    request_timeout_ms: int | None = None
    ignored: tuple[str, ...] = ()


def read_client_properties(path: str | Path) -> ClientProperties:
    """Read a Java client property file.

    Raises:
        PropertiesError: names the file, the line, the key, and what to write instead.
    """
    name = str(path)
    try:
        data = Path(path).read_bytes()
    except OSError as error:
        raise PropertiesError(name, f"cannot be read: {error.strerror}") from error
    try:
        properties = parse_properties(read_property_text(data))
    except PropertySyntaxError as error:
        raise PropertiesError(name, str(error), line=error.line) from None
    return _Reader(name, properties).read()


class _Reader:
    """One file while it is read; the last of several values of a key counts, as in Java."""

    def __init__(self, file: str, properties: list[Property]) -> None:
        self._file = file
        self._properties: Mapping[str, Property] = {entry.key: entry for entry in properties}

    def read(self) -> ClientProperties:
        protocol = self._choice("security.protocol", PROTOCOLS) or "PLAINTEXT"
        sasl = self._sasl() if protocol.startswith("SASL_") else {}
        tls = self._tls() if protocol.endswith("SSL") else {}
        if "security.protocol" not in self._properties and (unused := self._unused(protocol)):
            # Java would take PLAINTEXT and not say a word
            wanted = ("SASL_" if any(key.startswith("sasl") for key in unused) else "") + "SSL"
            if not any(key.startswith("ssl") for key in unused):
                wanted += " (or SASL_PLAINTEXT)"
            raise self._wrong("security.protocol", f"is missing, although {unused[0]} is set; is it {wanted}?")
        try:
            security = Security(protocol=protocol, **sasl, **tls)  # type: ignore[arg-type]
        except ValueError as error:
            raise PropertiesError(self._file, str(error)) from None
        return ClientProperties(security, self._value("client.id") or None, self._timeout(), self._ignored(protocol))

    def _sasl(self) -> dict[str, str | ClientCredentials | None]:
        mechanism = self._choice("sasl.mechanism", MECHANISMS)
        if mechanism is None:
            # Kafka's default is GSSAPI, which is rarely what a file without the key means
            raise self._wrong("sasl.mechanism", f"is missing; it is one of {', '.join(MECHANISMS)}")
        found: dict[str, str | ClientCredentials | None] = {"sasl_mechanism": mechanism}
        if mechanism == "GSSAPI":
            return found | self._if_set("kerberos_service_name", "sasl.kerberos.service.name")
        login = self._login(mechanism)
        if mechanism == "OAUTHBEARER":
            return found | self._token_source(login)
        if login.options.get("tokenauth", "").lower() == "true":
            raise self._wrong("sasl.jaas.config", "delegation tokens (tokenauth) are not supported")
        for option in ("username", "password"):
            if option not in login.options:
                close = difflib.get_close_matches(option, login.options, 1, 0.5)
                hint = f"; is {close[0]} meant?" if close else ""
                raise self._wrong("sasl.jaas.config", f'{login.module} needs {option}="…"{hint}')
            found[option] = login.options[option]
        return found

    def _login(self, mechanism: str) -> Login:
        text = self._value("sasl.jaas.config")
        if text is None:
            raise self._wrong("sasl.jaas.config", f"is missing, but sasl.mechanism={mechanism} needs it")
        try:
            login = parse_jaas(text)
        except ValueError as error:
            raise self._wrong("sasl.jaas.config", str(error)) from None
        if login.module != _MODULES[mechanism]:
            raise self._wrong(
                "sasl.jaas.config",
                f"names {login.module}, but sasl.mechanism={mechanism} goes with {_MODULES[mechanism]}",
            )
        return login

    def _token_source(self, login: Login) -> dict[str, str | ClientCredentials | None]:
        """Return the file with the token, or the endpoint with the client's name and secret."""
        key = "sasl.oauthbearer.token.endpoint.url"
        url = self._value(key) or ""
        wrong = self._wrong(key, "is the URL of a token endpoint, or of a file with a token: file:///path/of/token")
        try:
            parts = urlsplit(url)
        except ValueError:  # brackets that are not an IPv6 host
            raise wrong from None
        if parts.scheme == "file" and parts.path:
            return {"token_file": unquote(parts.path)}
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise wrong
        prefix = "sasl.oauthbearer.client.credentials.client."
        found = {}
        for option, name in (("clientId", f"{prefix}id"), ("clientSecret", f"{prefix}secret")):
            # the keys came with Kafka 4.1 (KIP-1139) and go before the options
            value = self._value(name) or login.options.get(option)
            if not value:
                raise self._wrong(name, f'is missing; or give {login.module} {option}="…" in sasl.jaas.config')
            found[option] = value
        scope = self._value("sasl.oauthbearer.scope") or login.options.get("scope")
        authorities = login.options.get("ssl.truststore.location")
        return {
            "client_credentials": ClientCredentials(url, found["clientId"], found["clientSecret"], scope, authorities)
        }

    def _tls(self) -> dict[str, str | bool | None]:
        found: dict[str, str | bool | None] = {"check_hostname": self._check_hostname()}
        found |= self._store("truststore", "ca_file", "ca_pem", "ssl.truststore.certificates")
        found |= self._store("keystore", "certificate_file", "certificate_pem", "ssl.keystore.certificate.chain")
        key = self._value("ssl.keystore.key")
        if ("certificate_pem" in found) != (key is not None):
            raise self._wrong(
                "ssl.keystore.key" if key is not None else "ssl.keystore.certificate.chain",
                "ssl.keystore.key and ssl.keystore.certificate.chain go together",
            )
        if key is not None:
            found["key_pem"] = _pem_text(key)
        return found | self._if_set("key_password", "ssl.key.password")

    def _store(self, store: str, file_field: str, text_field: str, text_key: str) -> dict[str, str | bool | None]:
        location_key = f"ssl.{store}.location"
        location, text = self._value(location_key), self._value(text_key)
        kind = (self._value(f"ssl.{store}.type") or "").upper()
        if location is not None and text is not None:
            raise self._wrong(text_key, f"is set as well as {location_key}; keep one of them")
        if text is not None:
            if kind != "PEM":
                raise self._wrong(text_key, f"needs ssl.{store}.type=PEM")
            return {text_field: _pem_text(text)}
        if location is None:
            return {}
        try:
            head = Path(location).read_bytes()
        except (OSError, ValueError) as error:  # ValueError: a null byte in the name
            reason = error.strerror if isinstance(error, OSError) else error
            raise self._wrong(location_key, f"{location!r} cannot be read: {reason}") from error
        if _PEM not in head:
            raise self._wrong(location_key, f"{location} {_conversion(store, location, head)}")
        if kind not in ("", "PEM"):
            raise self._wrong(f"ssl.{store}.type", f"is {kind}, but {location} holds PEM; set ssl.{store}.type=PEM")
        return {file_field: location}

    def _check_hostname(self) -> bool:
        key = "ssl.endpoint.identification.algorithm"
        value = self._value(key)
        if value is None or value.lower() == "https":
            return True
        if value:
            raise self._wrong(key, f"is https or empty (names are not checked), not {value!r}")
        return False

    def _timeout(self) -> int | None:
        value = self._value("request.timeout.ms")
        if value is None:
            return None
        if not (value.isascii() and value.isdecimal() and len(value) <= 10 and 0 < int(value) < 2**31):
            raise self._wrong("request.timeout.ms", f"{value[:100]!r} is not a number of milliseconds above 0")
        return int(value)

    def _ignored(self, protocol: str) -> tuple[str, ...]:
        notes, unused = [], self._unused(protocol)
        for key in self._properties:
            if key == BOOTSTRAP:
                notes.append(f"{key} (--bootstrap-server says where to connect)")
            elif key in unused:
                notes.append(f"{key} (security.protocol={protocol} has no use for it)")
            elif key not in KEYS:
                close = difflib.get_close_matches(key, KEYS, 1, 0.85)
                notes.append(f"{key} (is {close[0]} meant?)" if close else key)
        return tuple(notes)

    def _unused(self, protocol: str) -> list[str]:
        """Return the keys of the login or of TLS that this protocol leaves aside."""
        aside: tuple[str, ...] = ("sasl.jaas.", "sasl.oauthbearer.") if not protocol.startswith("SASL_") else ()
        aside += ("ssl.truststore.", "ssl.keystore.") if not protocol.endswith("SSL") else ()
        return [key for key in self._properties if key.startswith(aside) and key in KEYS]

    def _choice(self, key: str, choices: tuple[str, ...]) -> str | None:
        value = self._value(key)
        if value is None:
            return None
        if value.upper() in choices:
            return value.upper()
        close = difflib.get_close_matches(value.upper(), choices, 1, 0.5)
        hint = f"; is {close[0]} meant?" if close else ""
        raise self._wrong(key, f"is one of {', '.join(choices)}, not {value!r}{hint}")

    def _value(self, key: str) -> str | None:
        entry = self._properties.get(key)
        return None if entry is None else entry.value.strip()

    def _if_set(self, name: str, key: str) -> dict[str, str | None]:
        value = self._value(key)
        return {} if value is None else {name: value}

    def _wrong(self, key: str, problem: str) -> PropertiesError:
        """Return the error for a key that is wrong or absent."""
        entry = self._properties.get(key)
        if entry is None:
            # a key that is absent may be there with a typing error
            close = difflib.get_close_matches(key, self._properties, 1, 0.8)
            if close and close[0] not in KEYS:
                misspelt = self._properties[close[0]]
                return PropertiesError(
                    self._file, f"is not a property of Kafka; is {key} meant?", line=misspelt.line, key=misspelt.key
                )
        return PropertiesError(self._file, problem, line=entry.line if entry else None, key=key)


def _pem_text(value: str) -> str:
    """Put the line breaks back that a PEM loses when a person writes it on one line."""
    return "".join(f"{begin}\n{chr(10).join(body.split())}\n{end}\n" for begin, body, end in _PEM_BLOCK.findall(value))


def _conversion(store: str, location: str, head: bytes) -> str:
    """Say how to turn a Java key store into PEM, which every client can read."""
    kept = "-nokeys" if store == "truststore" else "-nodes"
    then = f"set ssl.{store}.type=PEM and ssl.{store}.location={store}.pem"
    source, first = location, ""
    if head.startswith(_JKS):
        source = f"{store}.p12"
        first = f"`keytool -importkeystore -srckeystore {location} -destkeystore {source} -deststoretype PKCS12` and "
    elif not head.startswith(_DER):
        return f"holds no PEM certificate; {then}"
    kind = "a JKS store, which only Java reads" if first else "a PKCS12 store, which is not supported"
    return f"is {kind}; convert it with {first}`openssl pkcs12 -in {source} {kept} -out {store}.pem`, and {then}"

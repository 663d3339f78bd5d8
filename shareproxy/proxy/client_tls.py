"""Speak TLS with clients.

In: PEM files. Out: a context for all ports, made anew from replaced files when told to, and the host name that a client
asked for (SNI). Must never: accept TLS below 1.2, serve a half-read certificate, or trust what the files do not name.
"""

from __future__ import annotations

import asyncio
import ssl
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Literal

from shareproxy.cluster.errors import PropertiesError

ClientAuth = Literal["none", "requested", "required"]
_VERIFY: Final = {
    "none": ssl.CERT_NONE,
    "requested": ssl.CERT_OPTIONAL,
    "required": ssl.CERT_REQUIRED,
}
_SERVER_NAME: Final = "shareproxy_server_name"


@dataclass(frozen=True, slots=True)
class ClientTls:
    """What clients are shown, and what they must show.

    Args:
        certificate_file: PEM file with the certificate chain, and with the key if `key_file` is None. Clients check
            that it is for the advertised host.
        key_file: PEM file with the key.
        key_password: of an encrypted key.
        client_ca_file: PEM file with the authorities of client certificates.
        client_auth: whether clients need a certificate: Kafka's words for `ssl.client.auth`. It is only checked: the
            brokers see this proxy's certificate, or none.

    Raises:
        PropertiesError: the parts contradict each other.
    """

    certificate_file: str
    key_file: str | None = None
    key_password: str | None = field(default=None, repr=False)
    client_ca_file: str | None = None
    client_auth: ClientAuth = "none"

    def __post_init__(self) -> None:
        if self.client_auth != "none" and self.client_ca_file is None:
            text = f"client certificates are {self.client_auth}, but no file says whose are good; name the authorities"
            raise PropertiesError(self.certificate_file, text)


class TlsPorts:
    """The TLS side of all ports.

    Args:
        tls: files to read.

    Raises:
        PropertiesError: names the file and the problem.
    """

    def __init__(self, tls: ClientTls) -> None:
        self._tls = tls
        self.context = _load(tls)
        """For the next handshake; another one after each reload."""

    def reload(self) -> None:
        """Read the files again: new connections get what is in them now, open ones go on.

        An authority of client certificates that was taken out of its file is not trusted any more.

        Raises:
            PropertiesError: a file cannot be used; what was there before goes on.
        """
        self.context = _load(self._tls)  # a context that is in use forgets no authority, nor its sessions


def server_name(transport: asyncio.BaseTransport) -> str | None:
    """Return the host name that the client asked for, None without TLS or without a name."""
    found: str | None = getattr(transport.get_extra_info("ssl_object"), _SERVER_NAME, None)
    return found


def _remember_server_name(connection: ssl.SSLSocket | ssl.SSLObject, name: str | None, context: ssl.SSLContext) -> None:
    setattr(connection, _SERVER_NAME, name)


def _load(tls: ClientTls) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.sni_callback = _remember_server_name
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    # resuming a session would skip the name that the client asks for
    context.options |= ssl.OP_NO_TICKET | ssl.OP_NO_COMPRESSION | ssl.OP_NO_RENEGOTIATION
    try:
        # without a password given, OpenSSL would ask for one on the terminal
        context.load_cert_chain(tls.certificate_file, tls.key_file, tls.key_password or "")
    except (OSError, ValueError) as error:  # ssl.SSLError is an OSError
        raise _unusable(*_what_is_wrong(tls, error)) from error
    if tls.client_ca_file is not None:
        try:
            context.load_verify_locations(tls.client_ca_file)
        except (OSError, ValueError) as error:
            raise _unusable(tls.client_ca_file, _system_words(error) or "no usable PEM certificate is in it") from error
        context.verify_mode = _VERIFY[tls.client_auth]
    return context


def _what_is_wrong(tls: ClientTls, error: OSError | ValueError) -> tuple[str, str]:
    """Return which of the two files is to blame, and for what: OpenSSL does not say which."""
    if isinstance(error, ssl.SSLError) and error.reason == "KEY_VALUES_MISMATCH":
        of = "" if tls.key_file is None else f" in {tls.key_file}"
        return tls.certificate_file, f"the key{of} does not belong to the certificate"
    reason = _system_words(error)
    if tls.key_file is None:
        return (
            tls.certificate_file,
            reason or "no usable PEM certificate or key is in it, or the key's password is wrong",
        )
    if reason is not None:
        return (tls.key_file if _can_be_read(tls.certificate_file) else tls.certificate_file), reason
    try:
        ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_verify_locations(tls.certificate_file)
    except (OSError, ValueError):
        return tls.certificate_file, "no usable PEM certificate is in it"
    return tls.key_file, "no usable PEM key is in it, or its password is wrong"


def _system_words(error: OSError | ValueError) -> str | None:
    """Return the system's own words for a file that it does not give, None where the content is the matter."""
    return error.strerror if isinstance(error, OSError) and not isinstance(error, ssl.SSLError) else None


def _can_be_read(file: str) -> bool:
    try:
        with Path(file).open("rb"):
            return True
    except (OSError, ValueError):
        return False


def _unusable(file: str, reason: str) -> PropertiesError:
    return PropertiesError(file, f"cannot be used for TLS with clients: {reason}")

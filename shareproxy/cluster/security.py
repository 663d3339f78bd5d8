"""Say how connections to the brokers are secured.

In: what a property file or a caller wants. Out: a frozen description, and a TLS context from it.
Must never: show a secret in its `repr`, or touch TLS for plain text.
"""

from __future__ import annotations

import functools
import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Final

from shareproxy.cluster.errors import PropertiesError
from shareproxy.cluster.oauth import ClientCredentials

if TYPE_CHECKING:
    import ssl

PROTOCOLS: Final = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
MECHANISMS: Final = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER", "GSSAPI")


@dataclass(frozen=True)
class Security:
    """How a connection is secured, in Kafka's terms.

    Args:
        protocol: one of `PROTOCOLS`.
        sasl_mechanism: one of `MECHANISMS`, with a SASL protocol only.
        username: for PLAIN and SCRAM.
        password: for PLAIN and SCRAM.
        ca_file: PEM file with the authorities to trust; without it and `ca_pem` the system's.
        ca_pem: the same as text.
        certificate_file: PEM file with our certificate chain, and with our key if `key_file` is None.
        certificate_pem: the same as text.
        key_file: PEM file with our key.
        key_pem: the same as text.
        key_password: of an encrypted key.
        check_hostname: whether the broker's certificate must carry the name we connect to.
        token_file: file with the token for OAUTHBEARER, read at each login.
        client_credentials: the token endpoint for OAUTHBEARER, instead of the file.
        kerberos_service_name: for GSSAPI.

    Raises:
        ValueError: the parts contradict each other; names the Java property to change.
    """

    protocol: str = "PLAINTEXT"
    sasl_mechanism: str | None = None
    username: str | None = None
    password: str | None = field(default=None, repr=False)
    ca_file: str | None = None
    ca_pem: str | None = field(default=None, repr=False)
    certificate_file: str | None = None
    certificate_pem: str | None = field(default=None, repr=False)
    key_file: str | None = None
    key_pem: str | None = field(default=None, repr=False)
    key_password: str | None = field(default=None, repr=False)
    check_hostname: bool = True
    token_file: str | None = None
    client_credentials: ClientCredentials | None = None
    kerberos_service_name: str = "kafka"

    def __post_init__(self) -> None:
        if self.protocol not in PROTOCOLS:
            raise ValueError(f"security.protocol is one of {', '.join(PROTOCOLS)}, not {self.protocol!r}")
        if not self.sasl:
            return
        if self.sasl_mechanism not in MECHANISMS:
            raise ValueError(f"sasl.mechanism is one of {', '.join(MECHANISMS)}, not {self.sasl_mechanism!r}")
        if self.sasl_mechanism == "OAUTHBEARER":
            if (self.token_file is None) is (self.client_credentials is None):
                raise ValueError("OAUTHBEARER needs a file with the token, or a token endpoint")
        elif self.sasl_mechanism != "GSSAPI" and (self.username is None or self.password is None):
            raise ValueError(f"{self.sasl_mechanism} needs a user name and a password")

    @property
    def tls(self) -> bool:
        """Tell whether connections are encrypted."""
        return self.protocol in ("SSL", "SASL_SSL")

    @property
    def sasl(self) -> bool:
        """Tell whether connections begin with a login."""
        return self.protocol in ("SASL_PLAINTEXT", "SASL_SSL")

    def ssl_context(self) -> ssl.SSLContext:
        """Return the TLS context; files that were replaced since the last call are read again.

        Raises:
            PropertiesError: names the file and the problem.
        """
        return _context(self, tuple(_stamp(name) for name in (self.ca_file, self.certificate_file, self.key_file)))


PLAINTEXT: Final = Security()


def _stamp(name: str | None) -> tuple[int, int] | None:
    """Return what changes when a file is replaced."""
    if name is None:
        return None
    try:
        status = os.stat(name)
    except OSError as error:
        raise PropertiesError(name, f"cannot be read: {error.strerror}") from error
    return status.st_mtime_ns, status.st_ino


@functools.lru_cache(maxsize=8)
def _context(security: Security, _stamps: object) -> ssl.SSLContext:
    import ssl

    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.check_hostname = security.check_hostname
    named = security.ca_file or "the trusted certificates"
    try:
        if security.ca_file is None and security.ca_pem is None:
            context.load_default_certs(ssl.Purpose.SERVER_AUTH)
        else:
            context.load_verify_locations(cafile=security.ca_file, cadata=security.ca_pem)
        named = security.certificate_file or security.key_file or "our certificate"
        _load_own_certificate(context, security)
    except (OSError, ValueError) as error:  # ssl.SSLError is an OSError
        reason = getattr(error, "reason", None) or error
        if isinstance(error, ssl.SSLError) and error.reason in ("NO_START_LINE", "NO_CERTIFICATE_OR_CRL_FOUND", None):
            reason = "no usable PEM certificate or key is in it, or the key's password is wrong"
        raise PropertiesError(named, f"cannot be used for TLS: {reason}") from error
    return context


def _load_own_certificate(context: ssl.SSLContext, security: Security) -> None:
    # without a password given, OpenSSL would ask for one on the terminal
    password = security.key_password or ""
    if security.certificate_file is not None:
        context.load_cert_chain(security.certificate_file, security.key_file, password)
    elif security.certificate_pem is not None:
        # OpenSSL reads a chain from files only; the directory is ours alone (mode 0700) and gone at once
        import tempfile  # slow to load, rarely used

        with tempfile.TemporaryDirectory() as directory:
            chain = Path(directory, "chain.pem")
            chain.write_text(f"{security.key_pem or ''}\n{security.certificate_pem}\n")
            context.load_cert_chain(chain, password=password)

"""Speak TLS with clients.

In: PEM files. Out: a context for all ports, which takes replaced files when told to, and the host name that a client
asked for (SNI). Must never: accept TLS below 1.2, or serve a half-read certificate.
"""

from __future__ import annotations

import asyncio
import ssl
from dataclasses import dataclass, field
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
        self.context = _load(tls, ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER))
        self.context.sni_callback = _remember_server_name

    def reload(self) -> None:
        """Read the files again: new connections get the new certificate, open ones go on.

        Authorities of client certificates are added; one that was taken out of the file is trusted until a restart.

        Raises:
            PropertiesError: a file cannot be used; what was there before goes on.
        """
        _load(self._tls, ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER))  # a bad file must not spoil the context in use
        _load(self._tls, self.context)


def server_name(transport: asyncio.BaseTransport) -> str | None:
    """Return the host name that the client asked for, None without TLS or without a name."""
    found: str | None = getattr(transport.get_extra_info("ssl_object"), _SERVER_NAME, None)
    return found


def _remember_server_name(connection: ssl.SSLSocket | ssl.SSLObject, name: str | None, context: ssl.SSLContext) -> None:
    setattr(connection, _SERVER_NAME, name)


def _load(tls: ClientTls, context: ssl.SSLContext) -> ssl.SSLContext:
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    # resuming a session would skip the name that the client asks for
    context.options |= ssl.OP_NO_TICKET | ssl.OP_NO_COMPRESSION | ssl.OP_NO_RENEGOTIATION
    named = tls.certificate_file
    try:
        # without a password given, OpenSSL would ask for one on the terminal
        context.load_cert_chain(tls.certificate_file, tls.key_file, tls.key_password or "")
        if tls.client_ca_file is not None:
            named = tls.client_ca_file
            context.load_verify_locations(tls.client_ca_file)
            context.verify_mode = _VERIFY[tls.client_auth]
    except (OSError, ValueError) as error:  # ssl.SSLError is an OSError
        reason = error.strerror if isinstance(error, OSError) and not isinstance(error, ssl.SSLError) else None
        if reason is None:
            reason = "no usable PEM certificate or key is in it, or the key's password is wrong"
            if isinstance(error, ssl.SSLError) and error.reason == "KEY_VALUES_MISMATCH":
                reason = "the key does not belong to the certificate"
        raise PropertiesError(named, f"cannot be used for TLS with clients: {reason}") from error
    return context

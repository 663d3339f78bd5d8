"""Name every way in which a client's connection ends.

In: nothing. Out: one enum; its value is the `reason` of the log line. Must never: have two names for one cause.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Final


class CloseReason(StrEnum):
    """Why one client connection and its broker connection were closed; exactly one per connection."""

    CLIENT_CLOSED = "client_closed"
    """The client ended the connection."""
    NO_REQUEST = "no_request"
    """The client ended the connection without sending a byte, as TCP health probes do."""
    BROKER_CLOSED = "broker_closed"
    """The broker ended the connection; it does so for requests it does not accept, and when idle."""
    BROKER_UNREACHABLE = "broker_unreachable"
    """No broker could be connected to for this client."""
    NODE_UNKNOWN = "node_unknown"
    """The port belongs to a node id that is not in the cluster now."""
    TLS_HELLO = "tls_hello"
    """The client speaks TLS to a plain port."""
    HTTP_REQUEST = "http_request"
    """The client speaks HTTP."""
    FRAME_SIZE = "frame_size"
    """A request's size is zero or negative."""
    FRAME_TOO_LARGE = "frame_too_large"
    """A request's size is over the limit."""
    UNAUTHENTICATED_FRAME_TOO_LARGE = "unauthenticated_frame_too_large"
    """A request before authentication, or one that authenticates, is over the limit for those."""
    MALFORMED_REQUEST = "malformed_request"
    """A request has no readable header."""
    UNSUPPORTED_VERSION = "unsupported_version"
    """A request whose answer must be edited has a version that was never advertised."""
    UNSUPPORTED_SASL = "unsupported_sasl"
    """SaslHandshake v0 with a mechanism whose raw tokens have no known end."""
    MALFORMED_ANSWER = "malformed_answer"
    """A broker's answer that must be edited is not what its version says."""
    ANSWER_TOO_LARGE = "answer_too_large"
    """A broker's answer that must be edited is over the limit."""
    UNEXPECTED_ANSWER = "unexpected_answer"
    """A broker's answer belongs to no request, or not to the next one."""
    TOO_MANY_CONNECTIONS = "too_many_connections"
    """The limit of client connections is reached."""
    TOO_MANY_FROM_ADDRESS = "too_many_from_address"
    """The limit of connections from one client address is reached."""
    FIRST_REQUEST_TIMEOUT = "first_request_timeout"
    """The client did not send the first fields of a request in time."""
    AUTHENTICATION_TIMEOUT = "authentication_timeout"
    """The client did not get through SASL in time, on brokers that want it."""
    SLOW_REQUEST = "slow_request"
    """The rest of a request came too slowly."""
    STALLED = "stalled"
    """One side did not take, or did not answer, what the other had sent, and nothing moved for long."""
    IDLE_TIMEOUT = "idle_timeout"
    """Nothing was in flight and nothing was sent for long."""
    PLAIN_TEXT = "plain_text"
    """The client speaks plain text to a port that speaks TLS."""
    TLS_HANDSHAKE = "tls_handshake"
    """The TLS handshake failed: no version or cipher in common, or the client left."""
    TLS_REFUSED = "tls_refused"
    """The client does not accept the certificate that it was shown."""
    TLS_CLIENT_CERTIFICATE = "tls_client_certificate"
    """The client showed no certificate where one is required, or one that is not accepted."""
    TLS_TIMEOUT = "tls_timeout"
    """The TLS handshake was not done in time."""
    STOPPED = "stopped"
    """This process is being stopped."""
    INTERNAL_ERROR = "internal_error"
    """A bug here; the log has the traceback."""


# Ends that are nobody's fault.
ORDINARY: Final = frozenset(
    {CloseReason.CLIENT_CLOSED, CloseReason.BROKER_CLOSED, CloseReason.IDLE_TIMEOUT, CloseReason.STOPPED}
)


def log_level(reason: CloseReason) -> str:
    """Return at which level an end is logged: health probes at debug, ordinary ends at info, the rest are warnings."""
    if reason is CloseReason.NO_REQUEST:
        return "debug"
    return "info" if reason in ORDINARY else "warning"

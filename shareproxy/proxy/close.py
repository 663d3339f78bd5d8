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
    STOPPED = "stopped"
    """This process is being stopped."""
    INTERNAL_ERROR = "internal_error"
    """A bug here; the log has the traceback."""


# Ends that are nobody's fault: logged at info; health probes at debug; the rest are warnings.
ORDINARY: Final = frozenset({CloseReason.CLIENT_CLOSED, CloseReason.BROKER_CLOSED, CloseReason.STOPPED})

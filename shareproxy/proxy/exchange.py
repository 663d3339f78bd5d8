"""Hold what the request side and the answer side of one connection know of each other.

In: request heads in the order they were sent on. Out: the same heads in the order their answers are due, and whose
turn it is in a SASL exchange without headers. Must never: hold a payload.
"""

from __future__ import annotations

from collections import deque
from enum import Enum, auto
from typing import Final, NamedTuple

from shareproxy.protocol.messages import SaslAuthenticateResponse
from shareproxy.proxy.close import CloseReason
from shareproxy.proxy.meter import ApiCounts
from shareproxy.proxy.out_of_range import LocalRows

RequestHead = tuple[int, int, int, int]
"""Size, api_key, api_version, correlation_id, as they stand on the wire."""

# Requests without an answer yet, at which the client is no longer read. Brokers work on one at a time, so more of
# them in flight gain nothing; librdkafka's own limit is a million.
MAX_IN_FLIGHT: Final = 1_000
# Kafka's `sasl.server.max.receive.size`
MAX_TOKEN_BYTES: Final = 524_288
# Tokens a client sends per mechanism: the only way to know where an exchange without headers ends. GSSAPI varies.
TOKEN_ROUNDS: Final = {"PLAIN": 1, "SCRAM-SHA-256": 2, "SCRAM-SHA-512": 2, "OAUTHBEARER": 1}
# A broker that refuses an OAUTHBEARER token says so in bytes that the client has to acknowledge; success has none.
_EMPTY_ON_SUCCESS: Final = "OAUTHBEARER"


class Phase(Enum):
    """What the client may send next."""

    REQUESTS = auto()
    HANDSHAKE = auto()
    CLIENT_TOKEN = auto()
    BROKER_TOKEN = auto()
    LOOKUP = auto()


# Python 3.11 looks a member of an enum up by a function of its own: too slow for what is compared with each chunk.
REQUESTS: Final = Phase.REQUESTS
CLIENT_TOKEN: Final = Phase.CLIENT_TOKEN
BROKER_TOKEN: Final = Phase.BROKER_TOKEN


class ClosingError(Exception):
    """Leave the frame loops: the connection must close."""

    def __init__(self, reason: CloseReason, detail: str) -> None:
        super().__init__(detail)
        self.reason, self.detail = reason, detail


class LagAsked(NamedTuple):
    """A DescribeShareGroupOffsets request that waits for its answer.

    Attributes:
        version: in which it went to the broker.
        local: rows that are answered here, if there are any.
    """

    version: int
    local: LocalRows | None = None


class BrokerVersions:
    """What one broker has said in ApiVersions; shared by the connections to it, as some clients ask on one only."""

    __slots__ = ("lag_version",)

    def __init__(self, lag_version: int | None = None) -> None:
        self.lag_version = lag_version
        """Its newest DescribeShareGroupOffsets; None: it has none, or has not said."""


class Exchange:
    """Requests that wait for their answers, and the phase of the connection.

    Args:
        versions: of the broker.
        fills_lag: whether DescribeShareGroupOffsets v1 answers get their Lag here.
        authenticated: whether all that a client must do is done; False where the broker wants SASL.
        max_in_flight: requests without an answer at which the client is no longer read.
        apis: counts requests and answers.
    """

    __slots__ = (
        "apis",
        "authenticated",
        "crowded",
        "fills_lag",
        "lag_asked",
        "max_in_flight",
        "mechanism",
        "outstanding",
        "phase",
        "rounds_left",
        "versions",
    )

    def __init__(
        self,
        versions: BrokerVersions,
        *,
        fills_lag: bool,
        authenticated: bool = True,
        max_in_flight: int = MAX_IN_FLIGHT,
        apis: ApiCounts | None = None,
    ) -> None:
        self.versions, self.fills_lag = versions, fills_lag
        self.authenticated, self.max_in_flight = authenticated, max_in_flight
        self.apis = ApiCounts() if apis is None else apis
        self.outstanding: deque[RequestHead] = deque()
        self.lag_asked: deque[LagAsked] = deque()
        """The outstanding DescribeShareGroupOffsets requests; empty unless `fills_lag`."""
        self.crowded = False
        self.phase = REQUESTS
        self.rounds_left = 0
        self.mechanism = ""

    @property
    def full(self) -> bool:
        """Whether no more requests may go out until an answer comes."""
        return len(self.outstanding) >= self.max_in_flight

    def asked_version(self, version: int) -> int:
        """Return the version in which the broker is asked for DescribeShareGroupOffsets."""
        return 0 if self.versions.lag_version == 0 else version

    def expect_tokens(self, mechanism: str) -> None:
        """Note that a SaslHandshake v0 goes out: what follows depends on its answer."""
        self.phase, self.mechanism, self.rounds_left = Phase.HANDSHAKE, mechanism, TOKEN_ROUNDS.get(mechanism, 0)

    def expect_authentication(self, mechanism: str) -> None:
        """Note that a SaslHandshake v1 goes out: SaslAuthenticate requests follow."""
        self.mechanism, self.rounds_left = mechanism, TOKEN_ROUNDS.get(mechanism, 1)

    def authentication_answered(self, answer: SaslAuthenticateResponse) -> None:
        """Note the answer to a SaslAuthenticate of a client that is not authenticated yet."""
        if answer.error_code or (self.mechanism == _EMPTY_ON_SUCCESS and answer.auth_bytes):
            return
        self.rounds_left -= 1
        self.authenticated = self.rounds_left <= 0

    def handshake_answered(self, accepted: bool) -> None:
        """Note the answer to a SaslHandshake v0.

        Raises:
            ClosingError: tokens follow, and those of this mechanism have no known end.
        """
        if accepted and not self.rounds_left:
            detail = f"SaslHandshake v0 for {self.mechanism!r}; let the client use v1, which every Kafka since 1.0 has"
            raise ClosingError(CloseReason.UNSUPPORTED_SASL, detail)
        self.phase = CLIENT_TOKEN if accepted else REQUESTS

    def client_token_passed(self) -> None:
        """Note that it is the broker's turn."""
        self.phase = BROKER_TOKEN

    def broker_token_passed(self) -> None:
        """Note that it is the client's turn: with the next token, or with requests after the last one."""
        self.rounds_left -= 1
        if self.rounds_left:
            self.phase = CLIENT_TOKEN
        else:
            self.phase, self.authenticated = REQUESTS, True

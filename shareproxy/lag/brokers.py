"""Name what the lag layer needs from a cluster client, and sort its failures.

In: errors of the cluster layer and Kafka's error codes. Out: one `Trouble` per partition: status, sentence, and
whether asking again may help. Must never: send anything.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, Final, Protocol, TypeVar

import msgspec

from shareproxy.cluster.coordinators import CoordinatorFailure
from shareproxy.cluster.errors import AuthenticationFailed, ClusterError, NotAuthorized, UnsupportedApi
from shareproxy.cluster.metadata import ClusterMetadata
from shareproxy.cluster.pool import DATA
from shareproxy.cluster.retries import Retry, classify
from shareproxy.lag.model import Status
from shareproxy.protocol.errors import ErrorCode, error_name
from shareproxy.protocol.ids import GroupId, NodeId, TopicId
from shareproxy.protocol.message import Request, Response

Q = TypeVar("Q", bound=Response)


class Offered(Protocol):
    """What one broker offers, such as `cluster`'s `ApiVersionTable`."""

    @property
    def features(self) -> Mapping[str, int]:
        """Finalized level by feature name."""
        ...

    def highest(self, request: type[Request[Any]], /) -> int | None:
        """Return the highest version of a request that both sides know."""
        ...


class Brokers(Protocol):
    """The part of `cluster.Cluster` that the lag layer uses; deadlines are `loop.time()` seconds."""

    async def metadata(
        self, topics: Collection[str] | None = (), *, deadline: float, max_age: float = 0.0
    ) -> ClusterMetadata:
        """Return brokers and the named topics (`None`: all); never creates a topic."""
        ...

    async def request(
        self,
        node_id: NodeId | None,
        message: Request[Q],
        *,
        deadline: float,
        max_version: int | None = None,
        purpose: str = DATA,
    ) -> Q:
        """Ask one broker once (`None`: any broker); requests of different purposes never wait for each other."""
        ...

    async def versions(self, node_id: NodeId | None, *, deadline: float) -> Offered:
        """Return what a broker speaks."""
        ...

    async def group_coordinator(self, group: GroupId, *, deadline: float) -> NodeId:
        """Return the broker that keeps the group."""
        ...

    async def share_coordinators(
        self, group: GroupId, partitions: Collection[tuple[TopicId, int]], *, deadline: float
    ) -> Mapping[tuple[TopicId, int], NodeId | CoordinatorFailure]:
        """Return the brokers that keep the state of share partitions."""
        ...

    def forget_group_coordinator(self, group: GroupId) -> None:
        """Look it up again next time."""
        ...

    def forget_share_coordinators(self) -> None:
        """Look them up again next time."""
        ...

    def forget_metadata(self) -> None:
        """Look topics and leaders up again next time."""
        ...


class Trouble(msgspec.Struct, frozen=True, gc=False):
    """Why there is no answer for a partition.

    Attributes:
        again: whether another attempt, with coordinators and leaders looked up anew, may succeed.
    """

    status: Status
    error_code: int | None
    message: str
    again: bool = False


_STATUS: Final[Mapping[int, Status]] = {
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: Status.TOPIC_MISSING,
    ErrorCode.UNKNOWN_TOPIC_ID: Status.TOPIC_MISSING,
    ErrorCode.LEADER_NOT_AVAILABLE: Status.NO_LEADER,
    ErrorCode.REQUEST_TIMED_OUT: Status.TIMEOUT,
    ErrorCode.NETWORK_EXCEPTION: Status.TIMEOUT,
    ErrorCode.TOPIC_AUTHORIZATION_FAILED: Status.NOT_AUTHORIZED,
    ErrorCode.GROUP_AUTHORIZATION_FAILED: Status.NOT_AUTHORIZED,
    ErrorCode.CLUSTER_AUTHORIZATION_FAILED: Status.NOT_AUTHORIZED,
    ErrorCode.UNSUPPORTED_VERSION: Status.UNSUPPORTED,
}

_ADVICE: Final[Mapping[int, str]] = {
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: "the topic or partition does not exist on the broker that was asked",
    ErrorCode.LEADER_NOT_AVAILABLE: "the partition has no leader; check the brokers that hold its replicas",
    ErrorCode.NOT_LEADER_OR_FOLLOWER: "the leader moved while it was asked; try again",
    ErrorCode.REQUEST_TIMED_OUT: "the broker gave up waiting; allow more time",
    ErrorCode.NETWORK_EXCEPTION: "the broker lost its connection to another broker; try again",
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS: "the coordinator is still loading its state; try again in a moment",
    ErrorCode.COORDINATOR_NOT_AVAILABLE: "the coordinator is not there yet; try again in a moment",
    ErrorCode.NOT_COORDINATOR: "the coordinator moved while it was asked; try again",
    ErrorCode.TOPIC_AUTHORIZATION_FAILED: "this user may not see the topic; grant DESCRIBE on the topic",
    ErrorCode.GROUP_AUTHORIZATION_FAILED: "this user may not see the group; grant DESCRIBE on the group",
    ErrorCode.CLUSTER_AUTHORIZATION_FAILED: (
        "this user may not read the state of share groups; grant CLUSTER_ACTION on the cluster"
    ),
    ErrorCode.UNSUPPORTED_VERSION: "share groups are switched off on this broker; check feature share.version",
}


def trouble_from_code(code: int, text: str | None = None) -> Trouble:
    """Sort an error code of a partition row.

    Args:
        code: Kafka's error code, not 0.
        text: the broker's own message if it sent one.
    """
    advice = _ADVICE.get(code) or text or "the broker gave no reason"
    message = f"{advice.rstrip('.')} (error {code} {error_name(code)})"
    return Trouble(_STATUS.get(code, Status.ERROR), code, message, classify(code) is not Retry.FINAL)


def trouble_from_error(error: ClusterError) -> Trouble:
    """Sort a failure to ask at all; its own sentence is kept."""
    code: int | None = getattr(error, "code", None)
    text = str(error)
    if isinstance(error, AuthenticationFailed | NotAuthorized):
        return Trouble(Status.NOT_AUTHORIZED, code, text)
    if isinstance(error, UnsupportedApi):
        return Trouble(Status.UNSUPPORTED, ErrorCode.UNSUPPORTED_VERSION, text)
    status = Status.TIMEOUT if code is None else _STATUS.get(code, Status.ERROR)
    return Trouble(status, code, text, error.retry is not Retry.FINAL)


TIMED_OUT: Final = Trouble(
    Status.TIMEOUT, None, "no answer within the time given; allow more time, or look at the broker's health"
)

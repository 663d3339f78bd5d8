"""What an answer is made from, and what it may be besides a message.

In: one request that a node got. Out: nothing by itself. Must never: be kept after the answer.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any, Final, Generic, NamedTuple, Protocol, TypeVar

from shareproxy.protocol.ids import TopicId
from shareproxy.protocol.message import Request, Response
from shareproxy.testing.simulation.cluster_state import Broker, ClusterState
from shareproxy.testing.simulation.steps import Step, steps_of

M = TypeVar("M", bound=Request[Any])

# what brokers write beside an error code, as seen on the wire: clients log it, so it is part of the answer
TEXTS: Final = {
    -1: "The server experienced an unexpected error when processing the request.",
    3: "This server does not host this topic-partition.",
    5: "There is no leader for this topic-partition as we are in the middle of a leadership election.",
    7: "The request timed out.",
    13: "The server disconnected before a response was received.",
    14: "The coordinator is loading and hence can't process requests.",
    15: "The coordinator is not available.",
    16: "This is not the correct coordinator.",
    29: "Topic authorization failed.",
    30: "Group authorization failed.",
    31: "Cluster authorization failed.",
    35: "The version of API is not supported.",
    42: "This most likely occurs because of a request being malformed by the client library or the message was sent to "
    "an incompatible broker. See the broker logs for more details.",
    68: "The group is not empty.",
    69: "The group id does not exist.",
}
TRY_AGAIN: Final = frozenset({14, 15, 16})


class Call(NamedTuple, Generic[M]):
    """One request: what, in which version, from whom, to which node."""

    state: ClusterState
    node: Broker
    message: M
    version: int
    principal: str
    connection: object = None
    client_id: str = ""

    def may(self, operation: str, resource: str, name: str) -> bool:
        """Tell whether the caller may do an operation on a topic or group."""
        return self.state.rights.may(self.principal, operation, resource, name)

    def may_in_cluster(self, operation: str) -> bool:
        """Tell whether the caller may do an operation on the cluster."""
        return self.state.rights.may(self.principal, operation, "CLUSTER")

    def fault(
        self,
        *,
        group: str | None = None,
        topic: str | None = None,
        partition: int | None = None,
        api: int | None = None,
        steps: Collection[Step] | None = None,
        of_steps_only: bool = False,
    ) -> int:
        """Return the error code that was scripted for a place, 0 for none.

        Args:
            group: its name.
            topic: its name, for a row of an answer.
            partition: its number.
            api: if it is not that of the request.
            steps: what the place is about; None for all that the request is.
            of_steps_only: leave out faults that are about any request.
        """
        return self.state.faults.code(
            self.message.api_key if api is None else api,
            self.node.node_id,
            group=group,
            topic=topic,
            partition=partition,
            steps=steps_of(self.message) if steps is None else steps,
            of_steps_only=of_steps_only,
        )

    def coordinator_problem(self, group: str) -> int:
        """Return 16, 14 or 15 where this node cannot speak for a group, or the code that was scripted; else 0."""
        if code := self.fault(group=group):
            return code
        coordinator = self.state.group_coordinator(group)
        if coordinator != self.node.node_id:
            return 16
        return 14 if group in self.state.loading else 0


class Parked(Protocol):
    """A request that waits at the broker for something to happen, at most some seconds.

    Attributes:
        seconds: after them it is answered in any case.
        notify: called when the answer may be ready; set by the connection that waits.
    """

    seconds: float
    notify: Callable[[], object]

    def answer(self, *, last: bool) -> Response | None:
        """Return the answer if there is one; the last time there is."""
        ...

    def released(self, places: Collection[tuple[TopicId, int]]) -> None:
        """Take note of share partitions whose records were released."""
        ...

    def abandoned(self) -> None:
        """Take note that the client is gone."""
        ...


class Late(NamedTuple):
    """An answer that the broker needs some seconds for."""

    answer: Response
    seconds: float

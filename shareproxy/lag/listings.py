"""List the groups of a cluster, of every type.

In: types and states to keep. Out: the groups, and a sentence for each broker that did not tell.
Must never: let one broker that hangs hide the groups of the others.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Final

import msgspec

from shareproxy.cluster.errors import Unreachable
from shareproxy.lag.brokers import Brokers, Trouble, trouble_from_code
from shareproxy.lag.rounds import ask_all
from shareproxy.protocol.ids import GroupId, NodeId
from shareproxy.protocol.messages import ListGroupsRequest

WITH_STATE: Final = 4
WITH_TYPE: Final = 5
CLASSIC: Final = "classic"


class ListedGroup(msgspec.Struct, frozen=True):
    """A group of any type.

    Attributes:
        type: Kafka's word in small letters: `share`, `consumer`, `classic`, `streams`; before Kafka 3.8 the protocol
            type instead.
        state: Kafka's word, such as `Stable`; `None` if the broker does not tell.
        coordinator: node id of the broker that keeps the group.
        protocol: Kafka's protocol type; the classic groups of Connect workers for instance have `connect`.
    """

    group: GroupId
    type: str
    state: str | None
    coordinator: NodeId
    protocol: str = ""

    def to_dict(self) -> dict[str, object]:
        """Return a JSON object; every key is always there."""
        return {
            "group": self.group,
            "type": self.type,
            "state": self.state,
            "coordinator": self.coordinator,
            "protocol": self.protocol,
        }


class GroupListing(msgspec.Struct, frozen=True):
    """The groups that were found.

    Attributes:
        groups: sorted by name.
        problems: sentences on brokers whose groups are missing.
    """

    groups: tuple[ListedGroup, ...]
    problems: tuple[str, ...] = ()

    def to_dict(self) -> dict[str, object]:
        """Return a JSON object."""
        return {"groups": [group.to_dict() for group in self.groups], "problems": list(self.problems)}


class GroupLists:
    """The `Question` that ListGroups answers, asked of every broker: the groups that it coordinates.

    Args:
        brokers: where to ask.
        types: in small letters, empty for all; a broker before Kafka 3.8 lists all the same.
    """

    def __init__(self, brokers: Brokers, types: Collection[str]) -> None:
        self._brokers, self._types = brokers, types

    async def route(
        self, items: Sequence[NodeId], *, fresh: bool, deadline: float
    ) -> Mapping[NodeId, NodeId | Trouble]:
        """Return the nodes themselves."""
        return {node_id: node_id for node_id in items}

    async def ask(
        self, node_id: NodeId, items: Sequence[NodeId], *, deadline: float
    ) -> Mapping[NodeId, list[ListedGroup] | Trouble]:
        """Ask one broker for its groups."""
        offered = await self._brokers.versions(node_id, deadline=deadline)
        version = offered.highest(ListGroupsRequest) or 0
        wanted = sorted(self._types) if version >= WITH_TYPE else []
        response = await self._brokers.request(node_id, ListGroupsRequest(types_filter=wanted), deadline=deadline)
        if response.error_code:
            return {node_id: trouble_from_code(response.error_code)}
        return {
            node_id: [
                ListedGroup(
                    GroupId(row.group_id),
                    (row.group_type or row.protocol_type or CLASSIC).lower(),
                    row.group_state or None,
                    node_id,
                    row.protocol_type,
                )
                for row in response.groups
            ]
        }


async def list_groups(
    brokers: Brokers, *, types: Collection[str] = (), states: Collection[str] = (), deadline: float
) -> GroupListing:
    """List groups, one request per broker.

    Args:
        brokers: where to ask.
        types: such as `share`, in any case; empty for all.
        states: such as `Stable`, in any case; empty for all.
        deadline: `loop.time()` seconds.

    Raises:
        ClusterError: no broker told.

    Source: KIP-848, KIP-932, ListGroups (API 16).
    """
    kinds = frozenset(kind.lower() for kind in types)
    kept_states = frozenset(state.lower() for state in states)
    nodes = list((await brokers.metadata((), deadline=deadline)).nodes)
    answers = await ask_all(GroupLists(brokers, kinds), nodes, deadline=deadline)
    found: dict[GroupId, ListedGroup] = {}
    problems: list[str] = []
    for node_id, answer in answers.items():
        if isinstance(answer, Trouble):
            problems.append(f"the groups of broker {node_id} are missing: {answer.message}")
            continue
        for row in answer:
            # a coordinator that has just moved may be listed by both: the one with a state is alive
            if row.group not in found or found[row.group].state in (None, "Dead"):
                found[row.group] = row
    if nodes and len(problems) == len(nodes):
        raise Unreachable(problems[0])
    kept = (
        row
        for _, row in sorted(found.items())
        if (not kinds or row.type in kinds) and (not kept_states or (row.state or "").lower() in kept_states)
    )
    return GroupListing(tuple(kept), tuple(problems))

"""Ask group coordinators: which share groups there are, in which state, and what lag rows the brokers show.

In: group ids. Out: states, rows of DescribeShareGroupOffsets, or the trouble for each group.
Must never: show a group of another type as a share group, or let one bad group spoil the others.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Mapping, Sequence
from typing import Final

import msgspec
from msgspec.structs import replace

from shareproxy.cluster.errors import ClusterError, InternalTopicMissing, Unreachable
from shareproxy.cluster.pool import DATA
from shareproxy.lag.brokers import TIMED_OUT, Brokers, Trouble, trouble_from_code, trouble_from_error
from shareproxy.lag.listings import GroupLists, ListedGroup
from shareproxy.lag.memory import Memory
from shareproxy.lag.model import Status
from shareproxy.lag.rounds import QUIET_SECONDS, ask_all, until_quiet
from shareproxy.protocol.errors import ErrorCode
from shareproxy.protocol.ids import GroupId, NodeId
from shareproxy.protocol.messages import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeShareGroupOffsetsRequest,
    DescribeShareGroupOffsetsRequestGroup,
    DescribeShareGroupOffsetsResponseTopic,
    ShareGroupDescribeRequest,
    ShareGroupDescribeResponseDescribedGroup,
)

SHARE: Final = "share"
GROUP_RESOURCE: Final = 32
ISOLATION_LEVEL: Final = "share.isolation.level"


class FoundGroup(msgspec.Struct, frozen=True):
    """A share group and the broker that keeps it.

    Attributes:
        listed: whether the broker told so now; else it did the last time, and is silent.
    """

    group: GroupId
    state: str | None
    coordinator: NodeId
    listed: bool = True


class CoordinatorQuestion:
    """Base of the questions that a group's coordinator answers."""

    def __init__(self, brokers: Brokers) -> None:
        self._brokers = brokers

    async def route(
        self, items: Sequence[GroupId], *, fresh: bool, deadline: float
    ) -> Mapping[GroupId, NodeId | Trouble]:
        """Return each group's coordinator."""
        if fresh:
            for group in items:
                self._brokers.forget_group_coordinator(group)
        if len(items) == 1:  # mostly known: not worth a task
            return {items[0]: await self._coordinator(items[0], deadline)}
        async with asyncio.TaskGroup() as tasks:
            running = {group: tasks.create_task(self._coordinator(group, deadline)) for group in items}
        return {group: task.result() for group, task in running.items()}

    async def _coordinator(self, group: GroupId, deadline: float) -> NodeId | Trouble:
        try:
            return await self._brokers.group_coordinator(group, deadline=deadline)
        except InternalTopicMissing as error:
            # no group of any type has ever been on this cluster
            return Trouble(Status.ERROR, ErrorCode.GROUP_ID_NOT_FOUND, str(error))
        except ClusterError as error:
            return trouble_from_error(error)


Topics = Sequence[DescribeShareGroupOffsetsResponseTopic]


class Listing(msgspec.Struct, gc=False):
    """The rows of one group; without `has_lag` its broker only knows start offsets (Kafka 4.1)."""

    topics: Topics
    has_lag: bool


class Listings(CoordinatorQuestion):
    """The `Question` that API 90 answers without topics: all initialized partitions of groups, one request.

    Args:
        brokers: where to ask.
        purpose: of the connection; see `Brokers.request`.
    """

    def __init__(self, brokers: Brokers, purpose: str = DATA) -> None:
        super().__init__(brokers)
        self._purpose = purpose

    async def ask(
        self, node_id: NodeId, items: Sequence[GroupId], *, deadline: float
    ) -> Mapping[GroupId, Listing | Trouble]:
        """Ask one coordinator about its groups."""
        offered = await self._brokers.versions(node_id, deadline=deadline)
        version = offered.highest(DescribeShareGroupOffsetsRequest)
        if version is None:
            return dict.fromkeys(items, NO_SHARE_LAG)
        request = DescribeShareGroupOffsetsRequest(
            [DescribeShareGroupOffsetsRequestGroup(group, None) for group in items]
        )
        response = await self._brokers.request(
            node_id, request, deadline=deadline, max_version=version, purpose=self._purpose
        )
        found: dict[GroupId, Listing | Trouble] = dict.fromkeys(items, LEFT_OUT)
        for row in response.groups:
            group = GroupId(row.group_id)
            if group in found:
                found[group] = (
                    trouble_from_code(row.error_code, row.error_message)
                    if row.error_code
                    else Listing(row.topics, version > 0)
                )
        return found


class Descriptions(CoordinatorQuestion):
    """The `Question` that API 77 answers: state and members of a group."""

    async def ask(
        self, node_id: NodeId, items: Sequence[GroupId], *, deadline: float
    ) -> Mapping[GroupId, ShareGroupDescribeResponseDescribedGroup | Trouble]:
        """Ask one coordinator about its groups."""
        response = await self._brokers.request(node_id, ShareGroupDescribeRequest(list(items)), deadline=deadline)
        found: dict[GroupId, ShareGroupDescribeResponseDescribedGroup | Trouble] = {}
        for row in response.groups:
            group = GroupId(row.group_id)
            # the broker's own text tells an unknown group from one of another type
            found[group] = _described_trouble(row.error_code, row.error_message) if row.error_code else row
        for group in items:
            found.setdefault(group, LEFT_OUT)
        return found


async def find_share_groups(
    brokers: Brokers, *, deadline: float, memory: Memory | None = None
) -> tuple[list[FoundGroup], list[str]]:
    """Ask every broker for its share groups; one that is silent while the others have answered is not waited for.

    Args:
        brokers: where to ask.
        deadline: `loop.time()` seconds.
        memory: stands in for a broker that does not tell now.

    Returns:
        The groups by name, and a sentence for each broker that did not tell.

    Raises:
        Unreachable: no broker told.
    """
    metadata = await brokers.metadata((), deadline=deadline)
    nodes = list(metadata.nodes)
    answers: dict[NodeId, list[ListedGroup] | Trouble] = {}
    question = GroupLists(brokers, (SHARE,))
    asking = asyncio.ensure_future(ask_all(question, nodes, deadline=deadline, into=answers))

    def silent() -> int:
        return sum(isinstance(answers.get(node_id), Trouble | None) for node_id in nodes)

    try:
        # how far away the brokers are is known from the first of them
        while silent() == len(nodes) and not asking.done():
            await until_quiet([asking], silent, QUIET_SECONDS)
        await until_quiet([asking], silent, QUIET_SECONDS)
    finally:
        asking.cancel()
        await asyncio.gather(asking, return_exceptions=True)
    groups: dict[GroupId, FoundGroup] = {}
    remembered: list[FoundGroup] = []
    problems: list[str] = []
    listed: dict[NodeId, list[FoundGroup]] = {}
    for node_id in nodes:
        answer = answers.get(node_id, TIMED_OUT)
        if isinstance(answer, Trouble):
            before = memory.groups(node_id) if memory is not None else ()
            what = "are those of its last list" if before else "are missing"
            problems.append(f"the groups of broker {node_id} {what}: {answer.message}")
            remembered.extend(replace(row, listed=False) for row in before)
            continue
        found = [FoundGroup(row.group, row.state, node_id) for row in answer if row.type == SHARE]
        listed[node_id] = found
        groups.update((row.group, row) for row in found)
    if problems and len(problems) == len(nodes):
        raise Unreachable(problems[0])
    if memory is not None:
        memory.keep_groups(listed)
    for row in remembered:
        groups.setdefault(row.group, row)
    return [groups[name] for name in sorted(groups)], problems


async def group_type(brokers: Brokers, group: GroupId, *, deadline: float) -> str | None:
    """Return the type of a group of any kind in small letters, `None` if its coordinator does not list it."""
    try:
        node_id = await brokers.group_coordinator(group, deadline=deadline)
    except ClusterError:
        return None
    answers = await ask_all(GroupLists(brokers, ()), [node_id], deadline=deadline)
    listed = answers[node_id]
    if isinstance(listed, Trouble):
        return None
    return next((row.type for row in listed if row.group == group), None)


async def reads_uncommitted(brokers: Brokers, groups: Collection[GroupId], *, deadline: float) -> set[GroupId]:
    """Return the groups that certainly read uncommitted records: their configuration can be seen and says so."""
    resources = [DescribeConfigsResource(GROUP_RESOURCE, group, [ISOLATION_LEVEL]) for group in groups]
    try:
        response = await brokers.request(None, DescribeConfigsRequest(resources), deadline=deadline)
    except ClusterError:
        return set()
    return {
        GroupId(result.resource_name)
        for result in response.results
        if not result.error_code
        for config in result.configs
        if config.name == ISOLATION_LEVEL and config.value == "read_uncommitted"
    }


def _described_trouble(code: int, text: str | None) -> Trouble:
    if code == ErrorCode.GROUP_ID_NOT_FOUND:
        return Trouble(Status.ERROR, code, text or "the group does not exist")
    return trouble_from_code(code, text)


NO_SHARE_LAG: Final = Trouble(
    Status.UNSUPPORTED,
    ErrorCode.UNSUPPORTED_VERSION,
    "the brokers offer no DescribeShareGroupOffsets (API 90), so share-group lag cannot be known; Kafka 4.1 or newer "
    "has it",
)
LEFT_OUT: Final = Trouble(Status.ERROR, None, "the broker's answer leaves this group out", again=True)

"""Find the coordinators of groups and share partitions without creating anything.

In: groups and share partitions. Out: node ids, or reasons. Must never: send FindCoordinator before it is proven that
the internal topic exists: a broker *creates* the missing topic when it is asked for a coordinator.

What Metadata says of the internal topic decides:
    error 0      it exists: ask FindCoordinator (groups), or compute the hash (share partitions);
    error 3      it does not exist, or not yet on this broker: nobody coordinates;
    error 29     hidden: we may not DESCRIBE it. It may or may not exist, so every broker is asked a question that only
                 the coordinator answers and that changes nothing (ShareGroupDescribe, ReadShareGroupStateSummary).
                 The first answer proves that the topic exists; from then on FindCoordinator is safe.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, Coroutine, Mapping
from typing import TYPE_CHECKING, Any, Final, TypeVar

from shareproxy.cluster.broker_calls import BrokerCalls
from shareproxy.cluster.connection import Connection
from shareproxy.cluster.coordinators import (
    GROUP_TOPIC,
    SHARE_TOPIC,
    CoordinatorFailure,
    FailureReason,
    SharePartition,
    share_coordinators_by_hash,
    share_key,
)
from shareproxy.cluster.errors import (
    BrokerError,
    ClusterError,
    DeadlinePassed,
    InternalTopicMissing,
    NotAuthorized,
    UnsupportedApi,
)
from shareproxy.cluster.metadata import TopicMetadata
from shareproxy.cluster.pool import CONTROL
from shareproxy.cluster.retries import Backoff, Retry, classify
from shareproxy.cluster.shared_calls import SharedCalls
from shareproxy.protocol.errors import ErrorCode, error_name
from shareproxy.protocol.ids import GroupId, NodeId, TopicId
from shareproxy.protocol.messages import (
    FindCoordinatorRequest,
    FindCoordinatorResponseCoordinator,
    ReadShareGroupStateSummaryRequest,
    ReadShareGroupStateSummaryRequestPartitionData,
    ReadShareGroupStateSummaryRequestReadStateSummaryData,
    ShareGroupDescribeRequest,
)

if TYPE_CHECKING:
    from shareproxy.cluster.cluster import Cluster

T = TypeVar("T")

GROUP_KEY: Final = 0
SHARE_KEY: Final = 2
# FindCoordinator takes several keys from version 4, share partitions from version 6
BATCH_VERSION: Final = 4
SHARE_VERSION: Final = 6
# leaders of the state topic change rarely, and whoever was asked in vain says so
STATE_TOPIC_SECONDS: Final = 60.0
# where all brokers say "not me", one may just be taking over; beyond these rounds there is none
PROBE_ROUNDS: Final = 3
# so that an error that comes with the deadline is not cut off: it says more
GRACE: Final = 0.01
# keys of one FindCoordinator
MOST_KEYS: Final = 1_000
# remembered answers of FindCoordinator; at this many all are asked for again
MOST_REMEMBERED: Final = 100_000

_NOT_HERE: Final = frozenset({ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_NOT_AVAILABLE})

Found = dict[SharePartition, NodeId | CoordinatorFailure]


class _Gathered:
    """Groups whose coordinators are asked for in one request."""

    __slots__ = ("deadline", "keys", "task")

    def __init__(self) -> None:
        self.keys: dict[GroupId, None] = {}
        self.deadline = 0.0
        self.task: asyncio.Task[dict[GroupId, FindCoordinatorResponseCoordinator] | ClusterError] | None = None


class CoordinatorSearch:
    """Coordinators found so far, and how to find others.

    Args:
        cluster: knows metadata and nodes.
        brokers: the way to any broker.
    """

    def __init__(self, cluster: Cluster, brokers: BrokerCalls) -> None:
        self._cluster, self._brokers = cluster, brokers
        self._proven: set[str] = set()
        self._groups: dict[GroupId, NodeId] = {}
        self._group_calls: SharedCalls[GroupId, NodeId] = SharedCalls()
        self._gathering: _Gathered | None = None
        self._gathered: set[asyncio.Task[Any]] = set()
        self._share: dict[tuple[GroupId, SharePartition], NodeId] = {}
        self._state_topic_age = STATE_TOPIC_SECONDS

    async def stop(self) -> None:
        """End what is under way."""
        await self._group_calls.stop()
        for task in self._gathered:
            task.cancel()
        await asyncio.gather(*self._gathered, return_exceptions=True)

    def forget_group(self, group: GroupId) -> None:
        """Find this coordinator anew next time."""
        self._groups.pop(group, None)

    def forget_share(self) -> None:
        """Find all share coordinators anew next time."""
        self._share.clear()
        self._state_topic_age = 0.0

    async def group_coordinator(self, group: GroupId, deadline: float) -> NodeId:
        """Return the group's coordinator; see `Cluster.group_coordinator`."""
        known = self._groups.get(group)
        if known is not None:
            return known

        async def find(until: float) -> NodeId:
            found = await self._find_group(group, until)
            if len(self._groups) >= MOST_REMEMBERED:
                self._groups.clear()
            self._groups[group] = found
            return found

        return await self._group_calls.run(group, find, deadline, f"the coordinator of group {group}")

    async def _find_group(self, group: GroupId, deadline: float) -> NodeId:
        if GROUP_TOPIC not in self._proven and not await self._visible(GROUP_TOPIC, deadline):
            return await self._probe_group(group, deadline)
        backoff = Backoff()
        while True:
            answer = await self._ask_group_coordinator(group, deadline)
            if not answer.error_code:
                return NodeId(answer.node_id)
            error = self._group_error(group, answer.error_code, answer.error_message)
            if error.retry is Retry.FINAL or not await backoff.pause(deadline):
                raise error

    async def _ask_group_coordinator(self, group: GroupId, deadline: float) -> FindCoordinatorResponseCoordinator:
        """Ask together with all others that are asked for at the same time: one request for many groups."""
        shared = self._gathering
        if shared is None or len(shared.keys) >= MOST_KEYS:
            shared = self._gathering = _Gathered()
            shared.task = asyncio.ensure_future(self._ask_gathered(shared))
            self._gathered.add(shared.task)
            shared.task.add_done_callback(self._gathered.discard)
        shared.keys.setdefault(group)
        shared.deadline = max(shared.deadline, deadline)
        assert shared.task is not None
        try:
            async with asyncio.timeout_at(deadline + GRACE):
                found = await asyncio.shield(shared.task)
        except TimeoutError:
            raise DeadlinePassed(f"the coordinator of group {group} was not found in time") from None
        if isinstance(found, ClusterError):
            raise found
        return found.get(group) or FindCoordinatorResponseCoordinator(
            key=group, error_code=ErrorCode.COORDINATOR_NOT_AVAILABLE, error_message="the broker said nothing about it"
        )

    async def _ask_gathered(
        self, shared: _Gathered
    ) -> dict[GroupId, FindCoordinatorResponseCoordinator] | ClusterError:
        await asyncio.sleep(0)  # whoever else wants to know at this moment joins
        if self._gathering is shared:
            self._gathering = None
        groups = list(shared.keys)
        try:
            return await self._ask_group_coordinators(groups, shared.deadline)
        except ClusterError as error:
            return error

    async def _ask_group_coordinators(
        self, groups: list[GroupId], deadline: float
    ) -> dict[GroupId, FindCoordinatorResponseCoordinator]:
        # key and coordinator_keys exist in different versions, so one message cannot serve all
        def build(connection: Connection) -> FindCoordinatorRequest:
            if connection.version_of(FindCoordinatorRequest) >= BATCH_VERSION:
                return FindCoordinatorRequest(key_type=GROUP_KEY, coordinator_keys=list(groups))
            return FindCoordinatorRequest(key=groups[0], key_type=GROUP_KEY)

        answer = await self._brokers.ask_any(build, deadline)
        if answer.coordinators:
            return {GroupId(row.key): row for row in answer.coordinators}
        first = FindCoordinatorResponseCoordinator(
            key=groups[0], node_id=answer.node_id, error_code=answer.error_code, error_message=answer.error_message
        )
        others = await self._ask_group_coordinators(groups[1:], deadline) if len(groups) > 1 else {}
        return {groups[0]: first, **others}

    def _group_error(self, group: GroupId, code: int, message: str | None) -> ClusterError:
        if code == ErrorCode.GROUP_AUTHORIZATION_FAILED:
            return NotAuthorized(f"no right to see group {group}: DESCRIBE on the group is needed", code)
        return BrokerError(code, message or None, f"the coordinator of group {group} was not found")

    async def _probe_group(self, group: GroupId, deadline: float) -> NodeId:
        async def ask(node_id: NodeId, until: float) -> NodeId | None:
            answer = await self._cluster.request(
                node_id, ShareGroupDescribeRequest(group_ids=[group]), deadline=until, purpose=CONTROL
            )
            code = answer.groups[0].error_code if answer.groups else ErrorCode.UNKNOWN_SERVER_ERROR
            if code in _NOT_HERE:
                return None
            if code == ErrorCode.GROUP_AUTHORIZATION_FAILED:
                raise self._group_error(group, code, None)
            return node_id

        async def round_of_questions(until: float) -> NodeId | None:
            return await self._ask_all_nodes(ask, until, lambda node_id: node_id is not None)

        found = await self._rounds(round_of_questions, deadline)
        if found is None:
            raise InternalTopicMissing(
                GROUP_TOPIC,
                f"no broker coordinates group {group}; either no group was ever used on this cluster, or the "
                f"coordinator is not available (DESCRIBE on topic {GROUP_TOPIC} would show which)",
            )
        self._proven.add(GROUP_TOPIC)
        return found

    async def share_coordinators(
        self, group: GroupId, partitions: Collection[SharePartition], deadline: float
    ) -> Mapping[SharePartition, NodeId | CoordinatorFailure]:
        """Return the share coordinators; see `Cluster.share_coordinators`."""
        if not partitions:
            return {}
        found: Found = {
            partition: self._share[group, partition] for partition in partitions if (group, partition) in self._share
        }
        missing = [partition for partition in partitions if partition not in found]
        if not missing:
            return found
        metadata = await self._cluster.metadata([SHARE_TOPIC], deadline=deadline, max_age=self._state_topic_age)
        self._state_topic_age = STATE_TOPIC_SECONDS
        topic = metadata.topics.get(SHARE_TOPIC)
        if topic is not None and topic.partitions:
            return found | dict(share_coordinators_by_hash(topic, group, missing))
        failure = _state_topic_failure(topic)
        if failure is not None:
            # it may be made at any moment: do not keep this
            self._state_topic_age = 0.0
            return found | dict.fromkeys(missing, failure)
        if SHARE_TOPIC in self._proven:
            asked = await self._ask_share_coordinators(group, missing, deadline)
        else:
            asked = await self._probe_share(group, missing, deadline)
        if len(self._share) + len(asked) > MOST_REMEMBERED:
            self._share.clear()
        for partition, answer in asked.items():
            if not isinstance(answer, CoordinatorFailure):
                self._share[group, partition] = answer
        return found | asked

    async def _ask_share_coordinators(
        self, group: GroupId, partitions: Collection[SharePartition], deadline: float
    ) -> Found:
        keys = {share_key(group, partition): partition for partition in partitions}
        try:
            answer = await self._cluster.ask_any(
                FindCoordinatorRequest(key_type=SHARE_KEY, coordinator_keys=list(keys)),
                deadline=deadline,
                min_version=SHARE_VERSION,
            )
        except UnsupportedApi as error:
            return dict.fromkeys(partitions, CoordinatorFailure(FailureReason.UNSUPPORTED, str(error)))
        found: Found = {}
        for row in answer.coordinators:
            if row.key in keys:
                found[keys[row.key]] = (
                    share_failure(row.error_code, row.error_message) if row.error_code else NodeId(row.node_id)
                )
        for partition in partitions:
            found.setdefault(partition, _NOT_TOLD)
        return found

    async def _probe_share(self, group: GroupId, partitions: Collection[SharePartition], deadline: float) -> Found:
        found: Found = {}

        async def ask(node_id: NodeId, until: float) -> bool:
            """Note what the node coordinates; tell whether everything is known now."""
            missing = [partition for partition in partitions if not isinstance(found.get(partition), int)]
            answer = await self._cluster.request(
                node_id, _summary_request(group, missing), deadline=until, purpose=CONTROL
            )
            for topic in answer.results:
                for row in topic.partitions:
                    partition = (TopicId(topic.topic_id), row.partition)
                    if row.error_code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED:
                        found.setdefault(partition, share_failure(row.error_code, row.error_message))
                    elif row.error_code not in _NOT_HERE:
                        found[partition] = node_id
            return all(partition in found for partition in partitions)

        async def round_of_questions(until: float) -> bool | None:
            return await self._ask_all_nodes(ask, until, lambda everything: everything)

        await self._rounds(round_of_questions, deadline)
        if any(isinstance(answer, int) for answer in found.values()):
            self._proven.add(SHARE_TOPIC)
        for partition in partitions:
            found.setdefault(partition, _NOT_COORDINATED)
        return found

    async def _visible(self, topic_name: str, deadline: float) -> bool:
        """Tell whether Metadata shows an internal topic, False where it is hidden from us.

        Raises:
            InternalTopicMissing: it does not exist.
        """
        topic = (await self._cluster.metadata([topic_name], deadline=deadline)).topics.get(topic_name)
        code = topic.error_code if topic is not None else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        if code == ErrorCode.TOPIC_AUTHORIZATION_FAILED:
            return False
        if code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
            raise InternalTopicMissing(
                topic_name, f"the cluster has no topic {topic_name} yet: no group was ever used on it"
            )
        if code not in (ErrorCode.NONE, ErrorCode.LEADER_NOT_AVAILABLE):
            raise BrokerError(code, None, f"metadata of {topic_name}")
        self._proven.add(topic_name)
        return True

    async def _ask_all_nodes(
        self, ask: Callable[[NodeId, float], Coroutine[Any, Any, T]], deadline: float, enough: Callable[[T], bool]
    ) -> T | None:
        """Ask all nodes at the same time and return the first answer that is enough, None if none is.

        Raises:
            NotAuthorized: one node says so for all.
            ClusterError: no node answered.
        """
        nodes = (await self._cluster.metadata((), deadline=deadline, max_age=1.0)).nodes
        running = {asyncio.ensure_future(ask(node_id, deadline)) for node_id in nodes}
        answers, failures = 0, list[ClusterError]()
        try:
            for next_done in asyncio.as_completed(list(running)):
                try:
                    answer = await next_done
                except NotAuthorized:
                    raise
                except ClusterError as error:
                    failures.append(error)
                    continue
                answers += 1
                if enough(answer):
                    return answer
        finally:
            for task in running:
                task.cancel()
            await asyncio.gather(*running, return_exceptions=True)
        if failures and not answers:
            raise failures[0]
        return None

    async def _rounds(self, ask: Callable[[float], Awaitable[T | None]], deadline: float) -> T | None:
        loop = asyncio.get_running_loop()
        backoff = Backoff()
        for number in range(PROBE_ROUNDS):
            # a node that hangs must leave time for what the coordinator is wanted for
            answer = await ask(loop.time() + (deadline - loop.time()) / 2)
            if answer is not None or number == PROBE_ROUNDS - 1 or not await backoff.pause(deadline):
                return answer
        return None


def _summary_request(group: GroupId, partitions: Collection[SharePartition]) -> ReadShareGroupStateSummaryRequest:
    """Ask for what is stored; reads only, and the leader epoch is ignored."""
    by_topic: dict[TopicId, list[ReadShareGroupStateSummaryRequestPartitionData]] = {}
    for topic_id, partition in partitions:
        by_topic.setdefault(topic_id, []).append(ReadShareGroupStateSummaryRequestPartitionData(partition))
    return ReadShareGroupStateSummaryRequest(
        group,
        [ReadShareGroupStateSummaryRequestReadStateSummaryData(topic_id, rows) for topic_id, rows in by_topic.items()],
    )


def _state_topic_failure(topic: TopicMetadata | None) -> CoordinatorFailure | None:
    """Return why nobody coordinates, None where the state topic is hidden from us but may exist."""
    code = topic.error_code if topic is not None else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    if code == ErrorCode.TOPIC_AUTHORIZATION_FAILED:
        return None
    if code in (ErrorCode.NONE, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION):
        return CoordinatorFailure(
            FailureReason.STATE_TOPIC_MISSING,
            f"the cluster has no topic {SHARE_TOPIC} yet: no share group has stored any state",
            ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        )
    return share_failure(code, None)


_NOT_TOLD: Final = CoordinatorFailure(FailureReason.ERROR, "the broker said nothing about this share partition")
_NOT_COORDINATED: Final = CoordinatorFailure(
    FailureReason.NOT_AVAILABLE,
    f"no broker that answered coordinates this share partition; with DESCRIBE on topic {SHARE_TOPIC} "
    "its coordinator would be known",
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
)


def share_failure(code: int, message: str | None) -> CoordinatorFailure:
    """Turn an error code of FindCoordinator or a share-state API into a reason."""
    text = message or error_name(code)
    if code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED:
        return CoordinatorFailure(
            FailureReason.NOT_AUTHORIZED, "no right to read share-group state: CLUSTER_ACTION is needed", code
        )
    if classify(code) is Retry.FINAL:
        return CoordinatorFailure(FailureReason.ERROR, f"error {code} ({error_name(code)}): {text}", code)
    return CoordinatorFailure(FailureReason.NOT_AVAILABLE, f"the share coordinator is not available now: {text}", code)

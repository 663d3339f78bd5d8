"""Find out which lag sources work on a cluster, and say what to do about those that do not.

In: a cluster. Out: what each broker offers and, for each source, whether it works and a sentence why (not).
Must never: change anything; the questions asked here name a share partition that cannot exist.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Final

import msgspec

from shareproxy.cluster.coordinators import SHARE_TOPIC, CoordinatorFailure, FailureReason
from shareproxy.cluster.errors import ClusterError
from shareproxy.lag.brokers import Brokers, Offered, Trouble
from shareproxy.lag.model import Source
from shareproxy.lag.rounds import all_versions, share_of_time
from shareproxy.lag.sources import BrokerAnswer, StateBatches, StateSummary
from shareproxy.protocol.errors import ErrorCode
from shareproxy.protocol.ids import NO_TOPIC_ID, GroupId, NodeId
from shareproxy.protocol.messages import (
    DescribeShareGroupOffsetsRequest,
    DescribeShareGroupOffsetsRequestGroup,
    ListOffsetsRequest,
    ReadShareGroupStateRequest,
    ReadShareGroupStateSummaryRequest,
    ReadShareGroupStateSummaryRequestPartitionData,
    ReadShareGroupStateSummaryRequestReadStateSummaryData,
    ShareGroupDescribeRequest,
)

FEATURE: Final = "share.version"
NOBODYS_GROUP: Final = GroupId("shareproxy-doctor")
APIS: Final = (
    DescribeShareGroupOffsetsRequest,
    ReadShareGroupStateSummaryRequest,
    ReadShareGroupStateRequest,
    ShareGroupDescribeRequest,
    ListOffsetsRequest,
)


class BrokerCheck(msgspec.Struct, frozen=True):
    """What one broker offers.

    Attributes:
        versions: highest common version by API name, `None` where there is none; empty if the broker is out of reach.
        problem: why it could not be asked.
    """

    node_id: NodeId
    host: str
    port: int
    versions: Mapping[str, int | None] = {}
    problem: str | None = None


class SourceCheck(msgspec.Struct, frozen=True):
    """Whether a source works, and a sentence that says why, or what to do."""

    source: Source
    works: bool
    sentence: str


class Explanation(msgspec.Struct, frozen=True):
    """What the doctor found.

    Attributes:
        share_version: finalized level of feature share.version, `None` if the brokers do not name it.
        share_groups: whether share groups are switched on, `None` if no broker could tell.
        cluster_action: whether this user may read share-group state, `None` if no broker could tell.
        sources: in the order in which `auto` tries them.
        notes: sentences on what slows things down or is missing, none of them fatal.
    """

    cluster_id: str
    brokers: tuple[BrokerCheck, ...]
    share_version: int | None
    share_groups: bool | None
    cluster_action: bool | None
    sources: tuple[SourceCheck, ...]
    notes: tuple[str, ...] = ()

    @property
    def works(self) -> bool:
        """Whether lag can be known at all."""
        return any(check.works for check in self.sources)


async def explain(brokers: Brokers, *, deadline: float, group: GroupId = NOBODYS_GROUP) -> Explanation:
    """Try every source without reading anybody's state.

    Args:
        brokers: where to ask.
        deadline: `loop.time()` seconds.
        group: in whose name to ask; a right to DESCRIBE may be limited to some groups.

    Raises:
        ClusterError: nobody answered, or the brokers refused us.
    """
    metadata = await brokers.metadata([SHARE_TOPIC], deadline=deadline)
    # a broker that hangs must leave time for the questions to the others
    offers = await all_versions(brokers, list(metadata.nodes), deadline=share_of_time(deadline, 0.5))
    offered = {node_id: answer for node_id, answer in offers.items() if not isinstance(answer, Trouble)}
    checks = []
    for node_id, node in sorted(metadata.nodes.items()):
        answer = offers[node_id]
        if isinstance(answer, Trouble):
            checks.append(BrokerCheck(node_id, node.host, node.port, problem=answer.message))
        else:
            versions = {api.schema_name.removesuffix("Request"): answer.highest(api) for api in APIS}
            checks.append(BrokerCheck(node_id, node.host, node.port, versions))
    levels = [answer.features[FEATURE] for answer in offered.values() if FEATURE in answer.features]
    switched_on, group_code = await _switched_on(brokers, offered, group, deadline)
    may_read = await _may_read_state(brokers, offered, group, deadline)
    state_topic = metadata.topics.get(SHARE_TOPIC)
    hidden = state_topic is not None and state_topic.error_code == ErrorCode.TOPIC_AUTHORIZATION_FAILED
    coordinators = await _coordinators(brokers, group, deadline)
    notes = []
    if group_code == ErrorCode.GROUP_AUTHORIZATION_FAILED:
        notes.append(f"this user may not see group {group!r}; lag needs DESCRIBE on each group and on its topics")
    if hidden:
        notes.append(
            f"topic {SHARE_TOPIC} is hidden from this user, so coordinators are asked for one by one; "
            "DESCRIBE on it saves that"
        )
    if coordinators is not None and coordinators.reason is FailureReason.STATE_TOPIC_MISSING:
        notes.append(f"topic {SHARE_TOPIC} does not exist yet: no share group has been used on this cluster")
        coordinators = None
    shared = _SharedFindings(offered, switched_on, may_read, coordinators)
    return Explanation(
        metadata.cluster_id or "",
        tuple(checks),
        max(levels, default=None),
        switched_on,
        may_read,
        (
            shared.broker_answer(BrokerAnswer(brokers)),
            shared.state(StateSummary(brokers), "ReadShareGroupStateSummary version 1 (API 87, Kafka 4.2)"),
            shared.state(StateBatches(brokers), "ReadShareGroupState (API 84, Kafka 4.1)"),
        ),
        tuple(notes),
    )


class _SharedFindings:
    """What holds for several sources."""

    def __init__(
        self,
        offered: Mapping[NodeId, Offered],
        switched_on: bool | None,
        may_read: bool | None,
        coordinators: CoordinatorFailure | None,
    ) -> None:
        self._offered, self._switched_on = offered, switched_on
        self._may_read, self._coordinators = may_read, coordinators

    def broker_answer(self, source: BrokerAnswer) -> SourceCheck:
        able = [node_id for node_id, answer in self._offered.items() if source.supports(answer)]
        needs = "DescribeShareGroupOffsets version 1 (API 90, Kafka 4.2)"
        return self._check(source.source, able, needs, None)

    def state(self, source: StateSummary | StateBatches, needs: str) -> SourceCheck:
        able = [node_id for node_id, answer in self._offered.items() if source.supports(answer)]
        problem = None
        if self._may_read is False:
            problem = (
                "this user may not read share-group state (error 31): grant CLUSTER_ACTION on the cluster, as in "
                "kafka-acls --add --allow-principal User:NAME --operation ClusterAction --cluster"
            )
        elif self._coordinators is not None:
            problem = f"no share coordinator can be found: {self._coordinators.message}"
        return self._check(source.source, able, needs, problem)

    def _check(self, source: Source, able: Collection[NodeId], needs: str, problem: str | None) -> SourceCheck:
        unable = sorted(set(self._offered) - set(able))
        if not able:
            return SourceCheck(source, False, f"no broker that answers offers {needs}")
        if self._switched_on is False:
            text = (
                f"share groups are switched off on this cluster (error 35): run kafka-features upgrade "
                f"--feature {FEATURE}=1"
            )
            return SourceCheck(source, False, text)
        if problem is not None:
            return SourceCheck(source, False, problem)
        if unable:
            text = f"works on brokers {_list(sorted(able))}, but brokers {_list(unable)} do not offer {needs}"
            return SourceCheck(source, True, text)
        return SourceCheck(source, True, f"works: every broker that answers offers {needs}")


async def _switched_on(
    brokers: Brokers, offered: Mapping[NodeId, Offered], group: GroupId, deadline: float
) -> tuple[bool | None, int | None]:
    """Ask for no partition of a group: the broker checks the feature and the right, and reads nothing."""
    request = DescribeShareGroupOffsetsRequest([DescribeShareGroupOffsetsRequestGroup(group, [])])
    for node_id, answer in offered.items():
        if answer.highest(DescribeShareGroupOffsetsRequest) is None:
            continue
        try:
            response = await brokers.request(node_id, request, deadline=deadline)
        except ClusterError:
            continue
        code = response.groups[0].error_code if response.groups else 0
        return code != ErrorCode.UNSUPPORTED_VERSION, code
    return None, None


async def _may_read_state(
    brokers: Brokers, offered: Mapping[NodeId, Offered], group: GroupId, deadline: float
) -> bool | None:
    """Ask for the summary of a partition of no topic: refused with 31, or not found, or not here."""
    nothing = ReadShareGroupStateSummaryRequestReadStateSummaryData(
        NO_TOPIC_ID, [ReadShareGroupStateSummaryRequestPartitionData(0, 0)]
    )
    for node_id, answer in offered.items():
        if answer.highest(ReadShareGroupStateSummaryRequest) is None:
            continue
        try:
            request = ReadShareGroupStateSummaryRequest(group, [nothing])
            response = await brokers.request(node_id, request, deadline=deadline)
        except ClusterError:
            continue
        codes = {row.error_code for topic in response.results for row in topic.partitions}
        return ErrorCode.CLUSTER_AUTHORIZATION_FAILED not in codes
    return None


async def _coordinators(brokers: Brokers, group: GroupId, deadline: float) -> CoordinatorFailure | None:
    """Return why no share coordinator can be found, `None` if one can."""
    key = (NO_TOPIC_ID, 0)
    try:
        found = (await brokers.share_coordinators(group, [key], deadline=deadline))[key]
    except ClusterError as error:
        return CoordinatorFailure(FailureReason.ERROR, str(error))
    return found if isinstance(found, CoordinatorFailure) else None


def _list(nodes: Sequence[NodeId]) -> str:
    return ", ".join(map(str, nodes))

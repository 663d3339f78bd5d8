"""How a broker answers DescribeShareGroupOffsets: it asks the share coordinators, then the leaders (KIP-1226).

In: a call. Out: rows as the broker of that release gives them, and how long it looked for what it did not find.
Must never: correct a number: −1, fillers and negative lags stand as on a real broker.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from shareproxy.protocol import messages as m
from shareproxy.protocol.ids import NO_TOPIC_ID
from shareproxy.testing.simulation.call import TEXTS, TRY_AGAIN, Call, Late
from shareproxy.testing.simulation.cluster_state import ATTEMPTS, SHARE_TOPIC
from shareproxy.testing.simulation.share_state import UNKNOWN, StoredState
from shareproxy.testing.simulation.topics import Topic

SUMMARY_API, LIST_OFFSETS_API = 87, 2

_Call = Call[m.DescribeShareGroupOffsetsRequest]
_Row = m.DescribeShareGroupOffsetsResponsePartition
_TopicRows = m.DescribeShareGroupOffsetsResponseTopic
_GroupRows = m.DescribeShareGroupOffsetsResponseGroup


class _WholeGroupFails(Exception):  # noqa: N818 - what the broker does
    """The broker stumbles over the request and gives the group error −1."""


class _Patience:
    """How long the broker looks in vain, at most; rows are looked for side by side."""

    def __init__(self, call: _Call) -> None:
        self.seconds = 0.0
        self._whole = call.state.broker_patience

    def spend(self, attempts: int = ATTEMPTS) -> None:
        """Wait before each of some attempts, twice as long each time; all of them make the whole patience."""
        part = (2**attempts - 1) / (2**ATTEMPTS - 1)
        self.seconds = max(self.seconds, self._whole * part)


def describe_share_group_offsets(
    call: _Call,
) -> m.DescribeShareGroupOffsetsResponse | Late:
    """Answer DescribeShareGroupOffsets; the answer waits for the slowest of all rows."""
    patience = _Patience(call)
    answer = m.DescribeShareGroupOffsetsResponse(
        groups=[_group(call, asked, patience) for asked in call.message.groups]
    )
    return Late(answer, patience.seconds) if patience.seconds else answer


def _group(call: _Call, asked: m.DescribeShareGroupOffsetsRequestGroup, patience: _Patience) -> _GroupRows:
    name = asked.group_id

    def failed(code: int, text: str | None) -> _GroupRows:
        return _GroupRows(name, [], code, text)

    if call.state.level_of_share_version(call.node.kafka) < 1:
        return failed(35, None)
    if not call.may("DESCRIBE", "GROUP", name):
        return failed(30, None)
    if asked.topics is None:
        if code := call.coordinator_problem(name):
            return failed(code, TEXTS.get(code))
        return _GroupRows(name, _all_topics(call, name, patience))
    if code := call.fault(group=name):
        return failed(code, TEXTS.get(code))
    try:
        return _GroupRows(name, _named_topics(call, name, asked.topics, patience))
    except _WholeGroupFails:
        return failed(-1, TEXTS[-1])


def _all_topics(call: _Call, name: str, patience: _Patience) -> list[_TopicRows]:
    group = call.state.groups.share(name)
    result: list[_TopicRows] = []
    for topic_id, partitions in () if group is None else group.partitions.items():
        topic = call.state.topics.by_id.get(topic_id)
        if topic is not None and call.may("DESCRIBE", "TOPIC", topic.name):
            result.append(_TopicRows(topic.name, topic_id, _rows(call, name, topic, list(partitions), patience)))
    return result


def _named_topics(
    call: _Call, name: str, asked: Sequence[m.DescribeShareGroupOffsetsRequestTopic], patience: _Patience
) -> list[_TopicRows]:
    known: list[_TopicRows] = []
    unknown: list[_TopicRows] = []
    hidden: list[_TopicRows] = []
    for row in asked:
        indexes = list(dict.fromkeys(row.partitions))
        topic = call.state.topic_of_coordinators(row.topic_name)
        if not call.may("DESCRIBE", "TOPIC", row.topic_name):
            rows = [_Row(index, UNKNOWN, 0, UNKNOWN, 29, TEXTS[29]) for index in indexes]
            hidden.append(_TopicRows(row.topic_name, NO_TOPIC_ID, rows))
        elif topic is None:
            rows = [_Row(index, UNKNOWN, 0, UNKNOWN) for index in indexes]
            unknown.append(_TopicRows(row.topic_name, NO_TOPIC_ID, rows))
        elif not name or not indexes or min(indexes) < 0:
            raise _WholeGroupFails
        else:
            known.append(_TopicRows(row.topic_name, topic.topic_id, _rows(call, name, topic, indexes, patience)))
    if call.node.kafka.unknown_first:
        return [*unknown, *known, *hidden]
    return [*known, *unknown, *hidden]


def _rows(call: _Call, name: str, topic: Topic, indexes: Sequence[int], patience: _Patience) -> list[_Row]:
    """Make the rows of one topic; what is the same for all of them is looked up once."""
    state = call.state
    group = state.groups.share(name)
    of_topic = {} if group is None else group.partitions.get(topic.topic_id, {})
    look = _Look(call, name, topic, patience)
    rows, logs = [], topic.partitions
    for index in indexes:
        if index >= len(logs):
            if call.node.kafka.waits_for_no_partition:
                patience.spend()
            rows.append(_Row(index, UNKNOWN, 0, UNKNOWN))
            continue
        found = of_topic.get(index)
        stored = _NOTHING if found is None else found.stored
        rows.append(look.row(index, stored))
    return rows


_NOTHING: Final = StoredState()


class _Look:
    """Looks for the lag of the partitions of one topic."""

    def __init__(self, call: _Call, group: str, topic: Topic, patience: _Patience) -> None:
        self._call, self._group, self._topic, self._patience = call, group, topic, patience
        call.state.internal_topic(SHARE_TOPIC)  # looking for a coordinator creates it
        self._coordinator: Callable[[int], int | None] = call.state.share_coordinators(group, topic.topic_id)
        self._brokers = call.state.brokers
        self._counts = call.node.kafka.counts_deliveries

    def row(self, index: int, stored: StoredState) -> _Row:
        """Return the row of a partition that exists."""
        if code := self._call.fault(group=self._group, topic=self._topic.name, partition=index):
            return _Row(index, 0, 0, UNKNOWN, code, TEXTS.get(code))
        coordinator = self._brokers.get(self._coordinator(index) or UNKNOWN)
        if coordinator is None or not coordinator.answers:
            self._patience.spend()
            return _Row(index, UNKNOWN, 0, UNKNOWN)
        if self._summary_fails(index, coordinator.node_id):
            return _Row(index, UNKNOWN, 0, UNKNOWN)
        counted = self._counts and coordinator.kafka.counts_deliveries and stored.delivery_complete_count >= 0
        if stored.start_offset < 0 or not counted:
            return _Row(index, stored.start_offset, stored.leader_epoch)
        partition = self._topic.partitions[index]
        code = self._end_fails(index, partition.leader)
        if code:
            return _Row(index, 0, 0, UNKNOWN, code, TEXTS.get(code))
        lag = partition.log.high_watermark - stored.start_offset - stored.delivery_complete_count
        return _Row(index, stored.start_offset, stored.leader_epoch, lag)

    def _summary_fails(self, index: int, coordinator: int) -> bool:
        """Tell whether the share coordinator refuses to the end; some refusals are worth another attempt."""
        faults = self._call.state.faults
        place = {"group": self._group, "topic": self._topic.name, "partition": index}
        for attempt in range(ATTEMPTS):
            code = faults.code(SUMMARY_API, coordinator, **place)  # type: ignore[arg-type]
            if not code:
                return False
            self._patience.spend(attempt + 1)
            if code not in TRY_AGAIN:
                return True
        return True

    def _end_fails(self, index: int, leader: int | None) -> int:
        broker = None if leader is None else self._brokers.get(leader)
        if broker is None or not broker.alive:
            return 5
        if code := self._call.state.faults.code(
            LIST_OFFSETS_API, broker.node_id, group=None, topic=self._topic.name, partition=index
        ):
            return code
        if broker.frozen:
            self._patience.spend()
            return 7
        return 0

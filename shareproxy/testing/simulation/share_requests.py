"""What ShareFetch and ShareAcknowledge have in common: who may ask, and what becomes of acknowledgements.

In: calls. Out: refusals, the session of a request, a result per partition. Must never: apply some of a partition's
acknowledgements and refuse others; it is all or nothing (KIP-932).
"""

from __future__ import annotations

import base64
from collections.abc import Iterator, Sequence
from typing import Final

from shareproxy.protocol import messages as m
from shareproxy.protocol.ids import TopicId
from shareproxy.testing.simulation.call import Call
from shareproxy.testing.simulation.groups import ShareGroup
from shareproxy.testing.simulation.share_partition import (
    INVALID_RECORD_STATE,
    NOT_ACQUIRED,
    AckRefused,
    ShareLeader,
    WriteRefused,
)
from shareproxy.testing.simulation.share_sessions import Place
from shareproxy.testing.simulation.share_state import RecordState
from shareproxy.testing.simulation.sharing import expire_locks, watch_locks
from shareproxy.testing.simulation.steps import ACKNOWLEDGING, RENEW, steps_of
from shareproxy.testing.simulation.topics import Topic

ShareCall = Call[m.ShareFetchRequest] | Call[m.ShareAcknowledgeRequest]
AckBatch = m.ShareFetchRequestAcknowledgementBatch | m.ShareAcknowledgeRequestAcknowledgementBatch
Refusal = tuple[int, str | None]
"""Error code and text; (0, None) where nothing is refused."""

FINE: Final[Refusal] = 0, None
LONGEST_MEMBER_ID: Final = 36
UUID_BYTES: Final = 16
LONGEST_BASE64: Final = 24
GAP, ACCEPT, RELEASE, REJECT = 0, 1, 2, 3
_NEW_STATE: Final = {
    GAP: RecordState.ARCHIVED,
    ACCEPT: RecordState.ACKNOWLEDGED,
    RELEASE: RecordState.AVAILABLE,
    REJECT: RecordState.ARCHIVED,
}
NO_RENEWAL: Final = "Renewing acquisition locks is not enabled for the group."


def refused(call: ShareCall) -> Refusal:
    """Return why nothing of a request is done, whatever its session."""
    message = call.message
    group, member = message.group_id or "", message.member_id or ""
    if call.state.level_of_share_version(call.node.kafka) < 1:
        return 35, None
    if not call.may("READ", "GROUP", group):
        return 30, None
    if call.node.kafka.limits_member_id:
        if len(member) > LONGEST_MEMBER_ID:
            return 42, None
    elif not _is_uuid(member):
        return -1, None
    if code := call.fault(group=group):
        return code, None
    return FINE


def _is_uuid(text: str) -> bool:
    try:
        return len(base64.urlsafe_b64decode(text + "==")) == UUID_BYTES and len(text) <= LONGEST_BASE64
    except ValueError:
        return False


def acknowledged(call: ShareCall) -> Iterator[tuple[Place, Sequence[AckBatch]]]:
    """Yield the partitions of a request with their acknowledgements, if they have any."""
    for topic in call.message.topics:
        for row in topic.partitions:
            if row.acknowledgement_batches:
                index = row.partition_index
                yield (TopicId(topic.topic_id), index), row.acknowledgement_batches


def acknowledge(call: ShareCall, place: Place, batches: Sequence[AckBatch]) -> Refusal:
    """Apply the acknowledgements of one partition, or none of them."""
    state, (topic_id, index) = call.state, place
    topic = state.topics.by_id.get(topic_id)
    if topic is None:
        return 100, None
    if not call.may("READ", "TOPIC", topic.name):
        return 29, None
    if not _well_formed(batches, renews=call.message.is_renew_ack):
        return 42, None
    is_fetch = isinstance(call.message, m.ShareFetchRequest)
    steps = steps_of(call.message) & ACKNOWLEDGING if is_fetch else None
    if code := call.fault(topic=topic.name, partition=index, steps=steps, of_steps_only=is_fetch):
        return code, None
    group = state.groups.share(call.message.group_id or "")
    found = None if group is None else group.at(topic_id, index)
    if group is None or found is None or topic.partitions[index].leader != call.node.node_id:
        return 3, None
    expire_locks(state, group, topic, index)
    if found.leader is None:  # it leads, and nobody has fetched yet
        return 3, None
    try:
        _apply(call, group, topic, index, found.leader, batches)
    except AckRefused as refusal:
        return refusal.code, refusal.text
    except WriteRefused:
        return 6, None
    return FINE


def _well_formed(batches: Sequence[AckBatch], *, renews: bool) -> bool:
    end = -1
    for batch in batches:
        first, last, kinds = batch.first_offset, batch.last_offset, batch.acknowledge_types
        if first > last or first < end or len(kinds) not in (1, last - first + 1):
            return False
        if not all(kind in _NEW_STATE or (kind == RENEW and renews) for kind in kinds):
            return False
        end = last
    return True


def _apply(
    call: ShareCall, group: ShareGroup, topic: Topic, index: int, leader: ShareLeader, batches: Sequence[AckBatch]
) -> None:
    state, member = call.state, call.message.member_id or ""
    rules = state.rules(group.name)
    changes: list[tuple[int, int, RecordState]] = []
    renewed: list[tuple[int, int]] = []
    done = -1
    for first, last, kind in _ranges(batches):
        held = leader.check(member, first, last)
        if held is not None and held[0] <= done:
            raise AckRefused(INVALID_RECORD_STATE, NOT_ACQUIRED)
        done = last
        if kind == RENEW and not rules.renews:
            raise AckRefused(121, NO_RENEWAL)
        if held is not None and kind == RENEW:
            renewed.append(held)
        elif held is not None:
            changes.append((*held, _NEW_STATE[kind]))
    if changes:
        before = leader.start_offset
        leader.acknowledge(changes, rules, state.writer(group, topic, index))
        if leader.start_offset > before:  # there may be room for more locks
            state.wake()
    deadline = state.deadlines.now() + rules.lock_seconds
    for low, high in renewed:
        leader.locks.renew(low, high, deadline)
    if renewed:
        watch_locks(state, group, topic, index, deadline)


def _ranges(batches: Sequence[AckBatch]) -> Iterator[tuple[int, int, int]]:
    """Yield first offset, last offset and type, neighbours of one type joined."""
    for batch in batches:
        kinds = batch.acknowledge_types
        if len(kinds) == 1:
            yield batch.first_offset, batch.last_offset, kinds[0]
            continue
        at = 0
        for position in range(1, len(kinds) + 1):
            if position == len(kinds) or kinds[position] != kinds[at]:
                yield batch.first_offset + at, batch.first_offset + position - 1, kinds[at]
                at = position


def releases(batches: Sequence[AckBatch]) -> bool:
    """Tell whether acknowledgements give something back."""
    return any(RELEASE in batch.acknowledge_types for batch in batches)


def finishes(batches: Sequence[AckBatch]) -> bool:
    """Tell whether acknowledgements end something."""
    return any(kind in (GAP, ACCEPT, REJECT) for batch in batches for kind in batch.acknowledge_types)


def lock_milliseconds(call: ShareCall) -> int:
    """Return how long members of the group hold what they get."""
    return int(call.state.rules(call.message.group_id or "").lock_seconds * 1000)

"""What leaders answer to members that fetch: ShareFetch, with the acknowledgements that it carries.

In: calls. Out: whole batches with the ranges that are the member's, at once or once there are some; errors per
partition. Must never: hand out records in a request that closes its session or renews locks.
"""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Callable, Collection, Iterable

from shareproxy.protocol import messages as m
from shareproxy.protocol.ids import TopicId
from shareproxy.testing.simulation.call import Call, Late, Parked
from shareproxy.testing.simulation.record_batches import encode_batch
from shareproxy.testing.simulation.record_log import Batch
from shareproxy.testing.simulation.share_partition import Delivery
from shareproxy.testing.simulation.share_requests import (
    FINE,
    Refusal,
    acknowledge,
    acknowledged,
    finishes,
    lock_milliseconds,
    refused,
    releases,
)
from shareproxy.testing.simulation.share_sessions import INVALID_EPOCH, LIMIT_REACHED, Place, ShareSession
from shareproxy.testing.simulation.sharing import end_session, expire_locks, give_back, wake_for_released, watch_locks
from shareproxy.testing.simulation.steps import ACKNOWLEDGING, FIRST_EPOCH, LAST_EPOCH, steps_of
from shareproxy.testing.simulation.topics import Topic

WHOLE_BATCHES, EXACTLY = 0, 1  # acquire modes (KIP-1206)

ShareFetchCall = Call[m.ShareFetchRequest]
Row = m.ShareFetchResponsePartitionData


def share_fetch(call: ShareFetchCall) -> m.ShareFetchResponse | Late | Parked:
    """Answer ShareFetch."""
    message = call.message
    code, text = _refused(call)
    if code:
        return m.ShareFetchResponse(0, code, text)
    epoch, group, member = message.share_session_epoch, message.group_id or "", message.member_id or ""
    sessions = call.node.sessions
    if epoch == FIRST_EPOCH:
        session = sessions.open(group, member, call.connection)
    else:
        session = sessions.find(group, member, epoch)
    if isinstance(session, int):
        answer = m.ShareFetchResponse(0, session)
        return Late(answer, message.max_wait_ms / 1000) if session == LIMIT_REACHED else answer
    fetch = ShareFetch(call, session)
    if call.node.kafka.unknown_topic_fails and fetch.lacks_topics():
        return m.ShareFetchResponse(0, -1)
    if epoch == LAST_EPOCH:
        fetch.acknowledge()
        end_session(call.state, call.node, session)
        return fetch.build()
    return fetch.first_answer()


def _refused(call: ShareFetchCall) -> Refusal:
    message = call.message
    code, text = refused(call)
    if code:
        return code, text
    if message.share_session_epoch == FIRST_EPOCH and any(acknowledged(call)):
        return 42, None
    limits = (message.max_wait_ms, message.min_bytes, message.max_bytes, message.max_records, message.batch_size)
    if message.is_renew_ack and any(limits):
        return 42, None
    if message.share_acquire_mode not in (WHOLE_BATCHES, EXACTLY):
        return -1, None
    return FINE


class _Room:
    """How many bytes an answer may still take; the first batch of all always fits.

    Attributes:
        cut: the batch that did not fit, of which the answer has a piece.
    """

    def __init__(self, most: int) -> None:
        self.used, self._most = 0, most
        self.cut: Batch | None = None

    def fits(self, batch: Batch) -> bool:
        """Take a batch if there is room."""
        size = len(encode_batch(batch))
        if self.used and self.used + size > self._most:
            self.cut = batch
            return False
        self.used += size
        return True

    def piece(self) -> bytes:
        """Return as much as there is room for of the batch that did not fit."""
        return b"" if self.cut is None else encode_batch(self.cut)[: max(0, self._most - self.used)]


class ShareFetch:
    """One fetch of a session, which waits while there is nothing to hand out."""

    def __init__(self, call: ShareFetchCall, session: ShareSession) -> None:
        self._call, self._session = call, session
        self._acks: dict[Place, Refusal] = {}
        self._problems: dict[Place, Row] = {}
        self._rows: dict[Place, Row] = {}
        self._empty: set[Place] = set()
        self._following = session.advance()
        self._steps = steps_of(call.message) - ACKNOWLEDGING
        self._endpoints: dict[int, m.ShareFetchResponseNodeEndpoint] = {}
        self.seconds = call.message.max_wait_ms / 1000
        self.notify: Callable[[], object] = _nobody
        if call.message.share_session_epoch != LAST_EPOCH:
            self._update_session()

    def _update_session(self) -> None:
        places = self._session.partitions
        for topic in self._call.message.topics:
            for row in topic.partitions:
                topic_id = TopicId(topic.topic_id)
                places.setdefault((topic_id, row.partition_index), topic_id in self._call.state.topics.by_id)
        for gone in self._call.message.forgotten_topics_data:
            for index in gone.partitions:
                places.pop((TopicId(gone.topic_id), index), None)

    def lacks_topics(self) -> bool:
        """Tell whether there are partitions of no topic in the session; those that never were any leave it."""
        places, by_id = self._session.partitions, self._call.state.topics.by_id
        lacking = [place for place in places if place[0] not in by_id]
        for place in lacking:
            if not places[place]:
                del places[place]
        return bool(lacking)

    # -- answers ------------------------------------------------------------------------------------------------------

    def first_answer(self) -> m.ShareFetchResponse | Late | Parked:
        """Return the answer if there is one yet."""
        message = self._call.message
        if message.is_renew_ack:
            self.acknowledge()
            return self.build()
        self._find_problems()
        if message.max_records <= 0:
            self.acknowledge()
            at_once = self._call.node.kafka.answers_no_fetch
            return self.build() if at_once else Late(self.build(), self.seconds)
        # what the request itself releases is not there yet: brokers write it first (seen with 4.1 to 4.4)
        self._acquire(last=False)
        if self.acknowledge() and not self._is_ready():
            self._acquire(last=False)
        all_wrong = bool(self._problems) and len(self._problems) == len(self._session.partitions)
        if self._is_ready() or all_wrong or message.min_bytes <= 0:
            return self.build()
        return self

    def answer(self, *, last: bool) -> m.ShareFetchResponse | None:
        """Return the answer if there is something to hand out; the last time in any case."""
        if not self._is_ready():
            self._acquire(last=last)
        return self.build() if last or self._is_ready() else None

    def released(self, places: Collection[Place]) -> None:
        """Take note of released records: with Kafka 4.1 the fetch is answered, with rows that are empty."""
        mine = set(places) & set(self._session.partitions)
        if mine and self._call.node.kafka.release_wakes:
            self._empty |= mine
            self.notify()

    def abandoned(self) -> None:
        """Go on without the client: what comes until the time is up is acquired, and goes back at once."""
        state, loop = self._call.state, asyncio.get_running_loop()
        self.notify = lambda: loop.call_soon_threadsafe(self._go_on_alone)
        state.parked.add(self)
        end = functools.partial(state.parked.discard, self)
        state.deadlines.at(state.deadlines.now() + self.seconds, ("abandoned", id(self)), end)

    def _go_on_alone(self) -> None:
        state = self._call.state
        with state.lock:
            if self in state.parked:
                self._acquire(last=False)
                self._give_back()

    def _give_back(self) -> None:
        state = self._call.state
        if not self._rows:
            return
        state.parked.discard(self)
        group = state.groups.share(self._session.group)
        for (topic_id, index), row in self._rows.items():
            topic = state.topics.by_id.get(topic_id)
            found = None if group is None else group.at(topic_id, index)
            if group is None or topic is None or found is None or found.leader is None:
                continue
            for part in row.acquired_records:
                held = found.leader.held_in(part.first_offset, part.last_offset)
                give_back(state, group, topic, index, held, leaving=True)

    def _is_ready(self) -> bool:
        return bool(self._rows or self._empty)

    def build(self) -> m.ShareFetchResponse:
        """Return the answer as it is now."""
        if self._call.message.share_session_epoch != LAST_EPOCH and self._session.epoch != self._following:
            # another request of the session came in between; what was acquired for this one stays locked
            return m.ShareFetchResponse(0, INVALID_EPOCH)
        rows = {**{place: Row(place[1], records=b"") for place in (*self._empty, *self._acks)}, **self._problems}
        rows |= self._rows
        for place, (code, text) in self._acks.items():
            rows[place].acknowledge_error_code = code
            if self._call.node.kafka.explains_in_fetch:
                rows[place].acknowledge_error_message = text
        topics: dict[bytes, list[Row]] = {}
        for (topic_id, _), row in rows.items():
            topics.setdefault(topic_id, []).append(row)
        return m.ShareFetchResponse(
            acquisition_lock_timeout_ms=lock_milliseconds(self._call),
            responses=[m.ShareFetchableTopicResponse(topic_id, parts) for topic_id, parts in topics.items()],
            node_endpoints=list(self._endpoints.values()),
        )

    def acknowledge(self) -> bool:
        """Apply what the request acknowledges, and tell whether it finished anything."""
        freed, finished = set(), False
        for place, batches in acknowledged(self._call):
            self._acks[place] = acknowledge(self._call, place, batches)
            if releases(batches) and not self._acks[place][0]:
                freed.add(place)
            finished = finished or finishes(batches)
        self.released(freed)
        wake_for_released(self._call.state, freed)
        return finished

    # -- partitions ---------------------------------------------------------------------------------------------------

    def _find_problems(self) -> None:
        for place in self._session.partitions:
            if (row := self._problem(place)) is not None:
                self._problems[place] = row

    def _problem(self, place: Place) -> Row | None:
        call, (topic_id, index) = self._call, place
        topic = call.state.topics.by_id.get(topic_id)
        if topic is None:
            return Row(index, 3 if self._session.partitions[place] else 100, records=b"")
        if not call.may("READ", "TOPIC", topic.name):
            return Row(index, 29, records=b"")
        if code := call.fault(topic=topic.name, partition=index, steps=self._steps):
            return Row(index, code, records=b"")
        if not 0 <= index < len(topic.partitions):
            return Row(index, 3, records=b"")
        if topic.partitions[index].leader != call.node.node_id:
            return self._not_leader(topic, index)
        group = call.state.groups.share(self._session.group)
        if group is None or group.at(topic_id, index) is None:
            return Row(index, -1, records=b"")
        return None

    def _not_leader(self, topic: Topic, index: int) -> Row:
        row = topic.partitions[index]
        leader = m.ShareFetchResponseLeaderIdAndEpoch(-1 if row.leader is None else row.leader, row.leader_epoch)
        broker = self._call.state.brokers.get(leader.leader_id)
        if broker is not None:
            endpoint = m.ShareFetchResponseNodeEndpoint(broker.node_id, broker.host, broker.port, broker.rack)
            self._endpoints[broker.node_id] = endpoint
        return Row(index, 6, current_leader=leader, records=b"")

    def _acquire(self, *, last: bool) -> None:
        """Take what there is, of one partition after the other, until it is enough."""
        message = self._call.message
        if not last and self._waits_for_bytes():
            return
        room, left = _Room(message.max_bytes), message.max_records
        for place in self._session.in_turn():
            if left <= 0:
                return
            if place not in self._problems and (row := self._take(place, left, room)) is not None:
                self._rows[place] = row
                left -= sum(part.last_offset - part.first_offset + 1 for part in row.acquired_records)

    def _waits_for_bytes(self) -> bool:
        wanted, there = self._call.message.min_bytes, 0
        if wanted <= 1:
            return False
        for topic_id, index in self._session.partitions:
            topic, group = (
                self._call.state.topics.by_id.get(topic_id),
                self._call.state.groups.share(self._session.group),
            )
            if topic is None or group is None or group.at(topic_id, index) is None:
                continue
            log = topic.partitions[index].log
            at = self._call.state.leader_of(group, topic, index).next_offset
            for batch in log.batches_from(at, log.high_watermark):
                there += len(encode_batch(batch))
                if there >= wanted:
                    return False
        return True

    def _take(self, place: Place, left: int, room: _Room) -> Row | None:
        call, state, (topic_id, index) = self._call, self._call.state, place
        message, topic, group = call.message, state.topics.by_id.get(topic_id), state.groups.share(self._session.group)
        if topic is None or group is None or topic.partitions[index].leader != call.node.node_id:
            return None
        if group.at(topic_id, index) is None:
            return None
        expire_locks(state, group, topic, index)
        rules, log = state.rules(group.name), topic.partitions[index].log
        deadline = state.deadlines.now() + rules.lock_seconds
        got = state.leader_of(group, topic, index).acquire(
            log,
            rules,
            self._session.member,
            left,
            isolates_poison=call.node.kafka.isolates_poison,
            exact=message.share_acquire_mode == EXACTLY,
            chunk_size=message.batch_size,
            fits=room.fits,
            deadline=deadline,
        )
        if not got:
            return None
        watch_locks(state, group, topic, index, deadline)
        batches = [encode_batch(batch) for batch in log.batches_from(got[0].first_offset, got[-1].last_offset + 1)]
        return Row(
            index, records=b"".join(batches) + room.piece(), acquired_records=list(_joined(got, message.batch_size))
        )


def _joined(got: Iterable[Delivery], size: int) -> Iterable[m.ShareFetchResponseAcquiredRecords]:
    """Join neighbours that were delivered as often, up to a size; batches stay whole."""
    row: m.ShareFetchResponseAcquiredRecords | None = None
    for part in got:
        if (
            row is not None
            and row.last_offset + 1 == part.first_offset
            and row.delivery_count == part.delivery_count
            and row.last_offset - row.first_offset + 1 < size
        ):
            row.last_offset = part.last_offset
            continue
        if row is not None:
            yield row
        row = m.ShareFetchResponseAcquiredRecords(part.first_offset, part.last_offset, part.delivery_count)
    if row is not None:
        yield row


def _nobody() -> None:
    pass

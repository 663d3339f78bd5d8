"""Run one share session with one broker over one connection: what to ask next, and what an answer means.

In: partitions wanted, acknowledgements, answers to ShareFetch (78) and ShareAcknowledge (79), the time. Out: the next
request, acquired ranges with their raw bytes, results of acknowledgements, partitions that moved, the session's end.
Must never: have two requests in flight, forget a partition while it holds records, call an acknowledgement done that
no broker confirmed, or read a clock.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import inf
from typing import Final

import msgspec

from shareproxy.drain.acquired import Lock, without
from shareproxy.drain.model import NO_ERROR, Acknowledgement, AcquireMode, OffsetRange
from shareproxy.drain.session_answers import AnswerReader, Gathering, SessionResponse
from shareproxy.drain.session_outcomes import (
    NOTHING,
    AcquiredRecords,
    EndReason,
    FetchLimits,
    LeaderHint,
    LockLostRanges,
    PartitionTrouble,
    Remedy,
    SessionEnd,
    SessionOutcome,
    SharePartition,
    end_for,
)
from shareproxy.drain.session_partition import (
    SessionPartition,
    acknowledge_topics,
    fetch_topics,
    forgotten_topics,
    renews,
)
from shareproxy.protocol.errors import error_name
from shareproxy.protocol.ids import TopicId
from shareproxy.protocol.messages import (
    ShareAcknowledgeRequest,
    ShareFetchRequest,
)

__all__ = [
    "AcquiredRecords",
    "EndReason",
    "FetchLimits",
    "LeaderHint",
    "LockLostRanges",
    "PartitionTrouble",
    "Remedy",
    "SessionEnd",
    "SessionOutcome",
    "SessionRequest",
    "SessionResponse",
    "SharePartition",
    "ShareSession",
]

SessionRequest = ShareFetchRequest | ShareAcknowledgeRequest

_FIRST_VERSION_WITH_RENEW: Final = 2
_CLOSING_EPOCH: Final = -1
_LAST_EPOCH: Final = 2**31 - 1
# Kafka's default, until an answer says what is true
_USUAL_LOCK: Final = 30.0
# locks that need to be renewed within this part of a lock's time are renewed together
_TOGETHER: Final = 0.1
# no fetch is parked for a greater part of a lock's time
_LONGEST_PARKED: Final = 0.5
# while a partition that is not wanted any more still has records, nothing is fetched for so many seconds at most:
# each fetch would bring more of it, and it could never be forgotten; a slow handler must not stop the others for longer
_LONGEST_DRAIN: Final = 2.0
_FIRST_RETRY: Final = 0.1
_LONGEST_RETRY: Final = 10.0
# a broker without a place for a session has one when another member goes: that takes longer
_FIRST_RETRY_WHEN_FULL: Final = 1.0
_LONGEST_RETRY_WHEN_FULL: Final = 30.0


class _InFlight(msgspec.Struct, gc=False):
    """What the request that awaits its answer was."""

    request: SessionRequest
    sent_at: float
    acknowledged: list[SessionPartition] = []
    added: list[SessionPartition] = []
    forgotten: list[SessionPartition] = []


class ShareSession:
    """One share session of one member with one broker; `next_request`, `on_answer`, `on_lost` drive it.

    After an end (`SessionOutcome.end`) the same object opens a new session, which has to run on a new connection.

    Args:
        group: id of the share group.
        member_id: as the member told the coordinator.
        version: of requests 78 and 79, the lower of what this connection may use; 1 on Kafka 4.1 (no renewals).
        limits: of a fetch.
        auto_renew: prolong the locks of everything held at half their time (version 2).
    """

    def __init__(
        self,
        group: str,
        member_id: str,
        *,
        version: int,
        limits: FetchLimits | None = None,
        auto_renew: bool = True,
    ) -> None:
        self.group, self.member_id = group, member_id
        self.version = version
        """May be set between an end and the next opening: the broker may have been upgraded."""
        self.limits = limits or FetchLimits()
        self.auto_renew = auto_renew
        self.lock_duration: float | None = None
        """Seconds, as the last answer said; `None` before one came."""
        self._partitions: dict[SharePartition, SessionPartition] = {}
        self._by_id: dict[tuple[TopicId, int], SessionPartition] = {}
        self._epoch = 0
        self._in_flight: _InFlight | None = None
        self._closing = False
        self._ends = 0
        self._locks = 0
        # lower bounds, so that not every call has to look at every lock
        self._renew_from = inf
        self._gone_from = inf
        self._fetch_from = -inf
        self._wake_for_fetch = inf

    @property
    def can_renew(self) -> bool:
        """Return whether RENEW exists on this connection; a group may still refuse it (Kafka 4.4)."""
        return self.version >= _FIRST_VERSION_WITH_RENEW

    @property
    def is_open(self) -> bool:
        """Return whether the broker knows this session."""
        return self._epoch > 0

    @property
    def in_flight(self) -> bool:
        """Return whether an answer is awaited; nothing else may be sent until then."""
        return self._in_flight is not None

    @property
    def is_idle(self) -> bool:
        """Return whether nothing is wanted, held or on its way: the session may be closed."""
        return self._in_flight is None and not any(s.wanted or not s.empty for s in self._partitions.values())

    @property
    def is_closed(self) -> bool:
        """Return whether `begin_close` was called and nothing is left to send or await."""
        return self._closing and self._in_flight is None and self._epoch == 0

    @property
    def held_count(self) -> int:
        """Return how many offsets are held and not yet acknowledged by the caller (for the cap)."""
        return sum(state.held.count for state in self._partitions.values())

    @property
    def unconfirmed_count(self) -> int:
        """Return how many offsets are acknowledged and not yet answered for; renewals do not count."""
        return sum(state.queue.count for state in self._partitions.values())

    @property
    def wake_at(self) -> float | None:
        """Return when to call `expire` and `next_request` again even if nothing else happens; `None` for never."""
        at = self._gone_from
        if self._in_flight is None:
            at = min(at, self._wake_for_fetch)
            if self.auto_renew and self.can_renew:
                at = min(at, self._renew_from)
        return None if at == inf else at

    def set_wanted(self, partitions: Iterable[SharePartition]) -> None:
        """Say which partitions this broker shall serve now; others are forgotten once nothing of them is held."""
        wanted = set(partitions)
        for partition, state in list(self._partitions.items()):
            state.wanted = partition in wanted
            if state.wanted:
                state.leaving_since = None
            elif not state.in_session and state.empty and not self._is_being_added(state):
                self._remove(state)
        for partition in wanted:
            if partition not in self._partitions:
                state = SessionPartition(partition)
                self._partitions[partition] = self._by_id[partition.topic_id, partition.partition] = state
        self._wake_for_fetch = -inf

    def acknowledge(
        self, partition: SharePartition, first: int, last: int, kind: Acknowledgement
    ) -> Sequence[OffsetRange]:
        """Note what becomes of the held offsets from `first` to `last`.

        Returns:
            those that are not held: acknowledged already, or the lock is lost. They get no result later.

        Raises:
            ValueError: RENEW where `can_renew` is false.
        """
        state = self._partitions.get(partition)
        if state is None:
            return (OffsetRange(first, last),)
        if kind is Acknowledgement.RENEW:
            if not self.can_renew:
                raise ValueError("this broker cannot renew locks: that needs Kafka 4.2")
            pieces = state.held.pieces(first, last)
            for run in pieces:
                state.queue.note_renewal(run.first, run.last, run.lock)
        else:
            pieces = state.held.take_out(first, last)
            for run in pieces:
                state.queue.note(run.first, run.last, kind, run.lock)
        if len(pieces) == 1 and pieces[0].first == first and pieces[0].last == last:
            return ()
        return without(first, last, [(run.first, run.last) for run in pieces])

    def held(self, partition: SharePartition) -> Sequence[OffsetRange]:
        """Return what is held of a partition and not yet acknowledged by the caller, ascending."""
        state = self._partitions.get(partition)
        return () if state is None else state.held.ranges()

    def lock_deadline(self, partition: SharePartition, offset: int) -> float | None:
        """Return when the broker may give a held offset to others; `None` if it is not held."""
        state = self._partitions.get(partition)
        lock = None if state is None else state.held.lock_of(offset)
        return None if lock is None else lock.deadline

    def expire(self, now: float) -> SessionOutcome:
        """Give up held offsets whose lock has certainly run out (`locks_lost`)."""
        if now < self._gone_from:
            return NOTHING
        gathered = Gathering()
        for state in self._partitions.values():
            if gone := state.held.expire(now):
                gathered.locks_lost.append(LockLostRanges(state.partition, tuple(gone)))
        self._gone_from = min((r.lock.gone_at for s in self._partitions.values() for r in s.held), default=inf)
        return gathered.outcome()

    def begin_close(self) -> None:
        """Fetch no more: the next requests only deliver acknowledgements, and the last one ends the session.

        What is still held then goes back to the group, an attempt spent (not on Kafka 4.1).
        """
        self._closing = True

    # what to send

    def next_request(
        self, now: float, *, capacity: int, waiting: bool = False, max_wait_ms: int | None = None
    ) -> SessionRequest | None:
        """Return what to send now, `None` for nothing: call again after an event, or at `wake_at`.

        Args:
            capacity: how many more records the caller can hold; 0 for none.
            waiting: whether somebody waits for the result of an acknowledgement: it is then not parked with a fetch.
            max_wait_ms: instead of the limit's.
        """
        if self._in_flight is not None:
            return None
        if self._closing:
            return self._closing_request(now)
        states = self._partitions.values()
        if self._epoch == 0:
            added = [state for state in states if state.served(now)]
            self._wake_for_fetch = self._next_pause_end(now)
            return self._fetch(now, added, [], capacity, max_wait_ms) if added and capacity > 0 else None
        self._note_due_renewals(now)
        if any(state.queue.urgent for state in states):
            return self._acknowledge(now)
        added = [state for state in states if not state.in_session and state.served(now)]
        forgotten = [state for state in states if state.in_session and not state.served(now) and state.empty]
        fetches = capacity > 0 and bool(added or any(s.in_session and s.served(now) for s in states))
        self._wake_for_fetch = self._next_pause_end(now)
        if fetches and (until := self._held_back_until(now)) > now:
            fetches = False
            self._wake_for_fetch = min(self._wake_for_fetch, until)
        if any(state.queue.pending for state in states) and (waiting or not fetches):
            return self._acknowledge(now)
        if fetches:
            return self._fetch(now, added, forgotten, capacity, max_wait_ms)
        if forgotten and not any(state.in_session and state.served(now) for state in states):
            # nothing will be fetched that could take this along
            return self._fetch(now, [], forgotten, 0, 0)
        return None

    def _fetch(
        self,
        now: float,
        added: list[SessionPartition],
        forgotten: list[SessionPartition],
        capacity: int,
        max_wait_ms: int | None,
    ) -> ShareFetchRequest:
        acknowledged = [state for state in self._partitions.values() if state.queue.pending]
        for state in acknowledged:
            state.queue.take()
        limits = self.limits
        wait = limits.max_wait_ms if max_wait_ms is None else max_wait_ms
        # a lock counts from the request on, to be safe: records that come late would have no time left
        wait = min(wait, int((self.lock_duration or _USUAL_LOCK) * 1000 * _LONGEST_PARKED))
        if wait and self.auto_renew and self.can_renew and self._renew_from < now + wait / 1000:
            # a parked fetch is in the way of the renewal
            wait = max(0, int((self._renew_from - now) * 1000))
        max_records = min(capacity, limits.max_records)
        request = ShareFetchRequest(
            group_id=self.group,
            member_id=self.member_id,
            share_session_epoch=self._epoch,
            max_wait_ms=wait,
            min_bytes=limits.min_bytes,
            max_bytes=limits.max_bytes,
            max_records=max_records,
            # it only cuts the ranges: small ones are sooner acknowledged whole; 0 gives one that is none (facts §3.5)
            batch_size=max(1, min(max_records, limits.piece_records)),
            share_acquire_mode=int(limits.acquire_mode if self.version > 1 else AcquireMode.BATCH),
            # what joins the session has nothing to acknowledge: it leaves only when nothing of it is held
            topics=fetch_topics([*acknowledged, *added]),
            forgotten_topics_data=forgotten_topics(forgotten),
        )
        self._in_flight = _InFlight(request, now, acknowledged, added, forgotten)
        return request

    def _acknowledge(self, now: float, epoch: int | None = None) -> ShareAcknowledgeRequest:
        acknowledged: list[SessionPartition] = []
        for state in self._partitions.values():
            queue = state.queue
            if queue.take_everything() if epoch == _CLOSING_EPOCH else queue.urgent or queue.pending:
                acknowledged.append(state)
                if epoch is None:
                    queue.take()
        request = ShareAcknowledgeRequest(
            group_id=self.group,
            member_id=self.member_id,
            share_session_epoch=self._epoch if epoch is None else epoch,
            is_renew_ack=any(renews(state.queue.sent) for state in acknowledged),
            topics=acknowledge_topics(acknowledged),
        )
        self._in_flight = _InFlight(request, now, acknowledged)
        return request

    def _closing_request(self, now: float) -> SessionRequest | None:
        if self._epoch == 0:
            return None
        if any(state.queue.retrying for state in self._partitions.values()):
            # one refused range voids all of its partition's, and nothing can be sent again after the last request
            return self._acknowledge(now)
        return self._acknowledge(now, _CLOSING_EPOCH)

    def _note_due_renewals(self, now: float) -> None:
        if now < self._renew_from or not self.auto_renew or not self.can_renew:
            return
        until = now + (self.lock_duration or _USUAL_LOCK) * _TOGETHER
        later = inf
        for state in self._partitions.values():
            for run in state.held:
                if run.lock.renew_at <= until:
                    state.queue.note_renewal(run.first, run.last, run.lock)
                else:
                    later = min(later, run.lock.renew_at)
        # those just noted come back with a new lock
        self._renew_from = later

    def _held_back_until(self, now: float) -> float:
        """Return until when nothing shall be fetched, because it would bring more of what shall be forgotten."""
        until = self._fetch_from
        for state in self._partitions.values():
            if state.in_session and not state.wanted and not state.empty:
                if state.leaving_since is None:
                    state.leaving_since = now
                until = max(until, state.leaving_since + _LONGEST_DRAIN)
        return until

    def _next_pause_end(self, now: float) -> float:
        ends = (state.paused_until for state in self._partitions.values() if state.wanted and state.paused_until > now)
        return min(ends, default=inf)

    # what came back

    def on_answer(self, response: SessionResponse, now: float) -> SessionOutcome:
        """Take the answer to the last request.

        Raises:
            ValueError: there was none, or it is the answer to another kind of request.
        """
        flight = self._in_flight
        if flight is None or not isinstance(response, flight.request.response_class):
            raise ValueError(f"no {type(response).__name__} is awaited")
        if response.error_code != NO_ERROR:
            return self._end(end_for(response.error_code), response.error_code, response.error_message, Gathering())
        self._in_flight = None
        epoch = flight.request.share_session_epoch
        if epoch > 0:
            self._ends = 0
        if response.acquisition_lock_timeout_ms > 0:
            self.lock_duration = response.acquisition_lock_timeout_ms / 1000
        if epoch != _CLOSING_EPOCH:
            self._epoch = 1 if epoch == _LAST_EPOCH else epoch + 1
            for state in flight.added:
                state.in_session = True
            for state in flight.forgotten:
                state.in_session = False
                if not state.wanted and state.empty:
                    self._remove(state)
        lock = self._new_lock(flight.sent_at, now)
        reader = AnswerReader(response, lock, now, last=epoch == _CLOSING_EPOCH)
        for topic in response.responses:
            for row in topic.partitions:
                # a partition that nobody asked for is none of ours
                if (known := self._by_id.get((TopicId(topic.topic_id), row.partition_index))) is not None:
                    reader.take(known, row)
        gathered = reader.gathered
        for state in flight.acknowledged:
            if state.queue.sent:
                gathered.results += state.results(state.queue.settle(), None, "the answer says nothing of them")
        if epoch == _CLOSING_EPOCH:
            return self._end(EndReason.CLOSED, NO_ERROR, None, gathered)
        self._fetch_from = max(self._fetch_from, reader.fetch_from)
        if reader.lock_used:
            self._renew_from = min(self._renew_from, lock.renew_at)
            self._gone_from = min(self._gone_from, lock.gone_at)
        return gathered.outcome()

    def on_lost(self, now: float, message: str, reason: EndReason = EndReason.LINE_LOST) -> SessionOutcome:
        """Take it that the connection is gone, also with nothing in flight: what has no answer is lost, never done."""
        return self._end(reason, None, message, Gathering())

    def _end(self, reason: EndReason, code: int | None, message: str | None, gathered: Gathering) -> SessionOutcome:
        """Give up everything that hangs on the session, and say how long to wait."""
        opening = self._epoch == 0
        said = message or (error_name(code) if code else None)
        for state in list(self._partitions.values()):
            sent, waiting = state.queue.give_up()
            gathered.results += state.results(sent, code, said)
            gathered.results += state.results(
                waiting, None, f"not sent before the session was over: {said or reason.value}"
            )
            lost = state.held.clear()
            if lost and reason is not EndReason.CLOSED:
                gathered.locks_lost.append(LockLostRanges(state.partition, tuple(lost)))
            state.in_session, state.leaving_since = False, None
            if not state.wanted:
                self._remove(state)
        self._in_flight, self._epoch = None, 0
        self._renew_from = self._gone_from = inf
        self._fetch_from = -inf
        first, longest = (
            (_FIRST_RETRY_WHEN_FULL, _LONGEST_RETRY_WHEN_FULL)
            if reason is EndReason.LIMIT
            else (_FIRST_RETRY, _LONGEST_RETRY)
        )
        retry_after = 0.0 if reason is EndReason.CLOSED else min(first * 2**self._ends, longest)
        self._ends = min(self._ends + 1, 10)
        final = reason is EndReason.DENIED or (reason is EndReason.INVALID and opening)
        return gathered.outcome(SessionEnd(reason, code, message, final, retry_after))

    def _new_lock(self, sent_at: float, now: float) -> Lock:
        duration = self.lock_duration or _USUAL_LOCK
        self._locks += 1
        return Lock(self._locks, sent_at + duration, now + duration, sent_at + duration / 2)

    def _is_being_added(self, state: SessionPartition) -> bool:
        return self._in_flight is not None and any(state is other for other in self._in_flight.added)

    def _remove(self, state: SessionPartition) -> None:
        del self._partitions[state.partition]
        del self._by_id[state.partition.topic_id, state.partition.partition]

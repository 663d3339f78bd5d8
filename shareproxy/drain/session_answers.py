"""Read the rows of an answer to ShareFetch (78) or ShareAcknowledge (79), one partition after the other.

In: rows, the partitions of the session. Out: what was acquired, results of acknowledgements, troubles.
Must never: settle an acknowledgement twice, or take an error for a success.
"""

from __future__ import annotations

from math import inf
from typing import Final

import msgspec

from shareproxy.drain.acknowledging import AckRange
from shareproxy.drain.acquired import AcquiredRange, Lock, joined, tidy
from shareproxy.drain.model import NO_ERROR, Acknowledgement, AckResult, OffsetRange
from shareproxy.drain.session_outcomes import (
    INVALID_RECORD_STATE,
    AcquiredRecords,
    LeaderHint,
    LockLostRanges,
    PartitionTrouble,
    Remedy,
    SessionEnd,
    SessionOutcome,
    remedy_for,
)
from shareproxy.drain.session_partition import SessionPartition
from shareproxy.protocol.errors import ErrorCode
from shareproxy.protocol.ids import NodeId
from shareproxy.protocol.messages import (
    ShareAcknowledgeResponse,
    ShareAcknowledgeResponsePartitionData,
    ShareFetchResponse,
    ShareFetchResponsePartitionData,
)

SessionResponse = ShareFetchResponse | ShareAcknowledgeResponse
Row = ShareFetchResponsePartitionData | ShareAcknowledgeResponsePartitionData

# refusals that may concern some of the ranges only
_DIVISIBLE: Final = frozenset({INVALID_RECORD_STATE, int(ErrorCode.INVALID_REQUEST)})


class Gathering:
    """What an outcome will hold."""

    def __init__(self) -> None:
        self.acquired: list[AcquiredRecords] = []
        self.results: list[AckResult] = []
        self.locks_lost: list[LockLostRanges] = []
        self.troubles: list[PartitionTrouble] = []

    def outcome(self, end: SessionEnd | None = None) -> SessionOutcome:
        """Return what was gathered."""
        return SessionOutcome(self.acquired, self.results, self.locks_lost, self.troubles, end)


class AnswerReader:
    """Reads the rows of one answer.

    Args:
        lock: what offsets acquired or renewed with this answer are under.
        last: whether the session is over with this answer: nothing can be sent again then.
    """

    def __init__(self, response: SessionResponse, lock: Lock, now: float, *, last: bool) -> None:
        self.gathered = Gathering()
        self.lock_used = False
        """Whether offsets are under the new lock."""
        self.fetch_from = -inf
        """When to fetch again: a partition with an error that cannot be forgotten yet would end each fetch at once."""
        self._response, self._lock, self._now, self._last = response, lock, now, last

    def take(self, state: SessionPartition, row: Row) -> None:
        """Take the row of one partition."""
        if not isinstance(row, ShareFetchResponsePartitionData):
            if state.queue.sent:
                self._take_acknowledged(state, row.error_code, row.error_message)
            if remedy_for(row.error_code) is not Remedy.WAIT:
                self._take_trouble(state, row, row.error_code, row.error_message)
            return
        ack_code, ack_message = row.acknowledge_error_code, row.acknowledge_error_message
        if state.queue.sent:
            self._take_acknowledged(state, ack_code, ack_message)
        if row.acquired_records:
            self._take_acquired(state, row)
        if row.error_code != NO_ERROR:
            self._take_trouble(state, row, row.error_code, row.error_message)
        elif remedy_for(ack_code) is not Remedy.WAIT and not row.acquired_records:
            self._take_trouble(state, row, ack_code, ack_message)
        else:
            state.failures = 0

    def _take_acknowledged(self, state: SessionPartition, code: int, message: str | None) -> None:
        if code in _DIVISIBLE and not self._last and state.queue.split():
            return
        settled = state.queue.settle()
        for part in settled:
            if part.kind is Acknowledgement.RENEW:
                self._take_renewed(state, part, renewed=code == NO_ERROR)
        self.gathered.results += state.results(settled, code, message)

    def _take_renewed(self, state: SessionPartition, part: AckRange, *, renewed: bool) -> None:
        if renewed:
            state.held.relock(part.first, part.last, self._lock)
            self.lock_used = True
            return
        # the group refuses renewals, or the lock is lost already: it is left to run out
        for run in state.held.pieces(part.first, part.last):
            state.held.relock(run.first, run.last, msgspec.structs.replace(run.lock, renew_at=inf))

    def _take_acquired(self, state: SessionPartition, row: ShareFetchResponsePartitionData) -> None:
        pieces = sorted(AcquiredRange(r.first_offset, r.last_offset, r.delivery_count) for r in row.acquired_records)
        ranges = state.queue.unseen(tidy(pieces))
        if not ranges:
            return
        lost: list[OffsetRange] = []
        for first, last in joined((first, last) for first, last, _ in ranges):
            lost += (OffsetRange(run.first, run.last) for run in state.held.acquire(first, last, self._lock))
        if lost:
            self.gathered.locks_lost.append(LockLostRanges(state.partition, tuple(lost)))
        self.lock_used = True
        self.gathered.acquired.append(
            AcquiredRecords(state.partition, row.records or b"", tuple(ranges), self._lock.deadline, tuple(pieces))
        )

    def _take_trouble(self, state: SessionPartition, row: Row, code: int, message: str | None) -> None:
        remedy = remedy_for(code)
        if remedy is Remedy.WAIT:
            state.pause(self._now)
            if not state.empty:
                self.fetch_from = max(self.fetch_from, state.paused_until)
        else:
            # it leaves: what is not answered for does not count, and the session forgets it with the next fetch
            sent, waiting = state.queue.give_up()
            self.gathered.results += state.results([*sent, *waiting], code, message)
            if lost := state.held.clear():
                self.gathered.locks_lost.append(LockLostRanges(state.partition, tuple(lost), code))
            state.wanted = False
        leader = _leader(row, self._response) if remedy is Remedy.MOVE else None
        self.gathered.troubles.append(PartitionTrouble(state.partition, code, message, remedy, leader))


def _leader(row: Row, response: SessionResponse) -> LeaderHint | None:
    node_id, epoch = row.current_leader.leader_id, row.current_leader.leader_epoch
    for endpoint in response.node_endpoints:
        if endpoint.node_id == node_id:
            return LeaderHint(NodeId(node_id), epoch, endpoint.host, endpoint.port)
    # all zeros is what a broker writes that says nothing
    return LeaderHint(NodeId(node_id), epoch, None, None) if node_id >= 0 and (node_id or epoch > 0) else None

"""Note what becomes of records, cheaply, and turn it into ranges when a request is made.

In: acknowledgements of single offsets and of whole batches, results of a broker. Out: ranges for the session, tickets.
Must never: send an offset twice, or one whose lock is lost.
"""

from __future__ import annotations

import asyncio
import re
from bisect import bisect_right
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from operator import attrgetter
from typing import Final

from shareproxy.drain.acquired import AcquiredRange
from shareproxy.drain.model import Acknowledgement, AckResult, OffsetRange
from shareproxy.drain.session import SharePartition, ShareSession
from shareproxy.drain.tickets import AckTicket, PendingAcks, settled
from shareproxy.protocol.errors import ErrorCode

# what one byte says of an offset; the values below are those of `Acknowledgement`, noted but not sent
OPEN: Final = 255
SENT: Final = 254
LOST: Final = 253
NOT_OURS: Final = 252
DELAYED: Final = 251
# one pattern for each, as repeating one byte is by far the quickest that `re` can do
_NOTED_RUNS: Final = tuple(
    (kind, bytes((kind,)), re.compile(re.escape(bytes((kind,))) + b"+"))
    for kind in Acknowledgement
    if kind is not Acknowledgement.RENEW
)
# offsets with these marks are still to be acknowledged
_UNDECIDED: Final = (bytes((OPEN,)), bytes((DELAYED,)))
# a release that waits goes out this part of the lock before it ends, where locks cannot be renewed
RELEASE_EARLY: Final = 0.1
# A broker that is told of a part of what it handed over in one range keeps books on each offset of it from then on: its
# answer takes four times as long (Kafka 4.4). Ranges smaller than this many offsets are taken together.
SMALLEST_PIECE: Final = 100

INVALID_RECORD_STATE: Final = 121
_LOCK_LOST: Final = "not sent: the lock of these records is lost, they come again"
_AGAIN: Final = "not sent: these records were acknowledged before"
_NO_RENEWAL: Final = "not sent: locks cannot be renewed; that needs Kafka 4.2 and share.renew.acknowledge.enable"

_by_first = attrgetter("first")


class _Sent:
    """A range that has been given to the session, and has no answer yet."""

    __slots__ = ("first", "kind", "last", "left", "pending")

    def __init__(self, first: int, last: int, kind: Acknowledgement, pending: PendingAcks) -> None:
        self.first, self.last, self.kind, self.pending = first, last, kind, pending
        self.left = last - first + 1


class PartitionAcks:
    """Acknowledgements of one partition on their way to one broker.

    Args:
        partition: by name and topic id.
        session: takes the ranges.
        noted: called when something is there to be sent.
        provoke: called when somebody waits for an answer.
        unseen: takes acknowledgements whose answer nobody looked at, for the next commit.
    """

    def __init__(
        self,
        partition: SharePartition,
        session: ShareSession,
        noted: Callable[[PartitionAcks], None],
        provoke: Callable[[], None],
        unseen: deque[PendingAcks] | None = None,
    ) -> None:
        self.partition, self.session = partition, session
        self._unseen = unseen
        self.name = partition.name
        self.lots: list[HeldLot] = []
        self._noted, self._provoke = noted, provoke
        self._dirty: list[HeldLot] = []
        self._sent: list[_Sent] = []
        self._renewals: list[_Sent] = []
        self._later: dict[PendingAcks, tuple[asyncio.TimerHandle, Callable[[], None]]] = {}

    def hand_over(self, ranges: Sequence[AcquiredRange], pieces: Sequence[AcquiredRange] = ()) -> HeldLot:
        """Return a lot for offsets that were acquired; older lots that hold one of them have lost it.

        Args:
            ranges: ascending.
            pieces: how the broker cut them, if it did.
        """
        lot = HeldLot(self, ranges, pieces)
        if self.lots:
            self.lots = [older for older in self.lots if not older.finished]
            for older in self.lots:
                for first, last, _ in ranges:
                    older.lose(first, last)
        self.lots.append(lot)
        return lot

    def new_pending(self) -> PendingAcks:
        """Return what acknowledgements noted from now on wait in, together."""
        return PendingAcks(self.name, self._provoke, self._unseen)

    def note(self, lot: HeldLot) -> None:
        """Remember a lot that has something to send."""
        if not self._dirty:
            self._noted(self)
        self._dirty.append(lot)

    def flush(self, *, whole: bool = False) -> bool:
        """Give what was noted to the session; return whether nothing stays behind.

        Args:
            whole: leave out what is only a part of a piece, unless it has waited long enough.
        """
        dirty, self._dirty = self._dirty, []
        kept = [lot for lot in dirty if not lot.flush(whole=whole)]
        self._dirty = kept + self._dirty  # an answer that comes at once may have more noted
        return not self._dirty

    def grow_old(self) -> bool:
        """Take it that a moment has passed; return whether something that is noted was so before it as well."""
        return sum(lot.grow_old() for lot in self._dirty) > 0  # each of them has to be told

    def send(self, first: int, last: int, kind: Acknowledgement, pending: PendingAcks) -> None:
        """Give one range to the session; what it does not hold is answered at once."""
        entries = self._renewals if kind is Acknowledgement.RENEW else self._sent
        pending.unanswered += last - first + 1
        entries.append(_Sent(first, last, kind, pending))
        lost = self.session.acknowledge(self.partition, first, last, kind)
        if lost:
            ranges = tuple((OffsetRange(*each), kind) for each in lost)
            self.answer(AckResult(self.name, ranges, INVALID_RECORD_STATE, _LOCK_LOST))

    def answer(self, result: AckResult) -> None:
        """Take a result to those who wait for it."""
        entries = self._sent
        entries.sort(key=_by_first)
        starts = [entry.first for entry in entries]
        finished = False
        for (first, last), kind in result.ranges:
            if kind is Acknowledgement.RENEW:
                self._answer_renewal(result, first, last)
                continue
            at = max(bisect_right(starts, first) - 1, 0)
            while at < len(entries) and entries[at].first <= last:
                entry = entries[at]
                at += 1
                common = min(last, entry.last) - max(first, entry.first) + 1
                if common > 0 and entry.left:
                    entry.left -= common
                    finished = finished or not entry.left
                    entry.pending.take(result, common)
        if finished:
            self._sent = [entry for entry in entries if entry.left > 0]

    def _answer_renewal(self, result: AckResult, first: int, last: int) -> None:
        for entry in self._renewals:
            common = min(last, entry.last) - max(first, entry.first) + 1
            if common > 0 and entry.left:
                common = min(common, entry.left)
                entry.left -= common
                entry.pending.take(result, common)
        self._renewals = [entry for entry in self._renewals if entry.left > 0]

    def later(self, due: float, pending: PendingAcks, release: Callable[[], None]) -> None:
        """Release at a time, or as soon as the session is over."""

        def now() -> None:
            del self._later[pending]
            release()

        self._later[pending] = (asyncio.get_running_loop().call_at(due, now), now)

    def outstanding(self) -> set[PendingAcks]:
        """Return everything that has been noted and has no answer yet, renewals aside."""
        return {entry.pending for entry in self._sent} | {lot.pending() for lot in self._dirty}

    def lose(self, ranges: Iterable[OffsetRange]) -> list[OffsetRange]:
        """Take it that offsets are not held any more; return those of them that somebody still had to acknowledge."""
        undone = []
        for first, last in ranges:
            for lot in self.lots:
                if lot.lose(first, last):
                    undone.append(OffsetRange(max(first, lot.first), min(last, lot.last)))
        return undone

    def lose_all(self, message: str) -> None:
        """Take it that the session is over: nothing is held, and whatever has no answer gets none."""
        for lot in self.lots:
            lot.lose(lot.first, lot.last)
        self.lots.clear()
        for timer, release in list(self._later.values()):
            timer.cancel()
            release()
        if self._dirty:
            self.flush()
        for entry in [*self._sent, *self._renewals]:
            ranges = ((OffsetRange(entry.first, entry.last), entry.kind),)
            entry.pending.take(AckResult(self.name, ranges, None, message), entry.left)
        self._sent.clear()
        self._renewals.clear()

    @property
    def idle(self) -> bool:
        """Whether nothing is held, noted or on its way."""
        return not (self._dirty or self._sent or self._renewals or any(not lot.finished for lot in self.lots))


class HeldLot:
    """Records of one partition that came with one answer; `Lot` of `shareproxy.drain.record`."""

    __slots__ = ("_acks", "_dirty", "_due", "_old", "_pending", "_pieces", "first", "last", "marks", "open")

    def __init__(
        self, acks: PartitionAcks, ranges: Sequence[AcquiredRange], pieces: Sequence[AcquiredRange] = ()
    ) -> None:
        self._acks = acks
        self._dirty = False
        self._pending: PendingAcks | None = None
        # places in `marks` of pieces that may have open offsets, and the starts of those that have waited
        self._old: frozenset[int] = frozenset()
        self._due: frozenset[int] = frozenset()
        # `open` counts the offsets that nobody has acknowledged yet
        self.first, self.last = ranges[0].first, ranges[-1].last
        self._pieces = _places(self.first, self.last, pieces)
        if len(ranges) == 1:
            self.open = self.last - self.first + 1
            self.marks = bytearray(b"\xff") * self.open
            return
        self.marks = bytearray([NOT_OURS]) * (self.last - self.first + 1)
        self.open = 0
        for first, last, _ in ranges:
            size = last - first + 1
            self.open += size
            self.marks[first - self.first : last + 1 - self.first] = b"\xff" * size

    @property
    def acks(self) -> PartitionAcks:
        """Where its acknowledgements go."""
        return self._acks

    def pending(self) -> PendingAcks:
        """Return what the acknowledgements noted now wait in, together."""
        pending = self._pending
        if pending is None:
            pending = self._pending = self._acks.new_pending()
        return pending

    @property
    def finished(self) -> bool:
        """Whether each of its offsets is acknowledged or lost."""
        return self.open <= 0 and not self._dirty

    def is_open(self, offset: int) -> bool:
        """Return whether an offset is held and not acknowledged."""
        return self.marks[offset - self.first] == OPEN

    def lock_deadline(self, offset: int) -> float:
        """Return when the broker may give the offset to somebody else; 0 where it is not ours any more."""
        if self.marks[offset - self.first] not in (OPEN, DELAYED):
            return 0.0
        return self._acks.session.lock_deadline(self._acks.partition, offset) or 0.0

    def acknowledge(self, offset: int, kind: Acknowledgement, delay: float = 0.0) -> AckTicket:
        """Note what becomes of one offset; it is sent with the next fetch or commit."""
        at = offset - self.first
        if self.marks[at] != OPEN or kind is Acknowledgement.RENEW or delay > 0:
            return self._unusual(offset, kind, delay)
        self.marks[at] = kind
        self.open -= 1
        acks = self._acks
        if not self._dirty:
            self._dirty = True
            acks.note(self)
        return AckTicket(self._pending or self.pending(), offset, kind)

    def acknowledge_all(self, first: int, last: int, kind: Acknowledgement, delay: float = 0.0) -> PendingAcks | None:
        """Note what becomes of all open offsets in a range; return what to wait for, `None` where none is open."""
        start, stop = first - self.first, last + 1 - self.first
        count = self.marks.count(OPEN, start, stop)
        if not count:
            return None
        if kind is Acknowledgement.RENEW:
            return self._renew(first, last)
        if delay > 0:
            return self._release_later(first, last, delay)
        if count == stop - start:
            self.marks[start:stop] = bytes((kind,)) * count
        else:
            self.marks[start:stop] = self.marks[start:stop].replace(b"\xff", bytes((kind,)))
        self.open -= count
        if not self._dirty:
            self._dirty = True
            self._acks.note(self)
        return self.pending()

    def set_aside(self, ranges: Iterable[OffsetRange], kind: Acknowledgement) -> None:
        """Acknowledge offsets that no record is handed out for; nobody waits for the answer."""
        for first, last in ranges:
            self.acknowledge_all(first, last, kind)

    def flush(self, *, whole: bool = False) -> bool:
        """Give what was noted to the session, as ranges; return whether nothing stays behind.

        Args:
            whole: leave out what is only a part of a piece, unless it has waited long enough.
        """
        marks, start, pending = self.marks, self.first, self.pending()
        noted = bytes(marks)
        kept = self._parts(noted) if whole and self.open else []
        for begin, end in kept:
            noted = noted[:begin] + b"\xff" * (end - begin) + noted[end:]
        runs = [
            (run.start(), run.end(), kind)
            for kind, mark, pattern in _NOTED_RUNS
            if mark in noted
            for run in pattern.finditer(noted)
        ]
        runs.sort()
        for begin, end, kind in runs:
            marks[begin:end] = b"\xfe" * (end - begin)
            self._acks.send(start + begin, start + end - 1, kind, pending)
        if kept:
            return False
        self._dirty, self._pending = False, None
        self._old = self._due = frozenset()
        pending.close()
        return True

    def _parts(self, noted: bytes) -> list[tuple[int, int]]:
        """Return the pieces that are acknowledged in part, those that have waited long enough aside."""
        self._pieces = [
            (begin, end) for begin, end in self._pieces if any(noted.find(mark, begin, end) >= 0 for mark in _UNDECIDED)
        ]
        return [each for each in self._pieces if each[0] not in self._due and _is_noted(noted, each)]

    def grow_old(self) -> bool:
        """Take it that a moment has passed; return whether something that is noted was so before it as well."""
        noted = bytes(self.marks)
        now = frozenset(piece[0] for piece in self._pieces if _is_noted(noted, piece))
        self._due, self._old = now & self._old, now
        return bool(self._due)

    def lose(self, first: int, last: int) -> int:
        """Take it that offsets are not held any more; return how many were open."""
        start, stop = max(first - self.first, 0), min(last + 1 - self.first, len(self.marks))
        if start >= stop:
            return 0
        part = self.marks[start:stop]
        count = part.count(OPEN) + part.count(DELAYED)
        if count:
            self.marks[start:stop] = part.replace(b"\xff", b"\xfd").replace(b"\xfb", b"\xfd")
            self.open -= count
        return count

    def release_now(self, waiting: Sequence[OffsetRange], pending: PendingAcks) -> None:
        """Release what waited for it; what was lost meanwhile is answered so."""
        for first, last in waiting:
            for begin, end in self._runs(first, last, DELAYED):
                self.marks[begin - self.first : end + 1 - self.first] = b"\xfe" * (end - begin + 1)
                self.open -= end - begin + 1
                self._acks.send(begin, end, Acknowledgement.RELEASE, pending)
            for begin, end in self._runs(first, last, LOST):
                ranges = ((OffsetRange(begin, end), Acknowledgement.RELEASE),)
                pending.results.append(AckResult(self._acks.name, ranges, INVALID_RECORD_STATE, _LOCK_LOST))
        pending.close()

    def _runs(self, first: int, last: int, mark: int) -> Iterable[OffsetRange]:
        """Return the ranges between two offsets that carry a mark."""
        part = bytes(self.marks[first - self.first : last + 1 - self.first])
        for run in re.finditer(re.escape(bytes((mark,))) + b"+", part, re.DOTALL):
            yield OffsetRange(first + run.start(), first + run.end() - 1)

    def _renew(self, first: int, last: int) -> PendingAcks:
        acks = self._acks
        runs = list(self._runs(first, last, OPEN))
        kind = Acknowledgement.RENEW
        if not acks.session.can_renew:
            ranges = tuple((run, kind) for run in runs)
            return settled(acks.name, AckResult(acks.name, ranges, int(ErrorCode.UNSUPPORTED_VERSION), _NO_RENEWAL))
        pending = PendingAcks(acks.name, acks._provoke)
        for run in runs:
            acks.send(run.first, run.last, kind, pending)
        pending.close()
        pending.provoke()  # a lock does not wait for the next fetch
        return pending

    def _release_later(self, first: int, last: int, delay: float) -> PendingAcks:
        acks = self._acks
        due = asyncio.get_running_loop().time() + delay
        # those of the range that wait already have a time of their own
        runs = list(self._runs(first, last, OPEN))
        if not (acks.session.auto_renew and acks.session.can_renew):
            lock = acks.session.lock_duration or 0.0
            due = min(due, self.lock_deadline(runs[0].first) - lock * RELEASE_EARLY)
        for begin, end in runs:
            self.marks[begin - self.first : end + 1 - self.first] = b"\xfb" * (end - begin + 1)
        pending = PendingAcks(acks.name, acks._provoke)

        def release() -> None:
            self.release_now(runs, pending)
            acks._provoke()

        acks.later(due, pending, release)
        return pending

    def _unusual(self, offset: int, kind: Acknowledgement, delay: float) -> AckTicket:
        """Answer for an offset that is not open, or do what takes more than a note."""
        if self.marks[offset - self.first] == OPEN:
            pending = self._renew(offset, offset) if kind is Acknowledgement.RENEW else None
            if pending is None:
                pending = self._release_later(offset, offset, delay)
            return AckTicket(pending, offset, kind)
        lost = self.marks[offset - self.first] == LOST
        ranges = ((OffsetRange(offset, offset), kind),)
        text = _LOCK_LOST if lost else _AGAIN
        result = AckResult(self._acks.name, ranges, INVALID_RECORD_STATE, text)
        return AckTicket(settled(self._acks.name, result), offset, kind)


def _places(first: int, last: int, pieces: Iterable[AcquiredRange]) -> list[tuple[int, int]]:
    """Return where pieces begin and end, counted from the first offset; small neighbours are taken together."""
    begin, places = 0, []
    for end in sorted({piece.last + 1 - first for piece in pieces if first <= piece.last < last}):
        if end - begin >= SMALLEST_PIECE:
            places.append((begin, end))
            begin = end
    places.append((begin, last + 1 - first))
    return places


def _is_noted(marks: bytes, piece: tuple[int, int]) -> bool:
    """Return whether something of a piece waits to be sent."""
    return any(marks.find(mark, *piece) >= 0 for _, mark, _ in _NOTED_RUNS)

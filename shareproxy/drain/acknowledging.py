"""Carry acknowledgements of one partition from the caller to the wire: noted, sent, sent again in parts, settled.

In: ranges and what becomes of them, what the broker said. Out: what to send next, as batches of the protocol.
Must never: put an offset on the wire that nobody noted, or two kinds for one offset into a request (R23).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence
from operator import attrgetter
from typing import Protocol, TypeVar

import msgspec

from shareproxy.drain.acquired import AcquiredRange, Lock, without
from shareproxy.drain.model import Acknowledgement

# a batch of its own takes 8 bytes per offset and 2 for counts and tags; in a common list an offset takes one
_BYTES_PER_BATCH = 18


class AckRange(msgspec.Struct, gc=False):
    """Offsets, both ends included, what becomes of them, and the lock they are held under."""

    first: int
    last: int
    kind: Acknowledgement
    lock: Lock

    def __len__(self) -> int:
        return self.last - self.first + 1


class AckQueue:
    """What a caller acknowledged of one partition and no broker has answered for yet.

    Renewals stand apart: they go in requests of their own, because one refused range voids all of its partition's.
    """

    __slots__ = ("_noted", "_renewals", "_retries", "count", "sent")

    def __init__(self) -> None:
        self._noted: list[AckRange] = []
        self._retries: deque[list[AckRange]] = deque()
        self._renewals: list[AckRange] = []
        self.sent: list[AckRange] = []
        """What the request in flight carries."""
        self.count = 0
        """How many offsets no broker has answered for; renewals do not count."""

    def __bool__(self) -> bool:
        return bool(self._noted or self._retries or self._renewals or self.sent)

    @property
    def pending(self) -> bool:
        """Return whether acknowledgements wait to be sent, other than renewals."""
        return bool(self._noted or self._retries)

    @property
    def retrying(self) -> bool:
        """Return whether a refused request is being sent again in parts."""
        return bool(self._retries)

    @property
    def urgent(self) -> bool:
        """Return whether something must not be parked with a fetch: renewals, and parts of a refused request."""
        return bool(self._retries or self._renewals)

    def note(self, first: int, last: int, kind: Acknowledgement, lock: Lock) -> None:
        """Take an acknowledgement of offsets that have left what is held."""
        self.count += last - first + 1
        noted = self._noted
        if noted:
            before = noted[-1]
            if before.last + 1 == first and before.kind is kind and before.lock is lock:
                before.last = last
                return
        noted.append(AckRange(first, last, kind, lock))

    def note_renewal(self, first: int, last: int, lock: Lock) -> None:
        """Take the wish to prolong the lock of held offsets; once is enough for each."""
        taken = sorted((part.first, part.last) for part in self._renewals)
        for begin, end in without(first, last, taken) if taken else ((first, last),):
            self._renewals.append(AckRange(begin, end, Acknowledgement.RENEW, lock))

    def take(self) -> list[AckRange]:
        """Return what the next request carries, ascending: a part of a refused one, else renewals, else the rest."""
        if self._retries:
            self.sent = self._retries.popleft()
        elif self._renewals:
            self.sent, self._renewals = merged(self._renewals), []
        else:
            self.sent, self._noted = merged(self._noted), []
        return self.sent

    def take_everything(self) -> list[AckRange]:
        """Return all that waits, ascending, for the last request of a session; renewals stay behind."""
        parts = [part for parts in self._retries for part in parts]
        self._retries.clear()
        self._renewals.extend(part for part in parts if part.kind is Acknowledgement.RENEW)
        self.sent = merged([*self._noted, *(part for part in parts if part.kind is not Acknowledgement.RENEW)])
        self._noted = []
        return self.sent

    def settle(self) -> list[AckRange]:
        """Return what was sent; it is answered for now."""
        settled, self.sent = self.sent, []
        self.count -= sum(len(part) for part in settled if part.kind is not Acknowledgement.RENEW)
        return settled

    def split(self) -> bool:
        """Send again in two parts what was refused as a whole, and return whether there are parts."""
        parts = halves(self.sent)
        if parts is None:
            return False
        self._retries.extend(parts)
        self.sent = []
        return True

    def give_up(self) -> tuple[list[AckRange], list[AckRange]]:
        """Return what was sent, and what was still waiting, renewals too; nothing is left to send."""
        sent, waiting = self.sent, [*self._waiting(), *self._renewals]
        self._noted, self._renewals, self.sent = [], [], []
        self._retries.clear()
        self.count = 0
        return sent, waiting

    def _waiting(self) -> list[AckRange]:
        if not self._retries:
            return self._noted
        return [*(part for parts in self._retries for part in parts), *self._noted]

    def unseen(self, ranges: Iterable[AcquiredRange]) -> list[AcquiredRange]:
        """Return acquired ranges without the offsets whose acknowledgement waits: the caller is done with those.

        It happens where a lock ran out before the acknowledgement was sent, and the broker gave the record to the same
        member again: the acknowledgement counts for the new lock then.
        """
        taken = sorted((part.first, part.last) for part in self._waiting() if part.kind is not Acknowledgement.RENEW)
        if not taken:
            return list(ranges)
        return [
            AcquiredRange(left.first, left.last, one.delivery_count)
            for one in ranges
            for left in without(one.first, one.last, taken)
        ]


_first_offset = attrgetter("first")


def merged(parts: list[AckRange]) -> list[AckRange]:
    """Return ranges ascending, neighbours of one kind and lock as one."""
    if len(parts) < 2:
        return parts
    parts.sort(key=_first_offset)
    before = parts[0]
    result = [before]
    for part in parts[1:]:
        if before.last + 1 == part.first and before.kind is part.kind and before.lock is part.lock:
            before.last = part.last
        else:
            result.append(part)
            before = part
    return result


def halves(parts: list[AckRange]) -> list[list[AckRange]] | None:
    """Cut ranges that were refused as a whole into two parts; `None` where one range is left.

    A broker takes all ranges of a partition or none (facts §0.11). What is under one lock most likely shares its fate,
    so that locks are kept whole first.
    """
    if len(parts) < 2:
        return None
    locks = {part.lock.number: None for part in parts}
    if len(locks) > 1:
        early = set(list(locks)[: (len(locks) + 1) // 2])
        return [
            [part for part in parts if part.lock.number in early],
            [part for part in parts if part.lock.number not in early],
        ]
    middle = (len(parts) + 1) // 2
    return [parts[:middle], parts[middle:]]


class _Batch(Protocol):
    """Either of the two generated classes for an AcknowledgementBatch."""

    def __init__(self, first_offset: int, last_offset: int, acknowledge_types: list[int]) -> None: ...


B = TypeVar("B", bound=_Batch)


def wire_batches(parts: Sequence[AckRange], batch: type[B]) -> list[B]:
    """Write ascending ranges as AcknowledgementBatches: one type for all offsets, or one type per offset.

    Neighbours of one kind become one batch. Where kinds alternate, a list with a type per offset is used if that is
    shorter.
    """
    if len(parts) == 1:
        only = parts[0]
        return [batch(only.first, only.last, [int(only.kind)])]
    batches: list[B] = []
    stretch: list[tuple[int, int, int]] = []
    for part in parts:
        kind = int(part.kind)
        if stretch:
            first, last, before = stretch[-1]
            if last + 1 == part.first:
                if before == kind:
                    stretch[-1] = (first, part.last, kind)
                else:
                    stretch.append((part.first, part.last, kind))
                continue
            _write(stretch, batch, batches)
        stretch = [(part.first, part.last, kind)]
    if stretch:
        _write(stretch, batch, batches)
    return batches


def _write(stretch: list[tuple[int, int, int]], batch: type[B], batches: list[B]) -> None:
    begin, end = stretch[0][0], stretch[-1][1]
    if len(stretch) > 1 and end - begin + 1 <= _BYTES_PER_BATCH * (len(stretch) - 1):
        batches.append(batch(begin, end, [kind for first, last, kind in stretch for _ in range(last - first + 1)]))
    else:
        batches.extend(batch(first, last, [kind]) for first, last, kind in stretch)

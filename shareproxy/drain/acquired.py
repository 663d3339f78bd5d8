"""Keep the offsets of one partition that a member holds and has not acknowledged, with their locks.

In: ranges that a broker handed over, offsets that are acknowledged, the time. Out: pieces that leave, locks run out.
Everything is ranges: taking out a whole batch costs the same for 5 records as for 5,000.
Must never: hold an offset twice, or let one leave twice.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Sequence
from math import inf
from typing import NamedTuple

import msgspec

from shareproxy.drain.model import OffsetRange


class AcquiredRange(NamedTuple):
    """Offsets that a broker handed to this member, all with the same number of deliveries (this time included)."""

    first: int
    last: int
    delivery_count: int


class Lock(msgspec.Struct, frozen=True, gc=False):
    """What offsets handed over or renewed together have in common.

    The broker starts its clock at some moment between the request and the answer; so there are two ends.

    Attributes:
        number: tells locks apart: what is refused for one offset is most likely refused for all under the same lock.
        deadline: from when on the broker may give the offsets to others.
        gone_at: when it may do so for certain: until then an acknowledgement is worth sending.
        renew_at: when to prolong it; infinite while that is under way, or was refused.
    """

    number: int
    deadline: float
    gone_at: float
    renew_at: float = inf


class HeldRun(msgspec.Struct, gc=False):
    """Neighbouring offsets, both ends included, under one lock."""

    first: int
    last: int
    lock: Lock

    def __len__(self) -> int:
        return self.last - self.first + 1


class HeldOffsets:
    """The offsets of one partition that are held and not yet acknowledged."""

    __slots__ = ("_firsts", "_runs", "count")

    def __init__(self) -> None:
        # ascending and disjoint; the first offsets stand apart so that bisect need not call anything
        self._runs: list[HeldRun] = []
        self._firsts: list[int] = []
        self.count = 0
        """How many offsets."""

    def __bool__(self) -> bool:
        return bool(self._runs)

    def __iter__(self) -> Iterator[HeldRun]:
        return iter(self._runs)

    def ranges(self) -> list[OffsetRange]:
        """Return what is held, ascending, neighbours joined whatever their locks."""
        return joined((run.first, run.last) for run in self._runs)

    def acquire(self, first: int, last: int, lock: Lock) -> list[HeldRun]:
        """Take over a range, and return what was held of it before: those locks were lost."""
        replaced = self.take_out(first, last) if self._runs and first <= self._runs[-1].last else []
        at = bisect_right(self._firsts, first)
        self._runs.insert(at, HeldRun(first, last, lock))
        self._firsts.insert(at, first)
        self.count += last - first + 1
        return replaced

    def pieces(self, first: int, last: int) -> list[HeldRun]:
        """Return what is held from `first` to `last`, ascending; it stays."""
        return [
            HeldRun(max(run.first, first), min(run.last, last), run.lock)
            for run in self._runs[self._slice(first, last)]
        ]

    def take_out(self, first: int, last: int) -> list[HeldRun]:
        """Let go of what is held from `first` to `last`, and return it, ascending."""
        runs, firsts = self._runs, self._firsts
        at = bisect_right(firsts, first) - 1
        if at >= 0 and (run := runs[at]).last >= last:
            # within one run: every acknowledgement of a single record, and most of whole batches
            self.count -= last - first + 1
            if run.first == first:
                if run.last == last:
                    del runs[at], firsts[at]
                    return [run]
                run.first = firsts[at] = last + 1
            else:
                if run.last > last:
                    runs.insert(at + 1, HeldRun(last + 1, run.last, run.lock))
                    firsts.insert(at + 1, last + 1)
                run.last = first - 1
            return [HeldRun(first, last, run.lock)]
        where = self._slice(first, last)
        found = runs[where]
        taken: list[HeldRun] = []
        left: list[HeldRun] = []
        for run in found:
            begin, end = max(run.first, first), min(run.last, last)
            taken.append(HeldRun(begin, end, run.lock))
            if run.first < begin:
                left.append(HeldRun(run.first, begin - 1, run.lock))
            if run.last > end:
                left.append(HeldRun(end + 1, run.last, run.lock))
            self.count -= end - begin + 1
        runs[where] = left
        firsts[where] = [run.first for run in left]
        return taken

    def clear(self) -> list[OffsetRange]:
        """Let go of everything, and return it."""
        gone = self.ranges()
        self._runs, self._firsts, self.count = [], [], 0
        return gone

    def relock(self, first: int, last: int, lock: Lock) -> None:
        """Put what is still held from `first` to `last` under another lock."""
        for run in self.take_out(first, last):
            self.acquire(run.first, run.last, lock)

    def lock_of(self, offset: int) -> Lock | None:
        """Return the lock of an offset, `None` if it is not held."""
        at = bisect_right(self._firsts, offset) - 1
        if at < 0 or (run := self._runs[at]).last < offset:
            return None
        return run.lock

    def expire(self, now: float) -> list[OffsetRange]:
        """Let go of what is certainly not ours any more, and return it."""
        gone = [run for run in self._runs if run.lock.gone_at <= now]
        if gone:
            self._runs = [run for run in self._runs if run.lock.gone_at > now]
            self._firsts = [run.first for run in self._runs]
            self.count -= sum(map(len, gone))
        return joined((run.first, run.last) for run in gone)

    def _slice(self, first: int, last: int) -> slice:
        """Return which runs touch the offsets from `first` to `last`."""
        begin = bisect_right(self._firsts, first) - 1
        if begin < 0 or self._runs[begin].last < first:
            begin += 1
        return slice(begin, max(begin, bisect_right(self._firsts, last)))


def tidy(ranges: Iterable[AcquiredRange]) -> list[AcquiredRange]:
    """Return acquired ranges ascending and disjoint, neighbours with the same count as one, without empty ones.

    Kafka 4.1 hands over one range per offset after partial acknowledgements, and a batch size of 0 gives (0, −1).
    """
    clean: list[AcquiredRange] = []
    for first, last, count in sorted(ranges):
        begin = first
        if clean:
            before = clean[-1]
            if before.last >= first:
                begin = before.last + 1
            if begin == before.last + 1 and before.delivery_count == count and begin <= last:
                clean[-1] = AcquiredRange(before.first, last, count)
                continue
        if begin <= last:
            clean.append(AcquiredRange(begin, last, count))
    return clean


def joined(ranges: Iterable[tuple[int, int]]) -> list[OffsetRange]:
    """Return ascending ranges with neighbours as one."""
    result: list[OffsetRange] = []
    for first, last in ranges:
        if result and result[-1].last + 1 == first:
            result[-1] = OffsetRange(result[-1].first, last)
        else:
            result.append(OffsetRange(first, last))
    return result


def without(first: int, last: int, taken: Sequence[tuple[int, int]]) -> list[OffsetRange]:
    """Return what is left of a range after ascending, disjoint ranges are taken away."""
    left: list[OffsetRange] = []
    begin = first
    for low, high in taken[max(0, bisect_left(taken, (first,)) - 1) :]:
        if high < begin:
            continue
        if low > last:
            break
        if low > begin:
            left.append(OffsetRange(begin, low - 1))
        begin = high + 1
    if begin <= last:
        left.append(OffsetRange(begin, last))
    return left

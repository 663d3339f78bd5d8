"""Keep the books: which offsets a producer was told of, which were finished, how often, and why more than once.

In: acknowledged offsets, the workers' files, the times of faults. Out: an account.
Must never: forgive a missing offset.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

Place = tuple[int, int]
"""Partition and offset."""


class Finished(NamedTuple):
    """One line of a worker."""

    place: Place
    delivery_count: int
    time: float


class Account(NamedTuple):
    """What became of all records.

    Attributes:
        produced: offsets that brokers acknowledged to the producer.
        finished: different ones of these that some worker finished.
        missing: produced, and finished by nobody.
        unknown: finished although no acknowledgement reached the producer; a lost answer explains these.
        again: how often a record was finished once more.
        unexplained: of these, how many without any fault between the two times.
        deliveries: how many records came at their highest count of 1, 2, 3 …
    """

    produced: int
    finished: int
    missing: Sequence[Place]
    unknown: int
    again: int
    unexplained: int
    deliveries: dict[int, int]


def read(files: Iterable[Path]) -> list[Finished]:
    """Read what workers wrote; a line cut off by a kill was not finished."""
    found = []
    for file in files:
        for line in file.read_text().splitlines(keepends=True):
            if line.endswith("\n"):
                partition, offset, count, time = line.split()
                found.append(Finished((int(partition), int(offset)), int(count), float(time)))
    return found


def settle(produced: set[Place], finished: Sequence[Finished], faults: Sequence[float], lock: float) -> Account:
    """Compare.

    Args:
        produced: acknowledged offsets.
        finished: lines of all workers.
        faults: when something was broken, in the same clock.
        lock: seconds for which a record stays locked when its holder is gone without a word.
    """
    times: dict[Place, list[float]] = {}
    counts: dict[Place, int] = {}
    for row in finished:
        times.setdefault(row.place, []).append(row.time)
        counts[row.place] = max(row.delivery_count, counts.get(row.place, 0))
    again = unexplained = 0
    for seen in times.values():
        seen.sort()
        for before, after in pairwise(seen):
            again += 1
            # what was finished when its acknowledgement could not be sent was broken at most one lock before
            unexplained += not any(before - lock <= fault <= after for fault in faults)
    deliveries = Counter(counts[place] for place in times if place in produced)
    missing = sorted(produced - times.keys())
    done = len(produced) - len(missing)
    unknown = len(times.keys() - produced)
    return Account(len(produced), done, missing, unknown, again, unexplained, dict(sorted(deliveries.items())))

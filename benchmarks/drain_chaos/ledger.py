"""Keep the books: which offsets a producer was told of, which were finished, how often, and why more than once.

In: acknowledged offsets, the workers' files, the times of faults. Out: an account.
Must never: forgive a missing offset.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Collection, Iterable, Sequence
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
        told: of these, how many a worker had told of: that its acknowledgement or lock was lost.
        unexplained: how many it had not told of, without any fault between the two times either.
        deliveries: how many records came at their highest count of 1, 2, 3 …
    """

    produced: int
    finished: int
    missing: Sequence[Place]
    unknown: int
    again: int
    told: int
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


_TELLS_LOSS = re.compile(r"\S+-(\d+): (?:acknowledgements|the locks) of ([\d–, ]+) (?:and \d+ more )?are lost")


def read_told(logs: Iterable[Path]) -> set[Place]:
    """Read which records' acknowledgements or locks the workers said were lost.

    A cluster moves leaders by itself some time after a broker has come back, so that not every loss lies close behind
    a fault.
    """
    places: set[Place] = set()
    for log in logs:
        for line in log.read_text(errors="replace").splitlines():
            try:
                event = json.loads(line)["event"]
            except (ValueError, KeyError, TypeError):
                continue  # cut off by a kill, or not a line of the log
            if found := _TELLS_LOSS.match(event):
                for part in found[2].split(", "):
                    first, _, last = part.strip().partition("–")
                    offsets = range(int(first), int(last or first) + 1)
                    places.update((int(found[1]), offset) for offset in offsets)
    return places


def settle(
    produced: set[Place],
    finished: Sequence[Finished],
    faults: Sequence[float],
    lock: float,
    told: Collection[Place] = (),
) -> Account:
    """Compare.

    Args:
        produced: acknowledged offsets.
        finished: lines of all workers.
        faults: when something was broken, in the same clock.
        lock: seconds for which a record stays locked when its holder is gone without a word.
        told: records whose acknowledgement or lock was lost, as workers said.
    """
    times: dict[Place, list[float]] = {}
    counts: dict[Place, int] = {}
    for row in finished:
        times.setdefault(row.place, []).append(row.time)
        counts[row.place] = max(row.delivery_count, counts.get(row.place, 0))
    again = said = unexplained = 0
    for place, seen in times.items():
        seen.sort()
        for before, after in pairwise(seen):
            again += 1
            if place in told:
                said += 1
                continue
            # what was finished when its acknowledgement could not be sent was broken at most one lock before
            unexplained += not any(before - lock <= fault <= after for fault in faults)
    deliveries = Counter(counts[place] for place in times if place in produced)
    missing = sorted(produced - times.keys())
    done = len(produced) - len(missing)
    unknown = len(times.keys() - produced)
    return Account(len(produced), done, missing, unknown, again, said, unexplained, dict(sorted(deliveries.items())))

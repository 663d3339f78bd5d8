"""Run inputs without a fuzzer: those that are kept, the seeds, and some that are changed at random.

In: a target. Out: how many inputs were run. Must never: need anything but Python.
"""

from __future__ import annotations

from collections.abc import Iterable
from random import Random

from fuzz.corpus import kept_inputs
from fuzz.mutation import mutated
from fuzz.target import Target


class ReproducedError(Exception):
    """An input showed a finding; the finding is the cause."""

    def __init__(self, data: bytes) -> None:
        super().__init__(f"input {data.hex()}")
        self.data = data


def replay(target: Target, inputs: Iterable[bytes]) -> int:
    """Run inputs.

    Raises:
        ReproducedError: one of them is a finding.
    """
    count = 0
    for data in inputs:
        try:
            target.run(data)
        except Exception as error:
            raise ReproducedError(data) from error
        count += 1
    return count


def plain_run(target: Target, runs: int, seed: int) -> int:
    """Run kept inputs and seeds, then changed ones.

    Raises:
        ReproducedError: one of them is a finding.
    """
    known = [*kept_inputs(target.name), *target.seeds()]
    random = Random(seed)
    changed = (mutated(target, random.choice(known), target.max_length, random) for _ in range(runs))
    return replay(target, known) + replay(target, changed)

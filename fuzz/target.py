"""Hold what makes up a fuzz target.

In: nothing. Out: the shape of a target. Must never: import the product: that happens under instrumentation.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from random import Random
from typing import NamedTuple


class Target(NamedTuple):
    """One thing that is fuzzed.

    Attributes:
        name: of the target and of its corpus file.
        what: a line for people.
        run: takes one input; raises for a finding.
        seeds: valid inputs to begin with, always the same.
        fresh: makes a valid input at random.
        max_length: of an input, in bytes.
    """

    name: str
    what: str
    run: Callable[[bytes], None]
    seeds: Callable[[], Iterable[bytes]]
    fresh: Callable[[Random], bytes]
    max_length: int = 4_096

"""An exception that is kept says what it said, and holds nothing else."""

from __future__ import annotations

import gc
import weakref

from shareproxy.drain.kept_errors import without_frames


class Held:
    """Something that a frame refers to."""


def test_nothing_of_its_frames_is_held() -> None:
    """Neither of its own, nor of what led to it, nor of those in a group."""
    watched = []

    def fails(depth: int) -> None:
        held = Held()
        watched.append(weakref.ref(held))
        try:
            if depth:
                fails(depth - 1)
            raise KeyError(depth)
        except KeyError as error:
            raise ExceptionGroup("several", [error, ValueError(depth)]) from error

    kept: Exception | None = None
    try:
        fails(2)
    except Exception as error:
        kept = without_frames(error)
    gc.collect()

    assert [each() for each in watched] == [None, None, None]
    assert str(kept) == "several (2 sub-exceptions)"


def test_a_circle_of_causes_ends() -> None:
    """As `raise … from …` may make one."""
    first, second = ValueError("a"), ValueError("b")
    first.__cause__, second.__cause__ = second, first

    assert without_frames(first) is first

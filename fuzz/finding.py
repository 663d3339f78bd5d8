"""Say that a promise is broken: the one error that a fuzz target raises on purpose.

In: a condition. Out: nothing, or a `FindingError`. Must never: be raised for what is only refused.
"""

from __future__ import annotations


class FindingError(AssertionError):
    """An input broke a promise; the text says which one."""


def expect(kept: bool, promise: str, *seen: object) -> None:
    """Hold a promise against what was seen.

    Args:
        kept: whether it was kept.
        promise: in words.
        seen: what shows that it was not; written out in the error.

    Raises:
        FindingError: it was not.
    """
    if not kept:
        details = "".join(f"\n  {_short(repr(item))}" for item in seen)
        raise FindingError(f"{promise}{details}")


def _short(text: str) -> str:
    return text if len(text) <= 600 else f"{text[:300]} … {text[-250:]}"

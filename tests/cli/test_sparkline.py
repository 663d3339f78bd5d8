"""Small bars in a line."""

from __future__ import annotations

import pytest

from shareproxy.cli.sparkline import BARS, PLAIN_BARS, sparkline


@pytest.mark.parametrize(
    ("values", "width", "drawn"),
    [
        ([0, 1, 2, 3, 4, 5, 6, 7], 8, "▁▂▃▄▅▆▇█"),
        ([0, 0, 0], 3, "▁▁▁"),
        ([5, 5], 2, "██"),
        ([1, 1000], 2, "▂█"),
        ([7, None, 7], 3, "█ █"),
        ([None, None], 2, "  "),
        ([], 3, "   "),
        ([4], 3, "  █"),
        ([9, 9, 0, 2], 2, "▁█"),
        ([1], 0, ""),
    ],
)
def test_bars_are_scaled_from_zero_to_the_largest(values: list[float | None], width: int, drawn: str) -> None:
    """The newest value is the rightmost, zero alone is the lowest bar, and what is unknown is a gap."""
    assert sparkline(values, width) == drawn


def test_there_are_bars_for_terminals_without_unicode() -> None:
    """The same eight levels in ASCII."""
    assert sparkline([0, 7], 2, PLAIN_BARS) == "_#"
    assert PLAIN_BARS.isascii()
    assert len(PLAIN_BARS) == len(BARS)

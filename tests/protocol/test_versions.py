"""Ranges of API versions."""

import pytest

from shareproxy.protocol.versions import HIGHEST, NONE, VersionRange


@pytest.mark.parametrize(
    ("text", "lowest", "highest"), [("3", 3, 3), ("1-4", 1, 4), ("2+", 2, HIGHEST), (" 0-13 ", 0, 13)]
)
def test_each_form_is_read(text: str, lowest: int, highest: int) -> None:
    """One version, a closed range, an open range; blanks do not matter."""
    assert VersionRange.parse(text) == VersionRange(lowest, highest)


@pytest.mark.parametrize("text", ["", "-1", "4-1", "1-", "+", "1+2", "a", "40000", "1 - 2", "none+", "0x1"])
def test_anything_else_is_refused(text: str) -> None:
    """The error shows what was written."""
    with pytest.raises(ValueError, match=r"version range|runs backwards"):
        VersionRange.parse(text)


@pytest.mark.parametrize("text", ["none", "0", "1-4", "2+"])
def test_text_survives_a_round_trip(text: str) -> None:
    """A range is written as it was read."""
    assert str(VersionRange.parse(text)) == text


def test_the_empty_range_holds_nothing() -> None:
    """`none` is false, contains no version and lies within every range."""
    assert not NONE
    assert 0 not in NONE
    assert VersionRange(3, 4) >= NONE
    assert list(NONE.span()) == []


def test_intersection_of_ranges_apart_is_none() -> None:
    """Ranges without a common version meet in the one empty range."""
    assert VersionRange(0, 2) & VersionRange(3, 5) == NONE
    assert VersionRange(0, 3) & VersionRange(2, HIGHEST) == VersionRange(2, 3)


def test_only_a_range_with_a_plus_is_open() -> None:
    """Both ends belong to a range."""
    assert VersionRange.parse("2+").open_ended
    assert not VersionRange.parse("2-4").open_ended
    assert list(VersionRange(2, 4).span()) == [2, 3, 4]

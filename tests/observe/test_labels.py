"""Label values."""

from __future__ import annotations

import pytest

from shareproxy.observe.labels import Labels


@pytest.mark.parametrize(
    ("value", "written"),
    [("a", "a"), ('"', '\\"'), ("\\", "\\\\"), ("\n", "\\n"), ("\\n", "\\\\n"), ("ü\r\t", "ü\r\t")],
)
def test_three_characters_are_escaped(value: str, written: str) -> None:
    """Quote, backslash, line feed; nothing else is."""
    labels = Labels()
    assert labels.escape(value) == written
    assert labels.replaced == 0


def test_each_broken_name_is_counted_once() -> None:
    """However often it is written."""
    labels = Labels()
    assert [labels.escape("a\udcff"), labels.escape("a\udcff")] == ["a\ufffd", "a\ufffd"]
    assert labels.replaced == 1

"""Choosing what to keep."""

from __future__ import annotations

from fuzz.smallest import smallest
from fuzz.target import Target
from shareproxy.protocol.versions import VersionRange


def run(data: bytes) -> None:
    """Read a version range; refuse some."""
    VersionRange.parse(data.decode())


TARGET = Target("versions", "version ranges", run, list, lambda random: b"1")


def test_inputs_that_reach_nothing_new_are_left_out() -> None:
    """One of each kind is enough, and the shortest is it."""
    assert smallest(TARGET, [b"100", b"1", b"7", b"none", b"77"]) == [b"1", b"none"]


def test_findings_are_left_out() -> None:
    """They are kept by hand, with a comment."""
    assert b"x" not in smallest(TARGET, [b"x", b"1"])

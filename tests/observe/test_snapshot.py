"""Filters of names, and what a group's view tells."""

from __future__ import annotations

import re

import pytest

from shareproxy.lag.descriptions import GroupDescription
from shareproxy.lag.model import GroupLag
from shareproxy.observe.snapshot import GroupView, NameFilter
from shareproxy.protocol.ids import GroupId
from tests.observe.watching import member

GROUP = GroupId("g")


@pytest.mark.parametrize(
    ("include", "exclude", "watched"),
    [
        (None, None, ["a", "ab", "b"]),
        ("a", None, ["a"]),
        ("a.*", None, ["a", "ab"]),
        (None, "a", ["ab", "b"]),
        ("a.*", ".*b", ["a"]),
    ],
)
def test_patterns_match_whole_names(include: str | None, exclude: str | None, watched: list[str]) -> None:
    """And what is excluded stays out."""
    names = NameFilter(include and re.compile(include), exclude and re.compile(exclude))  # type: ignore[arg-type]
    assert [name for name in ("a", "ab", "b") if names.matches(name)] == watched


def test_the_state_is_taken_from_whoever_told_it() -> None:
    """The listing has it, or the description."""
    described = GroupDescription(GROUP, "Stable")
    assert GroupView(GroupLag(GROUP, "Empty"), described).state == "Empty"
    assert GroupView(GroupLag(GROUP), described).state == "Stable"
    assert GroupView(GroupLag(GROUP)).state is None


def test_without_members_nobody_knows_what_is_subscribed() -> None:
    """No members is not "nothing is subscribed"."""
    assert GroupView(GroupLag(GROUP)).subscribed() is None
    assert GroupView(GroupLag(GROUP), GroupDescription(GROUP, "Empty")).subscribed() is None
    both = GroupDescription(GROUP, "Stable", members=(member("a", "b"), member("c")))
    assert GroupView(GroupLag(GROUP), both).subscribed() == frozenset({"a", "b", "c"})

"""Counting open file descriptors."""

from __future__ import annotations

import os
import resource

import pytest

from shareproxy.proxy import open_files
from shareproxy.proxy.open_files import COUNT_EVERY_SECONDS, OpenFiles, count_open_files


def test_a_file_more_is_one_more() -> None:
    """And the limit is the one that counts, the soft one."""
    before = count_open_files()
    with open(os.devnull):
        after = count_open_files()

    assert before is not None
    assert after == (before[0] + 1, resource.getrlimit(resource.RLIMIT_NOFILE)[0])


def test_counted_now_and_then() -> None:
    """Not at each question."""
    now = 0.0
    files = OpenFiles(lambda: now)
    first = files()
    with open(os.devnull):
        assert files() == first
        now = COUNT_EVERY_SECONDS
        later = files()

    assert first is not None
    assert later is not None
    assert later[0] == first[0] + 1


def test_systems_that_do_not_tell(monkeypatch: pytest.MonkeyPatch) -> None:
    """There is no number then."""
    monkeypatch.setattr(open_files, "_DIRECTORIES", ("/nowhere/fd",))

    assert count_open_files() is None

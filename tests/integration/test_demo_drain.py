"""The drain demo as `make demo-drain` runs it, with a small backlog."""

from __future__ import annotations

import re

from tests.support.command import run_shareproxy
from tests.support.real_kafka import VERSIONS, require_kafka


def test_the_lag_comes_down_to_0_and_nothing_is_lost() -> None:
    """Six workers in the end but one; the account is by offset."""
    require_kafka()

    done = run_shareproxy("demo", "--drain", "--records", "1200", "--kafka", VERSIONS[-1], timeout=280)

    assert done.returncode == 0, done.stderr
    account = dict(re.split(r" {2,}", line) for line in done.stdout.splitlines())
    assert account["records written"] == "1,200"
    assert account["finished by a worker"] == "1,200"
    assert account["lost"] == account["lag at the end"] == "0"
    assert re.search(r" lag +0   5 workers", done.stderr), done.stderr
    assert "kill -9" in done.stderr

"""The examples of docs/testing.md work, and its table names every method of the script."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from shareproxy.testing import SimulatedCluster

PAGE = (Path(__file__).parent.parent / "docs" / "testing.md").read_text(encoding="utf-8")
EXAMPLES = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
NOT_SCRIPT = {"start", "stop", "address", "bootstrap_servers", "cluster_id", "lift_all_faults"}


@pytest.mark.parametrize("example", EXAMPLES, ids=["lag", "faults", "consumer", "relay"])
def test_each_example_runs(example: str) -> None:
    """As it stands on the page; its assertions hold."""
    exec(compile(example, "docs/testing.md", "exec"), {"__name__": "example"})


def test_every_method_is_documented() -> None:
    """Nobody has to read the source to find one."""
    methods = {name for name in dir(SimulatedCluster) if not name.startswith("_")} - NOT_SCRIPT
    words = set(re.findall(r"[a-z_]+", " ".join(re.findall(r"`[^`\n]+`", PAGE))))
    assert methods - words == set()

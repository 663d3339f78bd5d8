"""The guide for workers says what the code does."""

from __future__ import annotations

import inspect
import re
from pathlib import Path
from typing import Any

import pytest

import shareproxy
from shareproxy import Retry

ROOT = Path(__file__).parent.parent
GUIDE = (ROOT / "docs" / "how-to" / "write-a-worker.md").read_text(encoding="utf-8")
PARAMETERS = inspect.signature(shareproxy.run).parameters


def test_the_defaults_of_retry_are_those_of_the_guide() -> None:
    """The line is Python, and makes the same value."""
    line = next(line for line in GUIDE.splitlines() if line.startswith("Retry("))
    assert eval(line, {"Retry": Retry}) == Retry()


def test_each_argument_that_is_named_exists() -> None:
    """Those of `run`, or of the consumer under it."""
    known = {*PARAMETERS, *inspect.signature(shareproxy.ShareConsumer).parameters, *Retry.__struct_fields__, "after_s"}
    named = set(re.findall(r"`([a-z_]+)=", GUIDE))
    assert len(named) > 10
    assert named <= known


@pytest.mark.parametrize(("name", "value"), [("stop_timeout", 25.0), ("max_waiting", 200)])
def test_defaults_that_the_guide_gives(name: str, value: Any) -> None:
    """In brackets behind the name."""
    assert PARAMETERS[name].default == value
    assert re.search(rf"`{name}` \({value:g}( s)?\)", GUIDE)


def test_a_handler_loop_of_the_guide_is_python() -> None:
    """So is the example, which other tests run."""
    for code in re.findall(r"^```python\n(.*?)^```", GUIDE, re.MULTILINE | re.DOTALL):
        compile(code, "write-a-worker.md", "exec")
    compile((ROOT / "examples" / "worker.py").read_text(encoding="utf-8"), "worker.py", "exec")

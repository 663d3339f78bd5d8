"""The reference lists what workers log, as the code has it."""

from __future__ import annotations

import ast

from tests.test_docs_proxy import LEVELS, LOGS, ROOT, name_of, rows, section

# what the worker says by way of `HandlerLog`, which counts how often
WAYS = LEVELS | {"often"}


def _is_logging(node: ast.AST) -> bool:
    if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in WAYS):
        return False
    return name_of(node.func.value) in {*LOGS, "_logger", "logger"}


def events() -> set[str]:
    """Return the fixed texts of all calls that log; the others pass on what a caller or an event says."""
    found: set[str] = set()
    for path in (ROOT / "shareproxy" / "drain").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if _is_logging(node) and isinstance(node, ast.Call) and isinstance(node.args[0], ast.Constant):
                found.add(str(node.args[0].value))
    return found


def test_each_event_of_the_workers_is_documented() -> None:
    """And none that is not there any more."""
    documented = rows(section("Log of workers"), "event")

    assert "task failed" in documented
    assert set(documented) == events()

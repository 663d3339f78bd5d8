"""The reference lists the log's events, the reasons of closes and the metrics as the code has them."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from shareproxy.observe import proxy_metrics
from shareproxy.observe.proxy_metrics import ProxyMetrics
from shareproxy.proxy.close import CloseReason
from tests.proxy.test_meter import busy_meter

ROOT = Path(__file__).parent.parent
REFERENCE = (ROOT / "docs" / "reference.md").read_text(encoding="utf-8")
LEVELS = {"debug", "info", "warning", "error"}
LOGS = ("log", "_log", "get_logger")


def section(heading: str) -> str:
    """Return what stands below a heading, up to the next of its kind."""
    return re.split(r"^## ", REFERENCE.split(f"\n## {heading}\n")[1], maxsplit=1, flags=re.MULTILINE)[0]


def rows(text: str, title: str) -> dict[str, str]:
    """Return the rows of the table whose first column has a title, by what that column says."""
    table = text.split(f"| {title} |")[1].split("\n\n")[0]
    return dict(re.findall(r"^\| `([^`]+)` \|(.*)$", table, re.MULTILINE))


def name_of(node: ast.expr) -> str:
    """Return the last name of an expression."""
    match node:
        case ast.Attribute():
            return node.attr
        case ast.Name():
            return node.id
        case ast.Call():
            return name_of(node.func)
    return ""


def _is_log_call(call: ast.Call) -> bool:
    """Tell `log.info(…)` and `getattr(log, level)(…)` from other calls."""
    if isinstance(call.func, ast.Attribute):
        return call.func.attr in LEVELS and name_of(call.func.value) in LOGS
    inner = call.func
    return isinstance(inner, ast.Call) and name_of(inner.func) == "getattr" and name_of(inner.args[0]) in LOGS


def _dict_keys(node: ast.AST) -> set[str]:
    keys = {key.value for found in ast.walk(node) if isinstance(found, ast.Dict) for key in found.keys
            if isinstance(key, ast.Constant)}  # fmt: skip
    return {key for key in keys if isinstance(key, str)}


def _keys_put_into(name: str, scope: ast.AST) -> set[str]:
    """Return the keys that a function puts into a dict of its own."""
    keys: set[str] = set()
    for node in ast.walk(scope):
        targets: list[ast.expr] = []
        if isinstance(node, ast.Assign):
            targets = [part for target in node.targets for part in getattr(target, "elts", [target])]
        elif isinstance(node, ast.AnnAssign | ast.AugAssign):
            targets = [node.target]
        for target in targets:
            if isinstance(target, ast.Name) and target.id == name and getattr(node, "value", None) is not None:
                keys |= _dict_keys(node)
            elif isinstance(target, ast.Subscript) and name_of(target.value) == name:
                keys.add(ast.literal_eval(target.slice))
    return keys


class LogLine(NamedTuple):
    """A call that logs.

    Attributes:
        event: what it says.
        keys: what is in each line.
        more_keys: what may be in it, from a dict that other lines may share.
    """

    event: str
    keys: set[str]
    more_keys: set[str]


def log_lines() -> Iterator[LogLine]:
    """Return each call that logs, in all of the code but that of workers."""
    for path in sorted((ROOT / "shareproxy").rglob("*.py")):
        if "drain" in path.parts:
            continue  # see test_docs_worker_log
        tree = ast.parse(path.read_text(encoding="utf-8"))
        functions = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]
        for scope in functions:
            for call in ast.walk(scope):
                if not (isinstance(call, ast.Call) and _is_log_call(call)):
                    continue
                event = call.args[0].value if isinstance(call.args[0], ast.Constant) else None
                assert isinstance(event, str), f"{path.name}:{call.lineno}: an event is one fixed text"
                keys: set[str] = set()
                more: set[str] = set()
                for keyword in call.keywords:
                    if keyword.arg is not None:
                        keys.add("exception" if keyword.arg == "exc_info" else keyword.arg)
                    elif isinstance(keyword.value, ast.Call):
                        made_by = [found for found in functions if found.name == name_of(keyword.value)]
                        more |= {key for found in made_by for key in _dict_keys(found)}
                    else:
                        more |= _keys_put_into(name_of(keyword.value), scope)
                yield LogLine(event, keys, more)


def test_each_event_of_the_log_is_documented_with_its_keys() -> None:
    """And no event or key that is not there any more."""
    documented = {
        event: set(re.findall(r"`([a-z_]+)`", row.split("|")[0]))
        for event, row in rows(section("Log"), "event").items()
    }
    lines = list(log_lines())

    assert "connection closed" in {line.event for line in lines}
    assert set(documented) == {line.event for line in lines}
    for event, keys in documented.items():
        calls = [line for line in lines if line.event == event]
        certain = {key for line in calls for key in line.keys}
        assert certain <= keys <= certain.union(*(line.more_keys for line in calls)), event
    everywhere = {key for keys in documented.values() for key in keys}
    assert {key for line in lines for key in line.more_keys} <= everywhere


def test_exactly_the_reasons_of_closes_are_documented() -> None:
    """A person who reads one in the log finds what it means."""
    assert set(rows(section("Log"), "reason")) == {reason.value for reason in CloseReason}


def test_exactly_the_metrics_of_the_proxy_are_documented() -> None:
    """With their labels."""
    documented = {
        name: set(re.findall(r"[a-z_]+", row.split("|")[0]))
        for name, row in re.findall(r"^\| `(shareproxy_proxy_\w+)` \|(.*)$", section("HTTP"), re.MULTILINE)
    }
    named = (
        *proxy_metrics.COUNTERS,
        *proxy_metrics.GAUGES,
        *proxy_metrics.EXTREMES,
        *proxy_metrics.HISTOGRAMS,
        proxy_metrics.ANSWER_SECONDS,
    )
    labels = {about.name: {about.label} - {""} for about in named}
    shown = {}
    for family in ProxyMetrics(busy_meter().to_dict).collect():
        name = family.name.removeprefix(proxy_metrics.PREFIX)
        shown[family.name + ("_total" if family.type == "counter" else "")] = labels.pop(name)

    assert documented == shown
    assert not labels


def test_each_limit_says_why_it_is_what_it_is() -> None:
    """A person who wants to change one knows what for."""
    settings = re.findall(r"^\| `limits\.(\w+)` \|", REFERENCE, re.MULTILINE)

    assert list(rows(section("Settings"), "limit")) == settings

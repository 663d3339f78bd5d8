"""The page of the interop table is made of what there is."""

from __future__ import annotations

import json
import re

import pytest

from tests.interop.cases import CASES, MANY_NODES
from tests.interop.client import FOLDERS, clients
from tests.interop.clusters import SHAPES
from tests.interop.page import Mark, Outcome, Table, page
from tests.interop.table import PAGE


@pytest.mark.parametrize("folder", [client.folder for client in clients()])
def test_each_client_has_a_row_in_each_table(folder: str) -> None:
    """A client that was added and not run yet shows here; `make interop` makes the page."""
    name = json.loads((FOLDERS / folder / "client.json").read_text(encoding="utf-8"))["name"]
    # another version of a Python package may be installed here
    pattern = re.sub(r"\\{.*?\\}", r"[\\w.]+", re.escape(name))

    rows = re.findall(rf"^\| {pattern} \|.*$", PAGE.read_text(encoding="utf-8"), re.MULTILINE)

    assert len(rows) == len(SHAPES)
    assert {row.count("|") for row in rows} == {len(CASES) + 2, len(CASES) - len(MANY_NODES) + 2}


def test_a_reason_is_a_note_and_given_once() -> None:
    """Cells with the same reason share its number."""
    absent = Outcome(Mark.SKIPPED, "`go` is not installed")
    outcomes = [Outcome(Mark.PASSED), absent, Outcome(Mark.FAILED, "lost a record"), absent]

    lines = page([Table("One node", ["a", "b", "c", "d"], {"client 1": outcomes})], sealed=True).splitlines()

    assert "| client 1 | ✓ | – 1 | ✗ 2 | – 1 |" in lines
    assert lines[-2:] == ["1. `go` is not installed", "2. lost a record"]

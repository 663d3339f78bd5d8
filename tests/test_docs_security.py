"""Each line of the table of threats names a test that exists."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PAGE = (ROOT / "docs" / "security.md").read_text(encoding="utf-8")
THREATS = [line for line in PAGE.partition("## Threats")[2].partition("## ")[0].splitlines() if line.startswith("| ")][
    1:
]


@pytest.mark.parametrize("line", THREATS, ids=[line.split("|")[1].strip() for line in THREATS])
def test_each_threat_has_a_test(line: str) -> None:
    """By its file and its name."""
    file, name = re.findall(r"`(tests/[a-z_/]+\.py)::(test_[a-z0-9_]+)`", line)[0]

    assert re.search(rf"^(async )?def {name}\(", (ROOT / file).read_text(encoding="utf-8"), re.MULTILINE)


def test_there_are_threats() -> None:
    """The table was found."""
    assert len(THREATS) > 15

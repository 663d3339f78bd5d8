"""Inputs that are kept."""

from __future__ import annotations

from pathlib import Path

import pytest

import fuzz.corpus
from fuzz.corpus import keep, kept_inputs, write_out


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fuzz.corpus, "KEPT", tmp_path)


def test_inputs_come_back() -> None:
    """What is kept is there again, once."""
    assert keep("records", [b"bb", b"a", b"a"]) == 2
    assert keep("records", [b"a"]) == 0

    assert kept_inputs("records") == [b"a", b"bb"]


def test_target_without_inputs() -> None:
    """A new target has none."""
    assert kept_inputs("records") == []


def test_lines_of_words_are_left_out(tmp_path: Path) -> None:
    """A line says what the input behind it has shown."""
    (tmp_path / "records.txt").write_text("# too long\nYQ==\n\n")

    assert kept_inputs("records") == [b"a"]


def test_file_stays_small(tmp_path: Path) -> None:
    """What does not fit is left out."""
    added = keep("records", [bytes((number,)) * 3_000 for number in range(40)])

    assert 0 < added < 40
    assert (tmp_path / "records.txt").stat().st_size <= fuzz.corpus.LIMIT_BYTES


def test_folder_for_a_fuzzer(tmp_path: Path) -> None:
    """One file for each input."""
    write_out(tmp_path / "seeds", [b"a", b"b"])

    assert sorted(file.read_bytes() for file in (tmp_path / "seeds").iterdir()) == [b"a", b"b"]

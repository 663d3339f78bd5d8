"""The command line of the fuzzer."""

from __future__ import annotations

from pathlib import Path

import pytest

import fuzz.__main__ as command
from fuzz.run import Outcome
from fuzz.target import Target
from fuzz.targets import NAMES


def broken(data: bytes) -> None:
    """Refuse one input."""
    if data == b"bad":
        raise ValueError("planted")


@pytest.fixture
def planted(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """Put a target with a defect in the place of all others; return the present folder."""
    target = Target("records", "planted", broken, lambda: [b"bad"], lambda random: b"bad")
    monkeypatch.setattr(command, "load", lambda name: target)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_targets_are_listed(capsys: pytest.CaptureFixture[str]) -> None:
    """Each with a line of what it is."""
    assert command.main(["--list"]) == 0

    assert [line.split()[0] for line in capsys.readouterr().out.splitlines()] == list(NAMES)


def test_unknown_target_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    """With those that there are."""
    assert command.main(["recrods"]) == 2

    assert "recrods" in capsys.readouterr().err


def test_replay_shows_a_finding(planted: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """With the traceback, the way to see it again, and an exit code."""
    (planted / "input").write_bytes(b"bad")

    assert command.main(["records", "--replay", str(planted / "input")]) == 1

    shown = capsys.readouterr().err
    assert "planted" in shown
    assert "--replay .fuzz/findings/records-plain" in shown


def test_replay_of_a_good_input(planted: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Nothing is found, and that is said."""
    (planted / "input").write_bytes(b"good")

    assert command.main(["records", "--replay", str(planted / "input")]) == 0
    assert "1 inputs, nothing found" in capsys.readouterr().out


def test_without_atheris(planted: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """Inputs are run all the same, and it is said what is missing."""
    monkeypatch.setattr(command, "available", lambda: False)

    assert command.main(["records", "--runs", "5"]) == 1

    captured = capsys.readouterr()
    assert "Atheris is not installed" in captured.out
    assert (planted / ".fuzz" / "findings" / "records-plain").read_bytes() == b"bad"


def test_finding_of_the_fuzzer(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """The exit code tells, and the file is named."""
    seen: list[float] = []

    def fuzz(name: str, *, seconds: float, **options: object) -> Outcome:
        seen.append(seconds)
        finding = Path("f/records-crash") if name == "records" else None
        return Outcome(name, 1, 10, 5, 6, 7, finding, finding is not None, "the traceback")

    monkeypatch.setattr(command, "available", lambda: True)
    monkeypatch.setattr(command, "fuzz", fuzz)

    assert command.main(["records", "framing", "--seconds", "60", "--jobs", "2"]) == 1

    out = capsys.readouterr().out
    assert "the traceback" in out
    assert "again: python -m fuzz records --replay f/records-crash" in out
    assert seen == [60, 60]

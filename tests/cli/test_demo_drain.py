"""The drain demo's account and its line; with real brokers it is in tests/integration/test_demo_drain.py."""

from __future__ import annotations

from pathlib import Path

import pytest

from shareproxy.cli import demo_drain
from shareproxy.cli.demo_drain import BAR_WIDTH, lag_line, settle
from tests.support.command import run_shareproxy


@pytest.fixture
def noted(tmp_path: Path) -> tuple[Path, Path]:
    """Return the files of two workers; the second was killed while it wrote a line."""
    first, second = tmp_path / "finished-1", tmp_path / "finished-2"
    first.write_text("0 0 1\n0 1 2\n1 0 1\n")
    second.write_text("0 1 1\n1 0 1\n1 1")
    return first, second


def test_an_offset_that_nobody_noted_is_missing(noted: tuple[Path, Path]) -> None:
    """A line that the kill cut off does not count."""
    account = settle({(0, 0), (0, 1), (1, 0), (1, 1)}, noted, None)

    assert account.written == 4
    assert account.missing == ((1, 1),)


def test_what_came_again_is_told_apart_by_the_killed_worker(noted: tuple[Path, Path]) -> None:
    """Two were finished twice; the killed worker had both of them."""
    first, second = noted

    assert settle({(0, 0)}, noted, second)[2:] == (2, 2)
    assert settle({(0, 0)}, (first, second), None)[2:] == (2, 0)


def test_a_worker_that_never_came_to_write_is_no_trouble(tmp_path: Path) -> None:
    """Its file does not exist."""
    assert settle({(0, 0)}, [tmp_path / "finished-1"], None).missing == ((0, 0),)


def test_the_bar_is_full_at_first_and_empty_only_at_0(monkeypatch: pytest.MonkeyPatch) -> None:
    """One record of a million still shows."""
    monkeypatch.setattr(demo_drain, "speaks_unicode", lambda: False)

    assert lag_line(1_000, 1_000, 2, 0.0).startswith("#" * BAR_WIDTH + " lag  1,000   2 workers")
    assert lag_line(1, 1_000_000, 6, 12.4).startswith("#" + "." * (BAR_WIDTH - 1) + " lag      1")
    assert lag_line(0, 1_000, 5, 99.6).startswith("." * BAR_WIDTH + " lag      0")
    assert lag_line(0, 1_000, 5, 99.6).endswith("100 records/s")


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["--drain", "--stay"], "two demos"),
        (["--records", "500"], "give --drain too"),
    ],
)
def test_what_does_not_go_together_is_one_sentence(arguments: list[str], sentence: str) -> None:
    """Before anything starts."""
    done = run_shareproxy("demo", *arguments)

    assert done.returncode == 2
    assert sentence in done.stderr
    assert "Traceback" not in done.stderr

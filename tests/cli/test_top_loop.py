"""The screen of `top` in use: on a terminal, over a cluster that the test writes."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from shareproxy.admin.errors import AccessDenied, CannotReach
from shareproxy.cli.top_history import History, Look
from shareproxy.cli.top_loop import is_final, print_snapshots
from shareproxy.cli.top_state import State
from shareproxy.lag.model import LagReport
from tests.support.scripted_top import ScriptedAdmin, write
from tests.support.terminal import OnTerminal, on_terminal

TWO = {
    "groups": {
        "orders": {"lags": [5, 7], "members": 2},
        "payments": {"lags": [3, None], "state": "Empty"},
        "refunds": {"lags": [900]},
    }
}


@pytest.fixture
def script(tmp_path: Path) -> Path:
    """A file that is the cluster."""
    file = tmp_path / "cluster.json"
    write(file, TWO)
    return file


@pytest.fixture
def screen(script: Path) -> Iterator[OnTerminal]:
    """`top` over that cluster, drawn once."""
    with on_terminal(sys.executable, "-m", "tests.support.scripted_top", str(script), "0.5", columns=100) as running:
        running.wait_for("orders", "payments", "refunds")
        yield running


def first_row(screen: OnTerminal) -> str:
    """Return the first word below the heading."""
    line = screen.lines[4]
    return line.split()[0] if line else ""


def test_new_numbers_appear(screen: OnTerminal, script: Path) -> None:
    """Without a key, one look after the other; the trend goes on."""
    write(script, {"groups": {"orders": {"lags": [1, 2]}}})
    screen.wait_until(lambda text: "lag 3" in text and "payments" not in text, "the new lag")
    screen.wait_until(lambda text: "▃" in screen.line_with("orders") or "▂▂" in text, "a lower bar")


def test_rows_are_sorted_by_keys(screen: OnTerminal) -> None:
    """By lag at first; s, r and numbers change that."""
    assert first_row(screen) == "refunds"
    screen.press("1")
    screen.wait_until(lambda _: first_row(screen) == "orders", "rows by name")
    screen.press("r")
    screen.wait_until(lambda _: first_row(screen) == "refunds", "rows by name, reversed")
    screen.press("s")
    screen.wait_for("STATE▲")


def test_a_group_is_opened_and_closed(screen: OnTerminal) -> None:
    """Enter shows its partitions, Escape goes back."""
    screen.press("down", "enter")
    screen.wait_for("shareproxy top orders", "TOPIC▲")
    screen.press("escape")
    screen.wait_for("3 groups")


def test_rows_are_filtered(screen: OnTerminal) -> None:
    """While one types, and afterwards."""
    screen.press("/", "pay")
    screen.wait_for("filter: pay")
    screen.wait_until(lambda text: "refunds" not in text and "payments" in text, "one group")
    screen.press("enter")
    screen.wait_for("Esc drops filter 'pay'")
    screen.press("escape")
    screen.wait_for("refunds")


def test_a_pause_keeps_what_is_shown(screen: OnTerminal, script: Path) -> None:
    """And going on looks at once."""
    screen.press("p")
    screen.wait_for("paused")
    write(script, {"groups": {"returns": {"lags": [1]}}})
    screen.press("h")
    screen.wait_for("any key goes back")
    screen.press("x")
    screen.wait_for("refunds")
    screen.press("p")
    screen.wait_for("returns")


def test_help_and_the_interval(screen: OnTerminal) -> None:
    """Both on keys."""
    screen.press("?")
    screen.wait_for("sort by the next column")
    screen.press("q")
    screen.wait_for("refunds")
    screen.press("+")
    screen.wait_for("every 1 s")
    screen.press("-")
    screen.wait_for("every 0.5 s")


def test_ctrl_l_draws_everything_anew(screen: OnTerminal) -> None:
    """For a screen that something else has written on."""
    before = screen.output.count(b"refunds")
    screen.press("ctrl-l")
    screen.wait_until(lambda _: screen.output.count(b"refunds") > before, "the row is written again")


def test_a_failing_cluster_is_named_and_asked_again(screen: OnTerminal, script: Path) -> None:
    """The last numbers stay, marked as old, until it answers."""
    write(script, {"failure": "127.0.0.1:9092: connection refused; check that the broker runs"})
    screen.wait_for("trying again", "connection refused", "refunds")
    write(script, {"groups": {"returns": {"lags": [1]}}})
    screen.wait_until(lambda text: "returns" in text and "trying again" not in text, "the cluster is back")


def test_a_cluster_that_is_not_there_yet_is_waited_for(tmp_path: Path) -> None:
    """One may start `top` before the brokers."""
    file = tmp_path / "cluster.json"
    write(file, {"failure": "connection refused"})
    with on_terminal(sys.executable, "-m", "tests.support.scripted_top", str(file), "0.5") as running:
        running.wait_for("trying again, nothing seen yet: connection refused")
        write(file, TWO)
        running.wait_for("orders")
        running.press("q")
        assert running.wait_end() == 0


def test_keys_work_while_a_look_hangs(screen: OnTerminal, script: Path) -> None:
    """The cluster may take its time; a person does not have to."""
    write(script, {"hang": True})
    screen.wait_for("waiting for an answer")
    screen.press("1")
    screen.wait_until(lambda _: first_row(screen) == "orders", "rows by name")
    screen.press("q")
    assert screen.wait_end() == 0


def test_a_login_that_fails_is_not_tried_again(screen: OnTerminal, script: Path) -> None:
    """Many failing logins lock an account; the reason is told when the screen is gone."""
    write(script, {"denied": "127.0.0.1:9092 does not accept the password of alice"})
    assert screen.wait_end() != 0
    assert screen.left_behind() == []
    assert "does not accept the password of alice" in screen.text


def test_it_ends_after_so_many_looks(script: Path) -> None:
    """For screenshots, and for tests."""
    command = (sys.executable, "-m", "tests.support.scripted_top", str(script), "0.5", "2")
    with on_terminal(*command) as running:
        assert running.wait_end() == 0
        assert running.left_behind() == []


def test_colours(screen: OnTerminal) -> None:
    """A state is told by its colour as well."""
    assert screen.style_of("Stable         2")[0] == "green"
    assert screen.style_of("Empty          0")[0] == "brown"  # the emulator's word for yellow
    assert screen.style_of("refunds")[2]


def test_no_color(script: Path) -> None:
    """The selected row can still be seen."""
    command = (sys.executable, "-m", "tests.support.scripted_top", str(script), "0.5")
    with on_terminal(*command, columns=100, environment={"NO_COLOR": "1"}) as running:
        running.wait_for("orders")
        assert running.style_of("Stable         2")[0] == "default"
        assert running.style_of("refunds")[2]


def test_a_window_as_small_as_allowed(script: Path) -> None:
    """40 columns, 8 lines: name, lag and reason."""
    command = (sys.executable, "-m", "tests.support.scripted_top", str(script), "0.5")
    with on_terminal(*command, columns=40, lines=8) as running:
        running.wait_for("refunds", "LAG▼", "900", "q quit")
        running.resize(39, 8)
        running.wait_for("40 x 8 is needed")


def test_which_failures_are_final() -> None:
    """Only a login that failed; a missing right may be given in the meantime."""
    assert is_final(AccessDenied("the password is wrong"))
    assert not is_final(AccessDenied("may not", 31, operation="DESCRIBE", resource="group 'orders'"))
    assert not is_final(CannotReach("connection refused"))


async def printed(file: Path, iterations: int, told: list[str]) -> None:
    """Print snapshots of the scripted cluster."""

    async def look() -> Look:
        return Look(await ScriptedAdmin(file).lag(None, want=None))

    await print_snapshots(
        look,
        History(),
        State(interval=0.01),
        iterations=iterations,
        width=None,
        unicode=True,
        tell=told.append,
    )


async def test_snapshots_are_printed_one_after_another(script: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """With an empty line between them."""
    await printed(script, 2, [])
    first, second = capsys.readouterr().out.split("\n\n")
    assert [line.split()[0] for line in first.splitlines()[3:]] == ["refunds", "orders", "payments"]
    assert len(second.splitlines()) == len(first.splitlines())


async def test_a_look_that_fails_prints_no_table(script: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Nobody should take old numbers for new ones; the reason goes to stderr, and the exit code is that of the last."""
    write(script, {"failure": "connection refused"})
    told: list[str] = []
    with pytest.raises(CannotReach):
        await printed(script, 2, told)
    assert told == ["connection refused"]
    assert capsys.readouterr().out == ""


async def test_a_login_that_fails_ends_the_snapshots(script: Path) -> None:
    """At the first one."""
    write(script, {"denied": "the password is wrong"})
    told: list[str] = []
    with pytest.raises(AccessDenied):
        await printed(script, 100, told)
    assert told == []


async def test_brokers_that_did_not_answer_are_told(script: Path) -> None:
    """Beside the table, which may lack their groups."""
    told: list[str] = []

    async def look() -> Look:
        report = await ScriptedAdmin(script).lag(None, want=None)
        return Look(LagReport(report.cluster_id, report.time, report.groups, ("broker 2: no answer",)))

    await print_snapshots(look, History(), State(), iterations=1, width=80, unicode=False, tell=told.append)
    assert told == ["broker 2: no answer"]

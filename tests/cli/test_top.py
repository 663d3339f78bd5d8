"""The command `top`: flags, refusals, and what it asks of the cluster."""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import click
import pytest
from click.testing import CliRunner, Result

from shareproxy.cli import top as module
from shareproxy.cli.main import app
from shareproxy.cli.top_looks import ClusterLooks
from shareproxy.cli.top_state import State, View
from shareproxy.lag.visible_model import Want
from shareproxy.testing.ports import ports_side_by_side
from tests.support.command import run_shareproxy
from tests.support.terminal import on_terminal, shareproxy_on_terminal


def nobody() -> str:
    """Return an address where nobody listens."""
    return f"127.0.0.1:{ports_side_by_side(1)[0]}"


def run(*arguments: str) -> Result:
    """Run the command within this process, without a terminal."""
    return CliRunner().invoke(app, ["top", *arguments], env={"SHAREPROXY_BOOTSTRAP_SERVER": "127.0.0.1:1"})


def test_without_a_terminal_it_names_what_to_use_instead() -> None:
    """Its control sequences would be garbage in a file."""
    done = run_shareproxy("top", "--bootstrap-server", "127.0.0.1:1")
    assert done.returncode == 2
    assert done.stdout == ""
    assert "shareproxy lag --all-groups --output json" in done.stderr
    assert "--batch" in done.stderr


def test_a_dumb_terminal_is_refused_as_well() -> None:
    """It cannot place text."""
    command = (sys.executable, "-m", "shareproxy", "top", "--bootstrap-server", "127.0.0.1:1")
    with on_terminal(*command, columns=200, environment={"TERM": "dumb"}) as running:
        assert running.wait_end() == 2
        assert b"\x1b" not in running.output
        assert "--batch" in running.text


def test_without_a_broker_it_says_how_to_name_one() -> None:
    """As every command does."""
    done = run_shareproxy("top", "--batch")
    assert done.returncode == 2
    assert "--bootstrap-server" in done.stderr


@pytest.mark.parametrize(
    ("arguments", "part"),
    [
        (["--sort", "lagg"], "lagg"),
        (["--group", "("], "not a regular expression"),
        (["--sort", "oldest"], "--visible"),
        (["--interval", "0.1"], "0.5"),
        (["--iterations", "0"], "1"),
        (["--bootstrap-server", "nonsense:x"], "nonsense:x"),
    ],
)
def test_wrong_flags_are_named(arguments: Sequence[str], part: str) -> None:
    """Before anything is drawn or asked."""
    done = run("--batch", *arguments)
    assert done.exit_code == 2
    assert part in done.output


def test_flags_become_the_first_state(monkeypatch: pytest.MonkeyPatch) -> None:
    """And say what the cluster is asked for."""
    seen: dict[str, Any] = {}

    def run_top(looks: ClusterLooks, state: State, **options: object) -> int:
        seen.update(looks=looks, state=state, **options)
        return 0

    monkeypatch.setattr(module, "run_top", run_top)
    done = run(*["--batch", "-n3", "--sort", "oldest", "--reverse", "--interval", "7", "--visible", "-g^pay"])
    assert done.exit_code == 0, done.output
    assert seen["state"] == State(View("oldest", True), cluster="127.0.0.1:1", interval=7.0, closer=True)
    assert (seen["batch"], seen["iterations"]) == (True, 3)
    assert vars(seen["looks"])["_pattern"] == re.compile("^pay")
    assert Want.AGE in vars(seen["looks"])["_want"]


def test_a_plain_look_costs_no_more_than_lag(monkeypatch: pytest.MonkeyPatch) -> None:
    """A closer one has to be asked for."""
    seen: list[Mapping[str, object]] = []

    def run_top(looks: ClusterLooks, *_: object, **options: object) -> int:
        seen.append(vars(looks))
        return 0

    monkeypatch.setattr(module, "run_top", run_top)
    assert run("--batch").exit_code == 0
    assert seen[0]["_want"] is Want.LOG_END
    assert seen[0]["_pattern"] is None


def test_the_page_names_flags_that_there_are() -> None:
    """And all that only `top` has."""
    text = (Path(__file__).parents[2] / "docs" / "how-to" / "watch-live.md").read_text(encoding="utf-8")
    commands = [app.get_command(click.Context(app), name) for name in ("top", "lag")]
    there = {flag for command in commands if command is not None for one in command.params for flag in one.opts}
    named = set(re.findall(r"--[a-z]+(?:-[a-z]+)*", text))
    assert named <= there
    assert {"--group", "--sort", "--reverse", "--interval", "--visible", "--batch", "--iterations"} <= named


def test_a_batch_without_a_broker_ends_with_the_exit_code_for_that() -> None:
    """After so many looks; the reason is told once for each."""
    done = run_shareproxy("top", "--batch", "--iterations", "2", "--timeout", "0.5", "--bootstrap-server", nobody())
    assert done.returncode == 3
    assert done.stdout == ""
    assert done.stderr.count("connection refused") >= 2


def test_a_screen_without_a_broker_waits_for_it() -> None:
    """It may be about to start; Ctrl-C leaves the terminal clean."""
    with shareproxy_on_terminal("top", "--timeout", "0.5", "--bootstrap-server", nobody()) as running:
        running.wait_for("trying again, nothing seen yet")
        running.press("ctrl-c")
        assert running.wait_end() == 130
        assert running.left_behind() == []

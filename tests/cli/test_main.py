"""The command line as a process: usage, version, and what a wrong call is told."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest
from click.testing import CliRunner

from shareproxy.cli.main import COMMANDS, app
from shareproxy.version import __version__

WITHOUT_CLUSTER = ("demo", "completion", "offsets")


def shareproxy(*arguments: str, env: Mapping[str, str] | None = None) -> subprocess.CompletedProcess[str]:
    """Run the command in a process of its own."""
    clean = {name: value for name, value in os.environ.items() if not name.startswith("SHAREPROXY_")}
    return subprocess.run(
        [sys.executable, "-m", "shareproxy", *arguments],
        capture_output=True,
        text=True,
        check=False,
        env=clean | dict(env or {}),
        timeout=60,
    )


def test_version_is_printed() -> None:
    """`--version` is one line."""
    assert shareproxy("--version").stdout == f"shareproxy {__version__}\n"


@pytest.mark.parametrize("command", [*COMMANDS, "offsets reset", "offsets delete"])
def test_each_command_explains_itself(command: str) -> None:
    """`--help` works without a cluster, and names the flags as Kafka's tools do."""
    done = CliRunner().invoke(app, [*command.split(), "--help"])
    assert done.exit_code == 0
    if command not in WITHOUT_CLUSTER:
        assert "--bootstrap-server" in done.stdout
        assert "--command-config" in done.stdout


def test_help_names_every_command() -> None:
    """In one line each."""
    done = shareproxy("--help")
    listed = [line.split()[0] for line in done.stdout.partition("Commands:\n")[2].splitlines()]
    assert listed == list(COMMANDS)


def test_only_the_command_that_runs_is_imported() -> None:
    """Short commands start fast."""
    code = (
        "import sys; from shareproxy.cli.main import app; app(['lag', '--help'], standalone_mode=False); "
        "print([name for name in sys.modules if name.startswith(('shareproxy.lag', 'shareproxy.admin', 'asyncio')) "
        "or name in ('shareproxy.cli.describe', 'shareproxy.cli.serve')])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout.endswith("\n[]\n")


@pytest.mark.parametrize(
    ("arguments", "hint"),
    [
        (["lagg", "workers"], "No such command 'lagg'. Did you mean 'lag'?"),
        (["describ", "workers"], "No such command 'describ'. Did you mean 'describe'?"),
        (["qqq"], "No such command 'qqq'. Choose one of lag, groups, describe,"),
        (["lag", "--al-groups"], "--all-groups"),
        (["wait", "g", "--visble"], "--visible"),
        (["offsets", "rest", "g"], "Did you mean 'reset'?"),
        (["--verson"], "--version"),
    ],
)
def test_a_word_that_is_wrong_names_the_nearest(arguments: list[str], hint: str) -> None:
    """Commands and flags alike."""
    done = CliRunner().invoke(app, arguments)
    assert done.exit_code == 2
    assert hint in done.stderr


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (["lag", "g", "--bootstrap-server", "nonsense"], "write nonsense:9092"),
        (["lag", "g", "--bootstrap-server", "::1:9092"], "brackets"),
        (["lag", "g", "--bootstrap-server", "b:1", "--command-config", "/no/such/file"], "/no/such/file"),
        (["lag", "g", "--bootstrap-server", "b:1", "--timeout", "-1"], "timeout"),
        (["lag", "g", "--bootstrap-server", "b:1", "--config", "/no/such.toml"], "/no/such.toml"),
        (["serve", "--bootstrap-server", "b:1", "--node-ports", "9-1"], "node_ports: '9-1'"),
        (["serve", "--bootstrap-server", "b:1", "--listen", "19092"], "'19092' is not HOST:PORT"),
        (["serve", "--bootstrap-server", "b:1", "--node-ids", "1-x"], "'1-x' is not a node id"),
        (["serve", "--bootstrap-server", "b:1", "--node-ids", "0-99"], "19100-19163 has only 64"),
        (["serve", "--bootstrap-server", "b:1", "--listen", "0.0.0.0:0"], "--advertised-host"),
        (["serve", "--bootstrap-server", "b:1", "--log-level", "loud"], "debug, info, warning, error"),
        (["lag", "g", "--botstrap-server", "b:1"], "--bootstrap-server"),
        (["groups", "--type", "queue"], "'consumer'"),
        (["describe", "g", "--bootstrap-server", "b:1", "--topic", "t:x"], "orders:0,1"),
        (["wait", "g", "--timeout", "soon"], "'soon' is not a valid number of seconds"),
        (["offsets", "reset", "g", "--bootstrap-server", "b:1"], "--to-earliest"),
    ],
)
def test_wrong_usage_is_2_and_says_what_to_write(arguments: list[str], text: str) -> None:
    """No traceback, nothing on stdout, and the sentence helps."""
    done = shareproxy(*arguments)
    assert done.returncode == 2, done.stderr
    assert text in done.stderr
    assert done.stdout == ""
    assert "Traceback" not in done.stderr


def test_an_unknown_key_in_the_file_names_the_right_one(tmp_path: Path) -> None:
    """The file is named, with the key's path and its nearest neighbour."""
    path = tmp_path / "shareproxy.toml"
    path.write_text("[limits]\nmax_conections = 5\n")
    done = shareproxy("serve", "--bootstrap-server", "b:1", "--config", str(path))
    assert done.returncode == 2
    assert "'limits.max_conections' is not a setting; did you mean 'limits.max_connections'?" in done.stderr


def test_nobody_answers_is_3() -> None:
    """A port where nothing listens: the address and the cause are named, soon."""
    done = shareproxy("lag", "g", "--bootstrap-server", "127.0.0.1:1", "--timeout", "2")
    assert done.returncode == 3
    assert "127.0.0.1:1" in done.stderr
    assert "Traceback" not in done.stderr

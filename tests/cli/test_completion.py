"""Shell completion: the scripts, and group names from a cluster that may not be there."""

from __future__ import annotations

import shutil
import socket
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from shareproxy.cli import completion as module
from shareproxy.cli.completion import SHELLS, group_names, script_for
from shareproxy.cli.main import app
from shareproxy.config import Settings
from shareproxy.testing.ports import ports_side_by_side
from shareproxy.testing.simulated import SimulatedCluster
from tests.support.command import clean_environment, run_shareproxy
from tests.support.terminal import on_terminal


@pytest.mark.parametrize("shell", SHELLS)
def test_a_script_for_each_shell(shell: str) -> None:
    """It goes to stdout alone, so that a shell can read it."""
    done = run_shareproxy("completion", shell)
    assert done.returncode == 0
    assert done.stderr == ""
    assert f"_SHAREPROXY_COMPLETE={shell}_complete" in done.stdout
    assert done.stdout == script_for(shell)


def test_another_shell_is_refused() -> None:
    """With the names of those that there are."""
    done = run_shareproxy("completion", "csh")
    assert done.returncode == 2
    assert all(shell in done.stderr for shell in SHELLS)


def test_a_person_is_told_what_to_do_with_the_script() -> None:
    """Whoever sees it on a terminal did not give it to a shell."""
    with on_terminal(sys.executable, "-m", "shareproxy", "completion", "bash", lines=60, columns=120) as running:
        assert running.wait_end() == 0
        assert "source <(shareproxy completion bash)" in running.text


@pytest.fixture
def program(tmp_path: Path) -> Path:
    """A directory with the program under its own name, as after an installation."""
    file = tmp_path / "shareproxy"
    file.write_text(f'#!/bin/sh\nexec {sys.executable} -m shareproxy "$@"\n', encoding="utf-8")
    file.chmod(0o755)
    return tmp_path


def completed_by_bash(program: Path, line: str, **variables: str) -> list[str]:
    """Let bash complete the last word of a line as it does at the Tab key, and return what it offers."""
    if shutil.which("bash") is None:
        pytest.skip("there is no bash")
    script = """
        source <(shareproxy completion bash) || exit 1
        IFS=' ' read -r -a COMP_WORDS <<< "$LINE"
        [[ "$LINE" == *' ' ]] && COMP_WORDS+=('')
        COMP_CWORD=$(( ${#COMP_WORDS[@]} - 1 ))
        compopt() { :; }
        "$(complete -p shareproxy | sed -E 's/.*-F ([^ ]+).*/\\1/')" shareproxy
        printf '%s\\n' "${COMPREPLY[@]}"
    """
    environment = clean_environment()
    environment |= {"PATH": f"{program}:{environment['PATH']}", "LINE": line, **variables}
    done = subprocess.run(
        ["bash", "-c", script], capture_output=True, text=True, check=True, env=environment, timeout=60
    )
    assert done.stderr == ""
    return done.stdout.split()


def test_bash_completes_commands(program: Path) -> None:
    """By the beginning of their name."""
    assert completed_by_bash(program, "shareproxy to") == ["top"]
    assert {"lag", "doctor", "completion"} <= set(completed_by_bash(program, "shareproxy "))


def test_bash_completes_flags_and_their_values(program: Path) -> None:
    """A flag by its beginning, a value by the choices there are."""
    assert completed_by_bash(program, "shareproxy top --inter") == ["--interval"]
    assert completed_by_bash(program, "shareproxy top --sort pro") == ["produced"]
    assert completed_by_bash(program, "shareproxy completion ") == list(SHELLS)


@pytest.mark.parametrize("shell", [["bash", "--norc", "-i"], ["zsh", "-f", "-i"], ["fish", "--no-config", "-i"]])
def test_the_tab_key_of_a_real_shell(program: Path, shell: list[str]) -> None:
    """A person types the beginning, the shell the rest."""
    if shutil.which(shell[0]) is None:
        pytest.skip(f"there is no {shell[0]}")
    script = f"shareproxy completion {shell[0]}"
    load = {
        "bash": f"source <({script})",
        "zsh": f"autoload -Uz compinit; compinit -D -u; source <({script})",
        "fish": f"{script} | source",
    }
    environment = {"PATH": f"{program}:{clean_environment()['PATH']}", "PS1": "$ ", "HOME": str(program)}
    with on_terminal(*shell, columns=120, environment=environment) as running:
        running.press(f"{load[shell[0]]}; test a = a && echo load'ed'", "enter")
        running.wait_for("loaded")
        running.press("shareproxy to", "tab")
        running.wait_for("shareproxy top")
        running.press("--sort prod" if running.line_with("shareproxy top").endswith("top ") else " --sort prod", "tab")
        running.wait_for("--sort produced")


@pytest.fixture
def silent_broker() -> Iterator[str]:
    """An address where somebody listens and never answers."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        yield f"127.0.0.1:{listener.getsockname()[1]}"


def typed(arguments: Sequence[str] = (), groups: tuple[str, ...] = (), begin: str = "") -> list[str]:
    """Return the names that are offered after some flags and groups."""

    @click.command()
    @click.argument("groups", nargs=-1)
    @click.option("--bootstrap-server")
    @click.option("--command-config")
    @click.option("--config")
    def command(**_: object) -> None:
        """Stands for any command with groups."""

    context = command.make_context("command", [*arguments, *groups], resilient_parsing=True)
    parameter = next(one for one in command.params if one.name == "groups")
    return [item.value for item in group_names(context, parameter, begin)]


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> list[Settings]:
    """A cluster with some groups; collects the settings with which it is asked."""
    asked: list[Settings] = []

    def ask(settings: Settings, question: object) -> list[str]:
        asked.append(settings)
        return ["orders", "order-workers", "payments", "支払い", "a b", "x;reboot", "$(reboot)", "a\nb", "-rf", "*"]

    monkeypatch.setattr(module, "_ask", ask)
    monkeypatch.delenv("SHAREPROXY_BOOTSTRAP_SERVER", raising=False)
    return asked


BROKER = ("--bootstrap-server", "127.0.0.1:9092")


def test_group_names_begin_as_typed(cluster: list[Settings]) -> None:
    """They come from the cluster that the flags name."""
    assert typed(BROKER, begin="or") == ["orders", "order-workers"]
    assert cluster[0].bootstrap_server == "127.0.0.1:9092"


def test_a_group_is_not_offered_twice(cluster: list[Settings]) -> None:
    """It is on the line already."""
    assert typed(BROKER, ("orders",), "or") == ["order-workers"]


def test_names_that_a_shell_would_run_are_not_offered(cluster: list[Settings]) -> None:
    """The name of a group is chosen by others, and a shell runs what stands on the line."""
    assert typed(BROKER) == ["orders", "order-workers", "payments", "支払い"]


def test_without_a_broker_nobody_is_asked(cluster: list[Settings]) -> None:
    """Completion is quiet about it."""
    assert typed() == []
    assert cluster == []


def test_the_environment_names_the_broker_too(cluster: list[Settings], monkeypatch: pytest.MonkeyPatch) -> None:
    """As for any command."""
    monkeypatch.setenv("SHAREPROXY_BOOTSTRAP_SERVER", "127.0.0.1:9093")
    assert typed(begin="pay") == ["payments"]
    assert cluster[0].bootstrap_server == "127.0.0.1:9093"


def test_whatever_goes_wrong_offers_nothing(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Without a word on the line that is being typed."""

    def fail(settings: Settings, question: object) -> list[str]:
        sys.stderr.write("a warning\n")
        raise RuntimeError("a bug")

    monkeypatch.setattr(module, "_ask", fail)
    assert typed(BROKER) == []
    assert capsys.readouterr() == ("", "")


def test_groups_and_topics_of_a_cluster() -> None:
    """A name stands for a group or a topic, as the command has it; Kafka's own topics are nobody's business."""
    with SimulatedCluster() as simulated:
        simulated.create_topic("orders", 1)
        simulated.create_topic("mails", 1)
        simulated.join("order-workers", ["orders"])
        arguments = ["--bootstrap-server", simulated.bootstrap_servers]
        command = app.get_command(click.Context(app), "consume")
        assert command is not None
        context = command.make_context("consume", [*arguments, "order-workers", "mails"], resilient_parsing=True)
        group, topics = (next(one for one in command.params if one.name == name) for name in ("group", "topics"))

        assert [item.value for item in group.shell_complete(context, "or")] == ["order-workers"]
        assert [item.value for item in topics.shell_complete(context, "")] == ["orders"]


# What the shell runs, for a command that has `group_names` for its argument.
COMPLETING = """
import sys, click
from shareproxy.cli.completion import group_names
@click.command()
@click.argument("groups", nargs=-1, shell_complete=group_names)
@click.option("--bootstrap-server")
def command(**_): pass
command(prog_name="shareproxy")
"""


def completed_by(code: str, address: str) -> subprocess.CompletedProcess[str]:
    """Complete a group name in a process of its own."""
    line = f"shareproxy --bootstrap-server {address} "
    variables = {"COMP_WORDS": line, "COMP_CWORD": "3", "_SHAREPROXY_COMPLETE": "bash_complete"}
    return subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        check=False,
        env={**clean_environment(), **variables},
        timeout=30,
    )


def test_a_broker_that_is_not_there_offers_nothing() -> None:
    """Quietly."""
    done = completed_by(COMPLETING, f"127.0.0.1:{ports_side_by_side(1)[0]}")
    assert (done.stdout.strip(), done.stderr) == ("", "")


def test_a_broker_that_does_not_answer_offers_nothing(silent_broker: str) -> None:
    """The prompt comes back; how soon is not measured here."""
    done = completed_by(COMPLETING, silent_broker)
    assert (done.stdout.strip(), done.stderr) == ("", "")


def test_a_name_server_that_hangs_is_not_waited_for() -> None:
    """It hangs in a thread that nothing can end but the end of the process."""
    code = "import socket, threading\nsocket.getaddrinfo = lambda *_, **__: threading.Event().wait()\n" + COMPLETING
    done = completed_by(code, "kafka.example.org:9092")
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_the_command_is_named_in_the_help() -> None:
    """One finds it without a manual."""
    assert "completion" in CliRunner().invoke(app, ["--help"]).output

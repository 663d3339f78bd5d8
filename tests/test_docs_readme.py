"""What README.md shows works when it is copied."""

from __future__ import annotations

import contextlib
import io
import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner

from shareproxy.cli.main import app
from shareproxy.testing import SimulatedCluster

README = (Path(__file__).parent.parent / "README.md").read_text(encoding="utf-8")
USE_IT = README.partition("## Use it\n")[2].partition("\n## ")[0]
COMMANDS = [shlex.split(line, comments=True)[1:] for line in re.findall(r"^shareproxy [^\n]+$", USE_IT, re.MULTILINE)]
GO_ON = ("top", "serve", "exporter")  # until somebody ends them


@pytest.fixture(scope="module")
def cluster() -> Iterator[SimulatedCluster]:
    """Where the group that the page talks about has done all its work."""
    with SimulatedCluster() as cluster:
        cluster.create_topic("orders", 1)
        cluster.produce("orders", 0, 10)
        cluster.set_share_state("order-workers", "orders", 0, start_offset=4, delivery_complete_count=6)
        yield cluster


@pytest.mark.parametrize("command", [c for c in COMMANDS if c[0] not in GO_ON], ids=" ".join)
def test_each_command_does_something(command: list[str], cluster: SimulatedCluster) -> None:
    """With one name of a group on the whole page, that of the demo."""
    environment = {"SHAREPROXY_BOOTSTRAP_SERVER": cluster.bootstrap_servers}
    done = CliRunner().invoke(app, command, env=environment)
    assert done.exit_code == 0, done.stderr


@pytest.mark.parametrize("command", [c for c in COMMANDS if c[0] in GO_ON], ids=" ".join)
def test_flags_of_the_others_exist(command: list[str]) -> None:
    """Their help names them."""
    text = CliRunner().invoke(app, [command[0], "--help"]).output
    assert all(f"{word} " in text for word in command if word.startswith("--"))


def test_the_library_is_asked_in_a_script(cluster: SimulatedCluster) -> None:
    """As it stands there."""
    code = next(code for code in re.findall(r"^```python\n(.*?)^```", USE_IT, re.M | re.S) if "ShareAdmin(" in code)
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(compile(code.replace("kafka-1:9092", cluster.bootstrap_servers), "README.md", "exec"), {})
    assert printed.getvalue() == "0 True None\n"

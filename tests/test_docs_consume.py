"""What the docs say of `shareproxy consume` agrees with the code, and its examples print what they show."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from shareproxy.cli import consume, what_is_left
from shareproxy.cli.main import app
from shareproxy.cli.record_format import WrongFormat, json_line, text_format
from shareproxy.testing.simulated import SimulatedCluster
from tests.drain.fake_consumer import FakeRecord

DOCS = Path(__file__).parent.parent / "docs"
SECTION = (DOCS / "reference.md").read_text("utf-8").partition("## Records of consume\n")[2].partition("\n## ")[0]
HOW_TO = (DOCS / "how-to" / "consume-records-at-a-terminal.md").read_text("utf-8")
EXAMPLES = re.findall(r"^```\n\$ (shareproxy consume [^\n]+)\n(.*?)^```$", HOW_TO, re.MULTILINE | re.DOTALL)


def test_exactly_the_signs_are_documented() -> None:
    """Each sign of the table works, and the error that names all of them names no other."""
    documented = re.findall(r"^\| `(%.)` \|", SECTION, re.MULTILINE)
    for sign in documented:
        text_format(sign)(FakeRecord())
    with pytest.raises(WrongFormat) as error:
        text_format("%x")

    assert set(re.findall(r"%\S", str(error.value).partition("there are")[2].replace(",", " "))) == set(documented)


def test_signs_are_in_the_help() -> None:
    """The help has the same signs."""
    text = CliRunner().invoke(app, ["consume", "--help"]).output

    for sign in re.findall(r"^\| `(%.)` \|", SECTION, re.MULTILINE):
        assert f"{sign} " in text


def test_exactly_the_keys_of_json_are_documented() -> None:
    """A script's author finds every key, and no other."""
    written = set(re.findall(rb'"(\w+)":', json_line(FakeRecord(headers=[("h", b"1")]))))

    assert {key.encode() for key in re.findall(r'"(\w+)": ', SECTION)} == written


def test_each_deserializer_is_documented() -> None:
    """The table has every name."""
    documented = re.findall(r"^\| `([a-z]+)` \|", SECTION, re.MULTILINE)

    assert tuple(documented) == consume.DESERIALIZERS


def test_flags_of_the_guide_exist() -> None:
    """Each flag that the guide names is one."""
    command = app.get_command(click.Context(app), "consume")
    assert command is not None
    known = {flag for parameter in command.params for flag in parameter.opts}
    others = {"--to-earliest", "--execute", "--topic"}  # of `shareproxy offsets reset`

    assert set(re.findall(r"(?<![\w-])--[a-z][a-z0-9-]+", HOW_TO)) - others <= known


def test_the_examples_of_the_guide(monkeypatch: pytest.MonkeyPatch) -> None:
    """What they print is what the guide shows."""
    monkeypatch.setattr(what_is_left, "SETTLING_SECONDS", 0.1)
    assert len(EXAMPLES) == 3
    # the second and the third are about a group of which nothing was accepted yet
    for examples in (EXAMPLES[:1], EXAMPLES[1:]):
        with SimulatedCluster() as cluster:
            cluster.create_topic("orders", 1)
            cluster.produce("orders", 0, values=["order 1", "order 2", "order 3"], timestamp=1_767_323_045_000)
            cluster.set_group_config("order-workers", {"share.auto.offset.reset": "earliest"})
            monkeypatch.setenv("SHAREPROXY_BOOTSTRAP_SERVER", cluster.bootstrap_servers)
            for command, shown in examples:
                result = CliRunner().invoke(app, shlex.split(command)[1:])

                assert result.output == shown, command

"""Flags of the commands that change something."""

from __future__ import annotations

import pytest
from click.testing import CliRunner

from shareproxy.cli.changing import first_part
from shareproxy.cli.main import app

COMMANDS = ("offsets reset", "offsets delete", "offsets migrate", "offsets rollback")


@pytest.mark.parametrize("command", COMMANDS)
def test_each_command_has_the_same_flags(command: str) -> None:
    """In the same order, at the end."""
    text = CliRunner().invoke(app, [*command.split(), "--help"]).output
    flags = ["--execute", "--output", "--bootstrap-server", "--command-config", "--config", "--timeout"]
    places = [text.index(f"{flag} ") for flag in flags]
    assert places == sorted(places)
    assert "[default: --dry-run]" in text


def test_looking_leaves_time_for_a_change() -> None:
    """A dry run may take all of it."""
    assert first_part(execute=False) == 1.0
    assert 0 < first_part(execute=True) < 1.0

"""The reference page agrees with the code."""

from __future__ import annotations

import re
from pathlib import Path

import msgspec
import pytest

from shareproxy.cli.failures import ExitCode
from shareproxy.cli.main import COMMANDS
from shareproxy.config import Settings, environment_name, setting_keys
from shareproxy.lag.model import Status
from shareproxy.lag.visible_model import PartitionVisible

REFERENCE = (Path(__file__).parent.parent / "docs" / "reference.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("key", [key for key, _ in setting_keys()])
def test_each_setting_is_documented_with_its_default(key: str) -> None:
    """A row of the table has the key, its variable and its default."""
    value = msgspec.to_builtins(Settings())
    for part in key.split("."):
        value = value[part]
    row = next(line for line in REFERENCE.splitlines() if line.startswith(f"| `{key}` "))
    assert f"`{environment_name(key)}`" in row
    if value != "":
        assert f"`{str(value).lower() if isinstance(value, bool) else value}`" in row


def test_exactly_the_exit_codes_are_documented() -> None:
    """The table of exit codes has every code and no other."""
    documented = {int(code) for code in re.findall(r"^\| (\d+) \|", REFERENCE, re.MULTILINE)}
    assert documented == {int(code) for code in ExitCode}


def test_each_command_is_documented() -> None:
    """The table of commands has every command."""
    documented = set(re.findall(r"^\| `shareproxy ([a-z]+)", REFERENCE, re.MULTILINE))
    assert documented == set(COMMANDS)


def test_the_keys_of_a_closer_look_are_documented() -> None:
    """A script's author finds every key of the JSON."""
    for key in PartitionVisible().to_dict():
        assert f'"{key}": ' in REFERENCE


def test_each_status_is_documented() -> None:
    """A script's author finds what each status means."""
    documented = set(re.findall(r"^\| `([a-z_]+)` \| [^|`]*\|$", REFERENCE, re.MULTILINE))
    assert {status.value for status in Status} - {"stale"} <= documented

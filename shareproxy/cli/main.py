"""The `shareproxy` command: names the subcommands and starts the one that is asked for.

In: arguments. Out: the command that they name, which is imported only then: short commands have to start fast.
"""

from __future__ import annotations

import difflib
import importlib
from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

import click

from shareproxy.cli.failures import ExitCode, with_exit_code
from shareproxy.version import __version__

# in the order of `--help`: looking, doing, running; each lies in the room of its name
COMMANDS: Final[Mapping[str, str]] = MappingProxyType(
    {
        name: f"shareproxy.cli.{name}"
        for name in (
            *("lag", "groups", "describe", "top", "wait"),
            *("offsets", "doctor", "consume"),
            *("serve", "exporter", "sink", "demo", "completion"),
        )
    }
)


class CommandsByName(click.Group):
    """A group whose commands are imported when they are needed."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names in the order of `--help`."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import a command; `None` if there is none of that name."""
        if cmd_name not in COMMANDS:
            return None
        command = getattr(importlib.import_module(COMMANDS[cmd_name]), cmd_name)
        assert isinstance(command, click.Command)
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the command, or name the nearest one."""
        if args and args[0] not in COMMANDS and not args[0].startswith("-"):
            near = difflib.get_close_matches(args[0], COMMANDS, n=1, cutoff=0.5)
            hint = f"Did you mean {near[0]!r}?" if near else f"Choose one of {', '.join(COMMANDS)}."
            raise click.UsageError(f"No such command {args[0]!r}. {hint}", ctx)
        return super().resolve_command(ctx, args)


@click.group(cls=CommandsByName, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, message="shareproxy %(version)s")
def app() -> None:
    """Share-group lag for every Kafka client."""


@with_exit_code  # commands have it too; this is for what click prints itself, such as --help
def main() -> ExitCode:
    """Parse the arguments and run the command."""
    app(prog_name="shareproxy")
    raise AssertionError("click has ended the process")

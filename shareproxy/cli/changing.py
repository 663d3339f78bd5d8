"""What the commands that change something share: their flags, and that nothing happens without --execute.

In: a command. Out: the command with its flags, and what each of them says of a dry run.
Must never: differ from one command to the next.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, TypeVar

import click

from shareproxy.cli.options import OUTPUTS, connection_options, timeout_option

F = TypeVar("F", bound=Callable[..., Any])

DRY_RUN: Final = "nothing was changed; add --execute to do it"
BEFORE_CHANGE: Final = 0.5  # part of the time for looking where a change follows

_FLAGS: Final = (
    click.option("--execute/--dry-run", default=False, help="Do it, or only show it.  [default: --dry-run]"),
    click.option("-o", "--output", type=click.Choice(OUTPUTS), default="table", help="Form of the answer."),
    connection_options,
    timeout_option,
)


def change_options(command: F) -> F:
    """Add --execute, --output, and the flags that say which cluster is meant and how long to wait for it."""
    for option in reversed(_FLAGS):
        command = option(command)
    return command


def first_part(execute: bool) -> float:
    """Return the part of the time that looking may take: all of it, unless a change follows."""
    return BEFORE_CHANGE if execute else 1.0

"""`shareproxy top`: share groups and their lag, live."""

from __future__ import annotations

import asyncio
import os
import re
import signal
import sys
from typing import TYPE_CHECKING, Final

import click

from shareproxy.cli.failures import ExitCode, say, with_exit_code
from shareproxy.cli.options import Connection, Seconds, connection_options, lag_source_option, timeout_option
from shareproxy.cli.top_state import INTERVALS
from shareproxy.config import ConfigError

if TYPE_CHECKING:
    from shareproxy.cli.top_looks import ClusterLooks
    from shareproxy.cli.top_state import State
    from shareproxy.config import Settings

SORT_NAMES: Final = (
    *("group", "state", "members", "partitions", "lag"),
    *("consumable", "produced", "done", "drain", "oldest", "status"),
)
CLOSER_NAMES: Final = ("consumable", "oldest")


@click.command()
@click.option("-g", "--group", "pattern", metavar="REGEX", help="Only groups in whose names this is found.")
@click.option("--sort", type=click.Choice(SORT_NAMES), default="lag", show_default=True, help="Sort by this column.")
@click.option("-r", "--reverse", is_flag=True, help="Reverse the order.")
@click.option(
    "-i",
    "--interval",
    type=Seconds(min=INTERVALS[0]),
    default=2.0,
    show_default=True,
    metavar="SECONDS",
    help="Time between two looks.",
)
@click.option("--visible", is_flag=True, help="Look closer: what members can still be given, age of the oldest record.")
@click.option("-b", "--batch", is_flag=True, help="Print tables one after another, for files and pipes.")
@click.option("-n", "--iterations", type=click.IntRange(min=1), metavar="N", help="End after so many looks.")
@connection_options
@lag_source_option
@timeout_option
@with_exit_code
def top(
    pattern: str | None,
    sort: str,
    reverse: bool,
    interval: float,
    visible: bool,
    batch: bool,
    iterations: int | None,
    connection: Connection,
    lag_source: str | None,
    timeout: float | None,
) -> ExitCode:
    """Watch share groups: lag, rates, time to drain and trend, live.

    Keys: h shows them all. Enter opens a group, / filters, s sorts, p pauses, q ends.
    A lag that is not known is "-", with the reason in the STATUS column and at the bottom.
    """
    settings = connection.settings({"lag_source": lag_source, "timeout": timeout})
    from shareproxy.cli.terminal import is_capable
    from shareproxy.cli.top_state import State, View

    if sort in CLOSER_NAMES and not visible:
        raise ConfigError(f"--sort {sort}: that column is only there with --visible")
    compiled = _compiled(pattern)
    if not batch and not is_capable():
        raise ConfigError(
            "top needs a terminal that it can draw on; for a script use `shareproxy lag --all-groups --output json`, "
            "for one table as text `shareproxy top --batch --iterations 1`"
        )
    state = State(View(sort, reverse), cluster=settings.bootstrap_server, interval=interval, closer=visible)
    return run_top(_looks(settings, compiled, closer=visible), state, batch=batch, iterations=iterations)


def run_top(looks: ClusterLooks, state: State, *, batch: bool, iterations: int | None) -> ExitCode:
    """Look until the person has seen enough.

    Args:
        looks: where to look.
        state: what the person chose by flags.
        batch: print tables instead of drawing a screen.
        iterations: number of looks; `None` for no end.
    """
    from shareproxy.cli.tables import speaks_unicode, terminal_width
    from shareproxy.cli.terminal import Terminal, may_colour
    from shareproxy.cli.top_history import History, Look
    from shareproxy.cli.top_looks import InThread
    from shareproxy.cli.top_loop import Top, print_snapshots

    history = History()

    async def run(thread: InThread) -> int | None:
        async def look() -> Look:
            return await thread.run(looks.look())

        if batch:
            await print_snapshots(
                look,
                history,
                state,
                iterations=iterations,
                width=terminal_width(),
                unicode=speaks_unicode(),
                tell=say,
            )
            return None
        return await Top(look, history, state, Terminal(colours=may_colour()), iterations).run()

    with InThread() as thread:
        try:
            ended_by = asyncio.run(run(thread))
        finally:
            thread.finish(looks.close())
    if ended_by is not None:
        # whoever sent the signal should see that it was obeyed
        sys.stdout.flush()
        signal.signal(ended_by, signal.SIG_DFL)
        os.kill(os.getpid(), ended_by)
    return ExitCode.DONE


def _compiled(pattern: str | None) -> re.Pattern[str] | None:
    try:
        return None if pattern is None else re.compile(pattern)
    except re.error as error:
        raise ConfigError(f"--group {pattern!r} is not a regular expression: {error}") from None


def _looks(settings: Settings, pattern: re.Pattern[str] | None, *, closer: bool) -> ClusterLooks:
    from shareproxy.admin import ShareAdmin
    from shareproxy.cli.top_looks import ClusterLooks
    from shareproxy.connecting import bootstrap_addresses, own_connection
    from shareproxy.lag.visible_model import Want

    bootstrap_addresses(settings)
    own = own_connection(settings)
    for note in own.notes:
        say(note)

    def open_admin() -> ShareAdmin:
        return ShareAdmin(
            settings.bootstrap_server,
            security=own.security,
            client_id=own.client_id,
            timeout=settings.timeout,
            lag_source=settings.lag_source,
        )

    return ClusterLooks(open_admin, pattern, Want.ALL & ~Want.DEAD_LETTERS if closer else Want.LOG_END)

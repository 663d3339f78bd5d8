"""`shareproxy wait`: block until groups have worked off their backlog, for scripts and CI.

In: groups, a threshold, a time limit. Out: an exit code, and progress on stderr.
Must never: count an unknown lag as reached.
"""

from __future__ import annotations

import asyncio
import sys
import time
from typing import TYPE_CHECKING, Final, NamedTuple

import click

from shareproxy.cli.failures import ExitCode, say, with_exit_code
from shareproxy.cli.options import Connection, Seconds, complete_groups, connection_options, lag_source_option

if TYPE_CHECKING:
    from collections.abc import Sequence

    from shareproxy.admin import ShareAdmin
    from shareproxy.lag.consumer_model import ConsumerGroupLag
    from shareproxy.lag.model import GroupLag

FIRST_PAUSE: Final = 0.25  # seconds between looks, so that a short backlog is not waited for longer than it takes
LONGEST_PAUSE: Final = 2.0  # and so that a long wait costs the brokers little
PAUSE_GROWTH: Final = 1.5
SPARSE_SECONDS: Final = 10.0  # between lines of a log; a terminal's line changes with each look


class Standing(NamedTuple):
    """Where one group stands.

    Attributes:
        reached: whether the threshold is reached for sure.
        text: what it has, for a person.
        denied: whether waiting longer cannot help, because a right is missing.
    """

    reached: bool
    text: str
    denied: bool = False


@click.command()
@click.argument("groups", nargs=-1, required=True, metavar="GROUP...", shell_complete=complete_groups)
@click.option(
    "--lag",
    "threshold",
    type=click.IntRange(min=0),
    default=0,
    show_default=True,
    metavar="N",
    help="Done when the lag of each group is N or less.",
)
@click.option(
    "--timeout",
    "seconds",
    type=Seconds(min=0),
    default=60.0,
    show_default=True,
    metavar="SECONDS",
    help="Give up after so long; 0 looks once.",
)
@click.option("--topic", "topics", multiple=True, metavar="T", help="Only this topic; may be repeated.")
@click.option(
    "--visible",
    is_flag=True,
    help="Compare what a consumer can still be given, without offsets that no consumer will ever see.",
)
@connection_options
@lag_source_option
@with_exit_code
def wait(
    groups: tuple[str, ...],
    threshold: int,
    seconds: float,
    topics: tuple[str, ...],
    visible: bool,
    connection: Connection,
    lag_source: str | None,
) -> ExitCode:
    """Wait until the lag of every GROUP is low enough.

    A lag that is unknown is never low enough. While brokers are away it goes on trying.
    Exit code 0: reached; 1: not reached in time, what remains is on stderr; 2: wrong usage;
    3: no broker answered; 4: not authorised; 130: Ctrl-C.
    """
    settings = connection.settings({"lag_source": lag_source})
    from shareproxy.cli.connect import ask_admin

    progress = Progress()
    waiting = Waiting(tuple(dict.fromkeys(groups)), topics, threshold, visible, progress)
    try:
        return ask_admin(settings, lambda admin: waiting.until(admin, seconds, settings.timeout))
    finally:
        progress.clear()


class Progress:
    """One line that changes on a terminal; in a log a line when something changed, now and then."""

    def __init__(self) -> None:
        self._in_place = self._is_terminal()
        self._started = time.monotonic()
        self._said_at: float | None = None
        self._said = ""

    @staticmethod
    def _is_terminal() -> bool:
        return sys.stderr is not None and sys.stderr.isatty()

    @property
    def seconds(self) -> float:
        """How long this has been going on."""
        return time.monotonic() - self._started

    def show(self, text: str) -> None:
        """Show how things stand."""
        if self._in_place:
            self._write(f"\r\x1b[K{_fitting(f'[{self.seconds:.0f} s] {text}')}")
            return
        now = time.monotonic()
        if text != self._said and (self._said_at is None or now - self._said_at >= SPARSE_SECONDS):
            say(text)
            self._said_at, self._said = now, text

    def clear(self) -> None:
        """Take the changing line away."""
        if self._in_place:
            self._write("\r\x1b[K")

    def _write(self, text: str) -> None:
        try:
            sys.stderr.write(text)
            sys.stderr.flush()
        except OSError:
            self._in_place = False  # nobody is looking any more: that is no reason to stop waiting


def _fitting(text: str) -> str:
    import os

    from shareproxy.cli.tables import printable, shorten

    try:
        width = os.get_terminal_size(sys.stderr.fileno()).columns
    except OSError:
        width = 80
    return shorten(printable(text), max(width - 1, 1))


class Waiting:
    """Look again and again until every group is where it should be."""

    def __init__(
        self, groups: Sequence[str], topics: Sequence[str], threshold: int, visible: bool, progress: Progress
    ) -> None:
        self._groups, self._topics, self._threshold = groups, topics, threshold
        self._visible, self._progress = visible, progress

    async def until(self, admin: ShareAdmin, seconds: float, look_seconds: float) -> ExitCode:
        """Return when the threshold is reached or time is over.

        Args:
            admin: whom to ask.
            seconds: how long to wait at most.
            look_seconds: how long one look may take.
        """
        from shareproxy.admin.errors import CannotReach

        now = asyncio.get_running_loop().time
        deadline, pause = now() + seconds, FIRST_PAUSE
        standings: dict[str, Standing] = {}
        trouble: CannotReach | None = None
        while True:
            try:
                # the last look may end later than asked for: half a look is no answer
                standings, trouble = await self._look(admin, look_seconds), None
            except CannotReach as error:
                trouble = error
            if trouble is None and any(standing.denied for standing in standings.values()):
                return self._end(standings, ExitCode.NOT_AUTHORIZED)
            if trouble is None and all(standing.reached for standing in standings.values()):
                return self._end(standings, ExitCode.DONE)
            left = deadline - now()
            if left <= 0:
                break
            self._progress.show(self._line(standings, trouble))
            await asyncio.sleep(min(pause, left))
            pause = min(pause * PAUSE_GROWTH, LONGEST_PAUSE)
        if trouble is None:
            return self._end(standings, ExitCode.NO)
        if not standings:
            raise trouble
        code = self._end(standings, ExitCode.NO)
        say(f"that was the last answer; since then: {trouble}")
        return code

    async def _look(self, admin: ShareAdmin, seconds: float) -> dict[str, Standing]:
        from shareproxy.cli.look import look
        from shareproxy.lag.visible_model import Want

        want = Want.LOG_START | Want.OPEN | Want.PHANTOM | Want.STATES | Want.CONFIGS if self._visible else None
        looked = await look(admin, self._groups, topics=self._topics or None, want=want, timeout=seconds)
        found: dict[str, Standing] = {group.group: self._share_standing(group) for group in looked.report.groups}
        found |= {other.group: self._consumer_standing(other) for other in looked.consumer_groups}
        return {group: found.get(group, Standing(False, "the brokers said nothing about it")) for group in self._groups}

    def _share_standing(self, group: GroupLag) -> Standing:
        from shareproxy.cli.failures import is_denied
        from shareproxy.cli.sentences import added_up, consumable, notes, reasons

        if group.error is not None:
            return Standing(False, group.error.message, is_denied(group.error.code))
        missing = group.partitions_total - group.partitions_known
        if not self._visible:
            if missing:
                why = "; ".join(reasons(row for row in group.partitions if row.lag is None))
                return Standing(False, f"lag is unknown in {missing} of {group.partitions_total} partitions ({why})")
            return Standing(group.lag <= self._threshold, f"lag {group.lag}")
        sum_of = added_up(group.partitions, consumable)
        if sum_of.unknown:
            why = "; ".join([*reasons(row for row in group.partitions if row.lag is None), *notes([group])])
            of = f"{sum_of.unknown} of {group.partitions_total} partitions"
            return Standing(False, f"what can be consumed is unknown in {of}" + (f" ({why})" if why else ""))
        return Standing(sum_of.high <= self._threshold, f"{sum_of.text()} to consume (lag {group.lag})")

    def _consumer_standing(self, group: ConsumerGroupLag) -> Standing:
        from shareproxy.cli.failures import is_denied
        from shareproxy.cli.sentences import consumer_notes, reasons

        if group.error is not None:
            return Standing(False, group.error.message, is_denied(group.error.code))
        if not group.partitions:
            return Standing(False, "the group has no partition with a committed offset")
        missing = group.partitions_total - group.partitions_known
        if missing:
            why = "; ".join(reasons(row for row in group.partitions if row.lag is None))
            return Standing(False, f"lag is unknown in {missing} of {group.partitions_total} partitions ({why})")
        if not self._visible:
            return Standing(group.lag <= self._threshold, f"lag {group.lag}")
        if group.visible_lag is None:
            why = "; ".join(consumer_notes([group]))
            return Standing(False, "what can be consumed is unknown" + (f" ({why})" if why else ""))
        return Standing(group.visible_lag <= self._threshold, f"{group.visible_lag} to consume (lag {group.lag})")

    def _line(self, standings: dict[str, Standing], trouble: Exception | None) -> str:
        """Describe what is still missing, in one line."""
        if trouble is not None:
            return str(trouble)
        return "; ".join(f"{name}: {standing.text}" for name, standing in standings.items() if not standing.reached)

    def _end(self, standings: dict[str, Standing], code: ExitCode) -> ExitCode:
        self._progress.clear()
        took = f"after {self._progress.seconds:.1f} s"
        for name, standing in standings.items():
            if standing.reached:
                say(f"{name}: {standing.text}, reached {took}")
            elif standing.denied:
                say(standing.text)
            else:
                wanted = f"to consume {self._threshold}" if self._visible else f"lag {self._threshold}"
                say(f"{name}: {standing.text}; {wanted} was not reached {took}")
        return code

"""Put together what a closer look found about one share partition.

In: the row of the report and everything read about it. Out: a `PartitionVisible` with a note for each thing unknown.
Must never: ask anyone, or show as a number what was not found out.
"""

from __future__ import annotations

from typing import Final

import msgspec

from shareproxy.lag.brokers import Trouble
from shareproxy.lag.consumable import UNKNOWN_BOUNDS, Bounds, Layout, split
from shareproxy.lag.deliveries import DONE, Span, delivery_counts, runs_of, spans
from shareproxy.lag.group_settings import BY_DURATION, EARLIEST, LATEST, NOT_ASKED, Settings
from shareproxy.lag.leaders import Wanted
from shareproxy.lag.model import PartitionLag
from shareproxy.lag.open_transactions import Transactions
from shareproxy.lag.scan import Scanned
from shareproxy.lag.state import StoredState
from shareproxy.lag.visible_model import PartitionVisible, StateRun, Want

ARCHIVING: Final = frozenset({"archiving"})

_ISOLATION_UNKNOWN: Final = (
    "whether the group reads aborted records is not known, because its share.isolation.level cannot be seen; grant "
    "DESCRIBE_CONFIGS on the group"
)
_WHICH_DONE: Final = "which offsets are done is not known, only how many"
_COUNT_NOT_SEEN: Final = "records were not looked at, so the numbers of consumable and phantom offsets are bounds"
_MOVED: Final = "the group went on while it was looked at; the numbers are of moments that lie close together"
_MAY_HAVE_STARTED: Final = (
    "members may have started here already; where, nobody can tell before the first acknowledgement"
)


class Wishes(msgspec.Struct, frozen=True):
    """`Want`, as often as it is looked at: asking a flag takes a microsecond."""

    records: bool
    phantom: bool
    age: bool
    states: bool
    projected: bool

    @classmethod
    def of(cls, want: Want) -> Wishes:
        """Take the flags apart."""
        return cls(
            records=bool(want & (Want.PHANTOM | Want.AGE)),
            phantom=Want.PHANTOM in want,
            age=Want.AGE in want,
            states=Want.STATES in want,
            projected=Want.PROJECTED in want,
        )


class Done(msgspec.Struct, frozen=True, gc=False):
    """Where a share partition starts and which of its offsets are done, as last read.

    Attributes:
        done: spans of done offsets; `None` where only their number is known.
        archiving: spans on their way to a dead-letter topic.
        lag: with which the spans go together, if it is another one than that of the report.
        moved: whether the state is newer than the report.
    """

    start: int
    done: tuple[Span, ...] | None
    archiving: tuple[Span, ...] = ()
    lag: int | None = None
    moved: bool = False


class Found(msgspec.Struct, gc=False):
    """Everything that was read about one partition, while it is being read."""

    wanted: Wanted
    row: PartitionLag
    settings: Settings = NOT_ASKED
    group_state: str | None = None
    end: int | None = None
    log_start: int | Trouble | None = None
    stable: int | Trouble | None = None
    restart: int | Trouble | None = None
    """Position that share.auto.offset.reset gives with a duration; −1 if no record is that young."""
    stored: StoredState | Trouble | None = None
    scanned: Scanned | None = None
    holders: Transactions | Trouble = ()
    """Transactions that are open."""
    skipped: str | None = None
    """Why nothing could be read at all."""

    @property
    def committed(self) -> bool | None:
        """Whether the group reads committed records only, `None` if that is not known."""
        return self.settings.committed

    @property
    def runs(self) -> tuple[StateRun, ...] | None:
        """Delivery states from the start offset or the log start on; `None` if they were not read."""
        stored = self.stored
        if not isinstance(stored, StoredState) or stored.start_offset is None:
            return None
        log_start = self.log_start if isinstance(self.log_start, int) else 0
        return runs_of(stored.batches or (), max(stored.start_offset, log_start))

    def done(self) -> Done | None:
        """Return what is done; `None` without a start offset."""
        row, stored, end = self.row, self.stored, self.end
        lag, start = row.lag, row.start_offset
        if isinstance(stored, StoredState) and stored.start_offset is not None and end is not None:
            runs = runs_of(stored.batches or (), stored.start_offset)
            count = stored.delivery_complete_count or 0
            newer = max(0, end - stored.start_offset - count)
            # a count above that of the batches is what the leader archived in memory only: aborted or compacted
            moved = stored.start_offset != start or lag is None or newer < lag
            return Done(
                stored.start_offset,
                spans(runs, DONE),
                spans(runs, ARCHIVING),
                newer if moved else lag,
                moved and lag is not None,
            )
        if start is None:
            return None
        nothing_done = lag is not None and end is not None and end - start == lag
        return Done(start, () if nothing_done else None, (), lag)

    def visible_end(self) -> int | None:
        """Return where a member's view of the log ends; with an unknown isolation level where it ends at least."""
        if self.end is None or self.committed is False:
            return self.end
        return min(self.stable, self.end) if isinstance(self.stable, int) else None


def partition_visible(found: Found, wishes: Wishes, *, now_ms: float, quiet: bool) -> PartitionVisible:
    """Return the closer look at one partition.

    Args:
        found: everything that was read.
        wishes: what was asked for.
        now_ms: ms since 1970, for the age.
        quiet: whether no member can hold a record: the group has been empty for longer than a record lock.
    """
    notes: list[str] = []
    if found.skipped is not None:
        return PartitionVisible(notes=(found.skipped,))
    for position in (found.log_start, found.stable, found.restart):
        if isinstance(position, Trouble):
            notes.append(position.message)
    if isinstance(found.holders, Trouble):
        notes.append(found.holders.message)
    else:
        notes += [holder.sentence(now_ms) for holder in found.holders]
    row, end = found.row, found.end
    log_start = found.log_start if isinstance(found.log_start, int) else None
    stable = found.stable if isinstance(found.stable, int) else None
    consumable, phantom = _split(found, notes) if wishes.phantom else (UNKNOWN_BOUNDS, UNKNOWN_BOUNDS)
    in_flight, most = _in_flight(found, wishes, quiet=quiet)
    waiting = None
    if in_flight is not None and consumable.exact is not None:
        waiting = max(0, consumable.exact - in_flight)
    runs = found.runs if wishes.states else None
    if wishes.states and isinstance(found.stored, Trouble):
        notes.append(found.stored.message)
    return PartitionVisible(
        log_start_offset=log_start,
        last_stable_offset=stable,
        consumable_lag=consumable.exact,
        consumable_lag_min=consumable.least,
        consumable_lag_max=consumable.most,
        phantom_offsets=phantom.exact,
        phantom_offsets_min=phantom.least,
        phantom_offsets_max=phantom.most,
        open_transaction_offsets=_open(stable, log_start, end),
        unavailable_offsets=(
            None if log_start is None or row.start_offset is None else max(0, log_start - row.start_offset)
        ),
        projected_lag=_projected(found, notes) if wishes.projected and row.start_offset is None else None,
        oldest_record_age_seconds=_age(found, notes, now_ms) if wishes.age else None,
        in_flight=in_flight,
        in_flight_max=most,
        waiting=waiting,
        delivery_counts=None if runs is None else delivery_counts(runs),
        runs=runs,
        notes=tuple(dict.fromkeys(notes)),
    )


def _open(stable: int | None, log_start: int | None, end: int | None) -> int | None:
    """Count the offsets of the open tail that still exist; a log start after the last stable offset is possible."""
    if stable is None or end is None:
        return None
    if stable >= end:
        return 0
    return None if log_start is None else max(0, end - max(stable, log_start))


def _split(found: Found, notes: list[str]) -> tuple[Bounds, Bounds]:
    row, end, done = found.row, found.end, found.done()
    if row.lag == 0:
        return Bounds(0, 0), Bounds(0, 0)
    if done is None or end is None or not isinstance(found.log_start, int):
        return UNKNOWN_BOUNDS, UNKNOWN_BOUNDS
    visible_end = found.visible_end()
    if visible_end is None:
        return UNKNOWN_BOUNDS, UNKNOWN_BOUNDS
    scanned = found.scanned
    unsure = found.committed is None
    layout = Layout(
        start=done.start,
        log_start=found.log_start,
        end=end,
        visible_end=end if unsure else visible_end,
        lag=done.lag,
        done=done.done,
        archiving=done.archiving,
    )
    if scanned is None:
        least, most = 0, layout.visible
    else:
        least, most = scanned.records_min, scanned.records_max
        if scanned.trouble is not None:
            notes.append(scanned.trouble.message)
        if unsure:
            most += scanned.voided + max(0, end - max(layout.first, visible_end))
    consumable, phantom = split(layout, least, most)
    if unsure and consumable.exact is None:
        notes.append(_ISOLATION_UNKNOWN)
    if done.done is None:
        why = f": {found.stored.message}" if isinstance(found.stored, Trouble) else ""
        if consumable.exact is None:
            notes.append(_WHICH_DONE + why)
    elif scanned is None:
        notes.append(_COUNT_NOT_SEEN)
    if done.moved and found.committed and phantom.most is not None:
        # what the leader archived in memory only is in the count, but not in the batches
        phantom = Bounds(0, phantom.most)
        notes.append(_MOVED)
    return consumable, phantom


def _in_flight(found: Found, wishes: Wishes, *, quiet: bool) -> tuple[int | None, int | None]:
    """Return how many records members hold, and how many at most."""
    if not (wishes.phantom or wishes.states):
        return None, None
    row = found.row
    if row.lag == 0 or quiet:
        return 0, 0
    start = row.start_offset if row.start_offset is not None else found.log_start
    if row.lag is not None:
        most: int | None = row.lag
    elif isinstance(start, int) and found.end is not None:
        most = max(0, found.end - start)
    else:
        most = None
    locks = found.settings.max_record_locks
    if locks is not None:
        most = locks if most is None else min(most, locks)
    # only the leader knows more, and it does not tell; as nobody can do anything about that, it is no note
    return None, most


def _projected(found: Found, notes: list[str]) -> int | None:
    """Return the lag that a first member would begin with."""
    reset, end, log_start = found.settings.auto_offset_reset, found.end, found.log_start
    if reset is None:
        if found.settings.trouble is not None:
            notes.append(found.settings.trouble.message)
        return None
    if reset == LATEST:
        projected: int | None = 0
    elif end is None:
        return None
    elif reset == EARLIEST and isinstance(log_start, int):
        projected = max(0, end - log_start)
    elif reset.startswith(BY_DURATION) and isinstance(found.restart, int):
        projected = max(0, end - found.restart) if found.restart >= 0 else 0
    else:
        notes.append(f"where share.auto.offset.reset={reset} starts could not be found out")
        return None
    if found.group_state != "Empty":
        notes.append(_MAY_HAVE_STARTED)
    return projected


def _age(found: Found, notes: list[str], now_ms: float) -> float | None:
    """Return the age of the first record that waits."""
    scanned, done = found.scanned, found.done()
    if found.row.lag == 0 or done is None:
        return None
    if done.done is None:
        why = f": {found.stored.message}" if isinstance(found.stored, Trouble) else ""
        notes.append(f"which record is the oldest that waits is not known: {_WHICH_DONE}{why}")
        return None
    if scanned is None:
        return None
    if not scanned.found:
        if scanned.trouble is not None:
            notes.append(scanned.trouble.message)
        return None
    if scanned.first_timestamp is None:
        notes.append("the oldest record that waits has no timestamp")
        return None
    return max(0.0, (now_ms - scanned.first_timestamp) / 1000)

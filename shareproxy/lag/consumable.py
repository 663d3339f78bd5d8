"""Split a lag into what a member can still be given and what only takes up offsets.

In: positions, counts and what a scan found. Out: both parts, exactly or as two bounds.
Must never: do I/O, know the time, or claim to know which offsets are done when only their number is known.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from shareproxy.lag.deliveries import Span, SpanIndex


class Bounds(msgspec.Struct, frozen=True, gc=False):
    """A number of offsets between two bounds; `None`: not known at all."""

    least: int | None = None
    most: int | None = None

    @property
    def exact(self) -> int | None:
        """Return the number where both bounds agree."""
        return self.least if self.least == self.most else None


UNKNOWN_BOUNDS = Bounds()


class Layout(msgspec.Struct, frozen=True):
    """Where the offsets of a share partition lie.

    Attributes:
        start: start offset.
        log_start: first offset that still exists.
        end: high watermark.
        visible_end: last stable offset for groups that read committed records only, else the high watermark.
        lag: from start to end what is not done; `None` if it is not known.
        done: spans of offsets that are done; `None` where only their number is known.
        archiving: spans on their way to a dead-letter topic: they count as lag, and no member gets them.
    """

    start: int
    log_start: int
    end: int
    visible_end: int
    lag: int | None
    done: Sequence[Span] | None = None
    archiving: Sequence[Span] = ()

    @property
    def first(self) -> int:
        """First offset that a member can still be given."""
        return max(self.start, self.log_start)

    @property
    def visible(self) -> int:
        """Offsets from there to the visible end."""
        return max(0, self.visible_end - self.first)


def split(layout: Layout, records_min: int, records_max: int) -> tuple[Bounds, Bounds]:
    """Return consumable and phantom offsets.

    Args:
        layout: where everything lies.
        records_min: records from `first` to `visible_end` that a member of the group would see, at least. Where the
            done spans are known, without those in them and without archiving ones.
        records_max: the same at most.

    A phantom offset counts as lag although no record is behind it for this group: markers, aborted records,
    compacted and deleted ones. The tail of open transactions is neither, and no more are archiving records.

    Source: KIP-1226; the counting of deleted and aborted offsets as seen on Kafka 4.1 to 4.4.
    """
    if layout.done is not None:
        consumable = Bounds(records_min, records_max)
        hidden = _hidden(layout)
    else:
        hidden = max(0, layout.end - max(layout.first, layout.visible_end))
        consumable = _by_count(layout, records_min, records_max)
    if layout.lag is None or consumable.least is None or consumable.most is None:
        return consumable, UNKNOWN_BOUNDS
    rest = max(0, layout.lag - hidden)
    # a broker's lag may be a moment older than what was scanned
    least, most = min(consumable.least, rest), min(consumable.most, rest)
    return Bounds(least, most), Bounds(rest - most, rest - least)


def _hidden(layout: Layout) -> int:
    """Count the open offsets that are lag but neither records to be given nor phantoms."""
    first = max(layout.first, layout.visible_end)
    tail = max(0, layout.end - first) - SpanIndex(layout.done or ()).within(first, layout.end)
    archiving = SpanIndex(layout.archiving).within(layout.start, layout.visible_end)
    return max(0, tail) + archiving


def _by_count(layout: Layout, records_min: int, records_max: int) -> Bounds:
    """Bound what is left of the records when it is only known how many offsets are done, not which.

    The done ones may lie among records, among what is no record, or below the log start.
    """
    whole = max(0, layout.end - layout.start)
    if layout.lag is None:
        return Bounds(0, records_max)
    done = max(0, whole - layout.lag)
    deleted = max(0, min(layout.log_start, layout.end) - layout.start)
    others = deleted + layout.visible
    return Bounds(max(0, records_min - done), max(0, min(records_max, others - done)))

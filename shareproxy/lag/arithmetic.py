"""Work out lag from numbers (KIP-1226).

In: offsets, counts and state batches. Out: lag as the wire has it, or lag and the reason for people.
Must never: do I/O, know the time, or turn an unknown into a number.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, Protocol

from shareproxy.lag.model import Status

UNKNOWN: Final = -1
"""How the wire says that a lag, a start offset or a count is not known."""

ACKNOWLEDGED: Final = 2
ARCHIVED: Final = 4
COMPLETE: Final = frozenset({ACKNOWLEDGED, ARCHIVED})


class StateBatch(Protocol):
    """Offsets that share one delivery state; both ends are inclusive."""

    first_offset: int
    last_offset: int
    delivery_state: int


def complete_count(batches: Iterable[StateBatch], start_offset: int) -> int:
    """Count the offsets at or after the start offset that no consumer will be given again.

    Args:
        batches: stored state of one share partition; batches do not overlap. Available, acquired, archiving and
            states not known here are not complete.
        start_offset: first offset that counts.

    Source: KIP-1226; KIP-932, record states.
    """
    count = 0
    for batch in batches:
        state = batch.delivery_state
        if state in COMPLETE:
            first, last = batch.first_offset, batch.last_offset
            if first < start_offset:
                first = start_offset
            if last >= first:
                count += last - first + 1
    return count


def wire_lag(end_offset: int | None, start_offset: int | None, delivery_complete_count: int | None) -> int:
    """Return the lag as a broker would send it: −1 if a part is unknown, else the difference, whatever its sign.

    Source: KIP-1226, `lag = high watermark − start offset − delivery-complete count`.
    """
    if end_offset is None or start_offset is None or delivery_complete_count is None:
        return UNKNOWN
    return end_offset - start_offset - delivery_complete_count


def judge(
    end_offset: int | None, start_offset: int | None, delivery_complete_count: int | None
) -> tuple[int | None, Status]:
    """Return the lag for people and the status beside it.

    A start offset beyond the end is lag 0 with its own status: there is nothing to deliver, whatever was completed.
    More completed than there is between the two is a contradiction, and no number.
    """
    if start_offset is None:
        return None, Status.NO_START_OFFSET
    if end_offset is None:
        return None, Status.LAG_UNSET
    if start_offset > end_offset:
        return 0, Status.START_BEYOND_END
    if delivery_complete_count is None:
        return None, Status.LAG_UNSET
    lag = end_offset - start_offset - delivery_complete_count
    return (lag, Status.OK) if lag >= 0 else (None, Status.ERROR)


def judge_wire(lag: int, start_offset: int | None, end_offset: int | None = None) -> tuple[int | None, Status]:
    """Return the same for a lag that a broker sent.

    Args:
        lag: number from the wire. −1 is unknown, or a start offset one beyond the end: only `end_offset` can tell.
        start_offset: from the same row.
        end_offset: high watermark, read just now; nothing is called beyond the end without it.
    """
    if start_offset is None:
        return None, Status.NO_START_OFFSET
    if lag >= 0:
        return lag, Status.OK
    if end_offset is not None and start_offset > end_offset:
        return 0, Status.START_BEYOND_END
    return None, Status.LAG_UNSET if lag == UNKNOWN else Status.ERROR


def known(number: int) -> int | None:
    """Turn the wire's −1 into `None`."""
    return number if number >= 0 else None

"""Turn readings into the rows of a report.

In: what a source read about a partition, its end offset, and how far the source can be trusted. Out: `PartitionLag`.
Must never: ask anyone, or show a number that belongs to another moment as if it were of the same.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from shareproxy.lag.arithmetic import UNKNOWN, judge, judge_wire
from shareproxy.lag.leaders import Wanted
from shareproxy.lag.model import PartitionLag, Source, Status
from shareproxy.lag.sources import Reading

_SENTENCES: Final[Mapping[Status, str]] = {
    Status.NO_START_OFFSET: "nothing was acknowledged here yet; lag is known from the first acknowledgement on",
    Status.LAG_UNSET: "the count of completed records is not set; it comes with the next acknowledgement",
    Status.START_BEYOND_END: "the start offset lies beyond the end of the log; was it set by hand?",
    Status.ERROR: (
        "more records are counted as completed than lie between the start and the end of the log; if this stays, the "
        "partition's leader may have lost records"
    ),
}


def partition_lag(
    item: Wanted,
    reading: Reading,
    *,
    end_offset: int | None = None,
    end_before: int | None = None,
    read_uncommitted: bool = True,
) -> PartitionLag:
    """Return the row of one partition.

    Args:
        item: the partition.
        reading: what its source found.
        end_offset: high watermark, asked for after the reading; a state source brings its own.
        end_before: high watermark known from before the broker was asked.
        read_uncommitted: whether the group reads uncommitted records. If not, batches leave out what the leader
            only archived in memory, and the lag is an upper bound.
    """
    end = reading.end_offset if reading.end_offset is not None else end_offset
    count = reading.delivery_complete_count
    if reading.trouble is not None:
        lag, status = judge(end, reading.start_offset, None)
        if lag is None:
            status = reading.trouble.status
    elif reading.source is Source.BROKER:
        lag, status = judge_wire(reading.lag, reading.start_offset, end)
        end, count = _around_broker_answer(reading, end, end_before)
    else:
        lag, status = judge(end, reading.start_offset, count)
    exact = None if lag is None else reading.source is not Source.BATCHES or read_uncommitted or lag == 0
    trouble = reading.trouble if lag is None else None
    return PartitionLag(
        topic=item.topic,
        topic_id=item.topic_id,
        partition=item.partition,
        start_offset=reading.start_offset,
        end_offset=end,
        leader_epoch=reading.leader_epoch,
        delivery_complete_count=count,
        lag=lag,
        source=None if lag is None else reading.source,
        exact=exact,
        status=status,
        error_code=None if trouble is None else trouble.error_code,
        message=_SENTENCES.get(status) if trouble is None else trouble.message,
    )


def _around_broker_answer(reading: Reading, end: int | None, end_before: int | None) -> tuple[int | None, int | None]:
    """Return end offset and count beside a broker's own lag.

    API 90 has neither. The end offset read afterwards is at least the broker's, so the difference is the count plus
    what was produced in between: it is the count if it is 0, or if nothing was produced since before the question.
    """
    start = reading.start_offset
    if end is None or start is None or reading.lag == UNKNOWN:
        return end, None
    count = end - start - reading.lag
    if count < 0:
        return None, None  # a new leader that has not caught up yet: not an end offset to show beside this lag
    return end, count if count == 0 or end == end_before else None

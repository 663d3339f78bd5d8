"""Read the start offsets of a share group.

In: a group, topics. Out: one row per share partition, or the exception for the group.
Must never: take the zero of an error row for an offset.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

from shareproxy.admin.failures import group_exception
from shareproxy.admin.results import ShareOffset
from shareproxy.lag.engine import LagEngine
from shareproxy.lag.model import GroupError, GroupLag, PartitionLag, Status
from shareproxy.protocol.errors import ErrorCode, error_name
from shareproxy.protocol.ids import GroupId

# states of a partition that are no error: it has no start offset, or no lag
_NO_ERROR: Final = frozenset({Status.OK, Status.NO_START_OFFSET, Status.LAG_UNSET, Status.START_BEYOND_END})


async def start_offsets(
    engine: LagEngine, group: GroupId, topics: Collection[str] | None, *, timeout: float
) -> tuple[ShareOffset, ...]:
    """Return the start offsets of a share group; none where it has no state.

    The engine does the asking: it answers for living brokers although another hangs.

    Args:
        engine: of the cluster.
        group: its name.
        topics: only these; one without state has rows without a start offset.
        timeout: seconds.

    Raises:
        AdminError: the group does not exist, is of another type, or may not be seen; or a topic is not there.
    """
    return tuple(map(_offset, await initialized(engine, group, topics, timeout=timeout)))


async def initialized(
    engine: LagEngine, group: GroupId, topics: Collection[str] | None, *, ends: bool = False, timeout: float
) -> tuple[PartitionLag, ...]:
    """Return start offsets and lags of the partitions that a share group has state of; see `start_offsets`.

    `ends` is whether the end offsets are to be read, too.
    """
    report = await engine.report([group], topics=topics, ends=ends, timeout=timeout)
    [found] = report.groups
    if found.error is not None and not _is_empty(found):
        raise group_exception(found.error, group)
    return found.partitions


def _is_empty(found: GroupLag) -> bool:
    return found.error is not None and found.error.name == "NOTHING_INITIALIZED"


def _offset(row: PartitionLag) -> ShareOffset:
    error: GroupError | None = None
    if row.start_offset is None and row.status not in _NO_ERROR:
        code = ErrorCode.UNKNOWN_SERVER_ERROR if row.error_code is None else row.error_code
        text = row.message or f"the start offset is not known ({row.status.value}); try again"
        error = GroupError(int(code), error_name(code), f"{row.topic}-{row.partition}: {text}")
    return ShareOffset(row.topic, row.topic_id, row.partition, row.start_offset, row.leader_epoch, error)

"""Fill Lag into a broker's answer to DescribeShareGroupOffsets, for a client that asked in version 1.

In: the broker's answer to the client's own request, in version 0 or 1. Out: the same answer in the client's version
with the Lag of granted rows, and the rows of partitions that do not exist. Must never: change a row with an error,
show a row the broker did not grant, or outlast the deadline.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from time import perf_counter
from typing import Protocol

import structlog

from shareproxy.lag.model import AskedRow, SourceChoice
from shareproxy.protocol.codec import decode, encode
from shareproxy.protocol.errors import DecodeError
from shareproxy.protocol.ids import GroupId, TopicId
from shareproxy.protocol.messages import (
    DescribeShareGroupOffsetsResponse,
    DescribeShareGroupOffsetsResponsePartition,
)
from shareproxy.proxy.answer_stream import LagStep
from shareproxy.proxy.api_versions import LAG_VERSION
from shareproxy.proxy.meter import Meter
from shareproxy.proxy.out_of_range import OffsetsRequest, Places, put_back
from shareproxy.proxy.varints import skip_tags

Lags = Mapping[tuple[str, int], int]
"""Lag by topic name and partition as it goes on the wire: −1 is unknown, other negative numbers are real."""

UNKNOWN_LAG = -1


class LagFiller(Protocol):
    """What works out lag, such as `shareproxy.lag.engine.LagEngine`."""

    async def fill(self, group: GroupId, rows: Sequence[AskedRow], *, deadline: float) -> Lags:
        """Return the lag of a group's rows; a row that is missing is unknown."""
        ...

    async def out_of_range(self, asked: Places, *, deadline: float) -> Places:
        """Return which of these partitions certainly do not exist although their topics do."""
        ...


class LagAnswer:
    """One answer on its way from the broker to the client.

    Args:
        step: the broker's answer.
        choice: auto asks only for rows the broker left unknown, broker for none, any other source for all.

    Raises:
        DecodeError: the answer is not what its version says.
    """

    def __init__(self, step: LagStep, choice: SourceChoice) -> None:
        self._step = step
        self._offset = _header_end(step.frame)
        self._message = decode(DescribeShareGroupOffsetsResponse, step.version, step.frame, self._offset)
        self.asked: dict[GroupId, list[AskedRow]] = {}
        """The rows to look up, by group."""
        self._rows: dict[GroupId, list[tuple[str, DescribeShareGroupOffsetsResponsePartition]]] = {}
        if step.local is not None:
            put_back(self._message, step.local)
        if choice is not SourceChoice.BROKER and step.client_version == LAG_VERSION:
            self._collect(all_rows=choice is not SourceChoice.AUTO)

    def _collect(self, *, all_rows: bool) -> None:
        for group in self._message.groups:
            if group.error_code:
                continue
            group_id = GroupId(group.group_id)
            for topic in group.topics:
                for row in topic.partitions:
                    # no start offset: nothing was ever acknowledged, so there is no lag (KIP-1226)
                    if row.error_code or row.start_offset < 0 or (row.lag != UNKNOWN_LAG and not all_rows):
                        continue
                    asked = AskedRow(
                        topic.topic_name,
                        TopicId(topic.topic_id),
                        row.partition_index,
                        row.start_offset,
                        row.leader_epoch,
                        row.lag,
                    )
                    self.asked.setdefault(group_id, []).append(asked)
                    self._rows.setdefault(group_id, []).append((topic.topic_name, row))

    def put(self, group_id: GroupId, lags: Lags) -> int:
        """Take what was found for one group; return of how many rows the lag is still unknown."""
        unknown = 0
        for topic, row in self._rows[group_id]:
            row.lag = lags.get((topic, row.partition_index), row.lag)
            unknown += row.lag == UNKNOWN_LAG
        return unknown

    def frame(self) -> tuple[bytes, ...]:
        """Return the answer in the client's version, in parts and without its size; as it came if nothing changed."""
        step = self._step
        if step.version == step.client_version and not self.asked and step.local is None:
            return (step.frame,)
        return step.frame[: self._offset], encode(self._message, step.client_version)


async def fill(answer: LagAnswer, filler: LagFiller, deadline: float, meter: Meter) -> None:
    """Look up all groups of an answer side by side; what is not known at the deadline stays unknown.

    Args:
        answer: gets the numbers.
        filler: asked once per group.
        deadline: in the event loop's time.
        meter: told how each look-up ended.
    """
    began = perf_counter()
    tasks = {
        asyncio.ensure_future(filler.fill(group_id, rows, deadline=deadline)): group_id
        for group_id, rows in answer.asked.items()
    }
    try:
        done, _ = await asyncio.wait(tasks, timeout=max(deadline - asyncio.get_running_loop().time(), 0))
    finally:
        for task in tasks:
            task.cancel()
    log, seconds = structlog.get_logger(), perf_counter() - began
    for task, group_id in tasks.items():
        unknown = rows = len(answer.asked[group_id])
        if task not in done:
            outcome = "timeout"
            log.warning("lag not found in time", group=group_id, partitions=rows)
        elif (error := task.exception()) is not None:
            outcome = "error"
            log.warning("lag not found", group=group_id, error=str(error), exc_info=_unexpected(error))
        else:
            unknown = answer.put(group_id, task.result())
            outcome = "partial" if 0 < unknown < rows else "unknown" if unknown else "found"
        meter.looked_up(outcome, seconds, unknown)


async def find_missing(request: OffsetsRequest, filler: LagFiller, deadline: float) -> Places:
    """Return which partitions of a request do not exist; none if that cannot be found out in time."""
    try:
        async with asyncio.timeout_at(deadline):
            return await filler.out_of_range(request.asked, deadline=deadline)
    except Exception as error:
        structlog.get_logger().warning("partitions not looked up", error=str(error), exc_info=_unexpected(error))
        return {}


def _unexpected(error: BaseException) -> BaseException | None:
    # the cluster layer's own errors are sentences; anything else is a bug and needs its traceback
    from shareproxy.cluster.errors import ClusterError

    return None if isinstance(error, ClusterError | OSError) else error


def _header_end(frame: bytes) -> int:
    try:
        return skip_tags(frame, 4)
    except IndexError:
        raise DecodeError("ends within its header", (DescribeShareGroupOffsetsResponse.schema_name,)) from None

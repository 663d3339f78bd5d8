"""Ask leaders for other positions than the end of a log: its start, its last stable offset, an offset by time.

In: partitions. Out: a position for each, or the trouble. Must never: mix positions of two kinds in one request, as
a broker refuses a partition that is asked for twice.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Final

from shareproxy.lag.brokers import Brokers, Trouble, trouble_from_code
from shareproxy.lag.leaders import CONSUMER, LATEST, READ_UNCOMMITTED, EndOffsets, Wanted, fill_in
from shareproxy.lag.rounds import ask_all
from shareproxy.protocol.ids import NodeId
from shareproxy.protocol.messages import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic

EARLIEST: Final = -2
READ_COMMITTED: Final = 1
# a broker need not wait for anything to tell where a log starts; older versions have no such field
TIMEOUT_MS: Final = 1000
# what is routed, written and read in one go holds the event loop for some milliseconds
PARTITIONS_AT_A_TIME: Final = 5000
PARTITIONS_PER_REQUEST: Final = 1000


class Positions(EndOffsets):
    """The `Question` that ListOffsets answers about one kind of position.

    Args:
        brokers: where to ask.
        timestamps: per partition `EARLIEST`, `LATEST` or ms since 1970.
        isolation: with `READ_COMMITTED` the latest position is the last stable offset.

    Answers are positions; `None` where no record is that young.
    """

    def __init__(
        self, brokers: Brokers, timestamps: int | Mapping[Wanted, int] = LATEST, isolation: int = READ_UNCOMMITTED
    ) -> None:
        super().__init__(brokers)
        self._timestamps, self._isolation = timestamps, isolation

    async def ask(self, node_id: NodeId, items: Sequence[Wanted], *, deadline: float) -> Mapping[Wanted, int | Trouble]:
        """Ask one leader; −1 is a position that does not exist."""
        by_topic: dict[str, dict[int, Wanted]] = {}
        for item in items:
            by_topic.setdefault(item.topic, {})[item.partition] = item
        request = ListOffsetsRequest(
            CONSUMER,
            self._isolation,
            [
                ListOffsetsTopic(name, [self._asked(item) for item in wanted.values()])
                for name, wanted in by_topic.items()
            ],
            TIMEOUT_MS,
        )
        response = await self._brokers.request(node_id, request, deadline=deadline)
        found: dict[Wanted, int | Trouble] = {}
        for topic in response.topics:
            asked = by_topic.get(topic.name, {})
            for row in topic.partitions:
                wanted_one = asked.get(row.partition_index)
                if wanted_one is not None:
                    found[wanted_one] = trouble_from_code(row.error_code) if row.error_code else row.offset
        return fill_in(found, items, "ListOffsets")

    def _asked(self, item: Wanted) -> ListOffsetsPartition:
        timestamps = self._timestamps
        timestamp = timestamps if isinstance(timestamps, int) else timestamps[item]
        return ListOffsetsPartition(item.partition, self._epochs.get((item.topic, item.partition), -1), timestamp)


async def ask_positions(
    question: Positions, items: Sequence[Wanted], *, deadline: float
) -> dict[Wanted, int | Trouble]:
    """Return the position of each partition, or the trouble, at the latest at the deadline."""
    found: dict[Wanted, int | Trouble] = {}
    running = []
    async with asyncio.TaskGroup() as tasks:
        for first in range(0, len(items), PARTITIONS_AT_A_TIME):
            part = items[first : first + PARTITIONS_AT_A_TIME]
            running.append(tasks.create_task(ask_all(question, part, deadline=deadline, split=_requests)))
            await asyncio.sleep(0)
    for task in running:
        found.update(task.result())
    return found


def _requests(_: NodeId, items: list[Wanted]) -> list[list[Wanted]]:
    return [items[first : first + PARTITIONS_PER_REQUEST] for first in range(0, len(items), PARTITIONS_PER_REQUEST)]

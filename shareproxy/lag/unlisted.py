"""Find a group's partitions although its coordinator does not answer.

In: a group, what is known of its members. Out: partitions that are certainly the group's.
Must never: write, create a topic, or pass a partition of another group off as this group's.

A coordinator keeps the rows of a group back while it waits for a broker that hangs (half a minute, KAFKA-19500), or
hangs itself. Partitions are then, in this order: those of the last report; those of the topics that members subscribe
to; or, as a last resort, every topic whose stored state somewhere begins at an offset (API 87 answers "never written"
for partitions of other groups, without writing). The last way cannot see a topic on which nothing was ever
acknowledged, nor one whose share coordinators all hang, and looks at a few partitions of each topic only where there
are many, so it is said in the group's error.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Mapping, Sequence
from typing import Final

from shareproxy.cluster.errors import ClusterError
from shareproxy.lag.brokers import Brokers
from shareproxy.lag.leaders import METADATA_MAX_AGE, EndOffsets, Wanted
from shareproxy.lag.rounds import share_of_time
from shareproxy.lag.sources import FirstThatCan, Reading
from shareproxy.protocol.ids import GroupId

# a look over all partitions costs a request per share coordinator, and this process some milliseconds per hundred
MOST_PROBED: Final = 500
SAMPLE: Final = 3
PROBE_SHARE: Final = 0.5


class StateProbe:
    """Find groups' partitions in the stored state; one object per look.

    Args:
        brokers: where to ask.
        ends: knows the leaders.
        affords: tells whether there is time to read so many partitions more.
    """

    def __init__(self, brokers: Brokers, ends: EndOffsets, affords: Callable[[int], bool]) -> None:
        self._brokers, self._ends, self._affords = brokers, ends, affords
        self._topics: dict[str, list[Wanted]] | None = None
        self._one_asks = asyncio.Lock()

    async def find(self, group: GroupId, *, deadline: float) -> Mapping[Wanted, Reading]:
        """Return readings, without end offsets, of all partitions of the topics on which the group stored an offset.

        Empty where looking costs too much, or where the state may not be read.

        Args:
            group: share group.
            deadline: `loop.time()` seconds; what is not known then has a trouble.
        """
        topics = await self._all_partitions(deadline)
        count = sum(map(len, topics.values()))
        most = count if count <= MOST_PROBED else SAMPLE
        if not count or not self._affords(sum(min(most, len(partitions)) for partitions in topics.values())):
            return {}
        items = [item for partitions in topics.values() for item in partitions[:most]]
        source = FirstThatCan(self._brokers)
        readings = await source.states(group, items, deadline=share_of_time(deadline, PROBE_SHARE), ends=self._ends)
        found = {item.topic for item, reading in readings.items() if reading.start_offset is not None}
        kept = {item: reading for item, reading in readings.items() if item.topic in found}
        left = [item for topic in found for item in topics[topic][most:]]
        if left and self._affords(len(left)):
            kept.update(await source.states(group, left, deadline=deadline, ends=self._ends))
        return kept

    async def _all_partitions(self, deadline: float) -> Mapping[str, Sequence[Wanted]]:
        async with self._one_asks:
            if self._topics is None:
                self._topics = {}
                with contextlib.suppress(ClusterError):
                    metadata = await self._brokers.metadata(None, deadline=deadline, max_age=METADATA_MAX_AGE)
                    self._topics = {
                        name: [Wanted(name, topic.topic_id, partition) for partition in sorted(topic.partitions)]
                        for name, topic in metadata.topics.items()
                        if not topic.error_code and not topic.is_internal
                    }
        return self._topics

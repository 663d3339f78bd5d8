"""Tell which rows can be known while a node hangs."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from shareproxy.cluster.addresses import parse_addresses
from shareproxy.cluster.cluster import Cluster
from shareproxy.cluster.coordinators import SHARE_TOPIC
from shareproxy.protocol.ids import GroupId, NodeId
from shareproxy.testing.kafka import LocalKafka
from tests.support.scenarios import Layout


async def rows_on_living_nodes(
    kafka: LocalKafka, layouts: Sequence[Layout], frozen: int
) -> dict[tuple[str, int], int | None]:
    """Return group and partition → lag where neither the leader nor the keeper of the state is the frozen node.

    To be asked before the node hangs.
    """
    living: dict[tuple[str, int], int | None] = {}
    async with Cluster(parse_addresses(kafka.bootstrap_servers)) as cluster:
        deadline = asyncio.get_running_loop().time() + 30
        metadata = await cluster.metadata([SHARE_TOPIC, *(layout.topic for layout in layouts)], deadline=deadline)
        for layout in layouts:
            topic = metadata.topics[layout.topic]
            places = [(topic.topic_id, partition) for partition in topic.partitions]
            keepers = await cluster.share_coordinators(GroupId(layout.group), places, deadline=deadline)
            for partition, row in topic.partitions.items():
                if NodeId(frozen) not in (row.leader, keepers[topic.topic_id, partition]):
                    living[layout.group, partition] = layout.lags[partition]
    return living

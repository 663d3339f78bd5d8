"""A simulated cluster, and an admin client of it."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from shareproxy import ShareAdmin
from shareproxy.testing import SimulatedCluster


@pytest.fixture
async def cluster() -> AsyncIterator[SimulatedCluster]:
    """Three nodes of the newest Kafka; topic `t` with two partitions of ten records; share group `g` read two."""
    async with SimulatedCluster(nodes=3) as cluster:
        cluster.create_topic("t", 2)
        cluster.produce("t", [0, 1], 10)
        cluster.set_share_state("g", "t", 0, start_offset=2, delivery_complete_count=0)
        cluster.set_share_state("g", "t", 1, start_offset=0, delivery_complete_count=2)
        yield cluster


@pytest.fixture
async def admin(cluster: SimulatedCluster) -> AsyncIterator[ShareAdmin]:
    """An admin client of the cluster."""
    async with ShareAdmin(cluster.bootstrap_servers) as admin:
        yield admin

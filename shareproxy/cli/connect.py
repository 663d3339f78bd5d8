"""Open the cluster and the lag engine that a one-shot command asks.

In: settings. Out: an open engine for the time of one coroutine. Must never: keep anything open after it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

from shareproxy.cli.failures import say
from shareproxy.cluster.cluster import Cluster
from shareproxy.config import Settings
from shareproxy.connecting import bootstrap_addresses, own_connection
from shareproxy.lag.engine import LagEngine
from shareproxy.lag.model import SourceChoice

T = TypeVar("T")


def ask_engine(settings: Settings, question: Callable[[LagEngine, Cluster], Awaitable[T]]) -> T:
    """Run one question against the cluster that the settings name.

    Raises:
        ConfigError: addresses or the property file are wrong.
        ClusterError: nobody answered, or the brokers refused us.
    """

    addresses, own = bootstrap_addresses(settings), own_connection(settings)
    for note in own.notes:
        say(note)

    async def run() -> T:
        async with Cluster(
            addresses,
            own.security,
            client_id=own.client_id,
            connect_timeout=settings.limits.connect_timeout,
        ) as cluster:
            engine = LagEngine(cluster, source=SourceChoice(settings.lag_source), timeout=settings.timeout)
            return await question(engine, cluster)

    return asyncio.run(run())

"""Open the cluster, or the admin client, that a one-shot command asks.

In: settings. Out: something open for the time of one coroutine. Must never: keep anything open after it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, TypeVar

from shareproxy.cli.failures import say
from shareproxy.cluster.cluster import Cluster
from shareproxy.config import Settings
from shareproxy.connecting import bootstrap_addresses, own_connection

if TYPE_CHECKING:
    from shareproxy.admin import ShareAdmin

T = TypeVar("T")


def ask_cluster(settings: Settings, question: Callable[[Cluster], Awaitable[T]]) -> T:
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
            return await question(cluster)

    return asyncio.run(run())


def ask_admin(settings: Settings, question: Callable[[ShareAdmin], Awaitable[T]]) -> T:
    """Run one question against the admin client of the cluster that the settings name.

    Raises:
        ConfigError: addresses or the property file are wrong.
        AdminError: nobody answered, the brokers refused us, or the answer is no.
    """
    # imported here: the doctor asks the cluster only
    from shareproxy.admin import ShareAdmin

    async def ask(cluster: Cluster) -> T:
        async with ShareAdmin.over(cluster, timeout=settings.timeout, lag_source=settings.lag_source) as admin:
            return await question(admin)

    return ask_cluster(settings, ask)

"""A worker of the proxy is killed while clients work."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator

import pytest

from shareproxy.testing.driver import ShareDriver
from shareproxy.testing.kafka import LocalKafka
from tests.adversity.held import children_of
from tests.support.command import Served, serving
from tests.support.load import LibrdkafkaLoad, read_all
from tests.support.waiting import wait_until

pytestmark = pytest.mark.timeout(240)

WORKERS = 2
MORE = 300


@pytest.fixture
def proxy(three_nodes: LocalKafka) -> Iterator[Served]:
    """Two workers and their supervisor."""
    with serving(three_nodes.bootstrap_servers, "--workers", str(WORKERS)) as served:
        served.wait_until_ready()
        yield served


def test_clients_go_on_when_workers_are_killed(three_nodes: LocalKafka, driver: ShareDriver, proxy: Served) -> None:
    """Each worker in turn, by SIGKILL: it is replaced, and every acknowledged record is there and was consumed."""
    driver.create_topic("workers", 6, 3, {"min.insync.replicas": "2"})
    with LibrdkafkaLoad(proxy.bootstrap_servers, "workers") as load:
        load.acked.wait_for_more(MORE, "at first")
        workers = children_of(proxy.process.pid)
        assert len(workers) == WORKERS

        for victim in workers:
            os.kill(victim, signal.SIGKILL)
            wait_until(
                lambda victim=victim: len(children_of(proxy.process.pid) - {victim}) == WORKERS,  # type: ignore[misc]
                "the worker is replaced",
            )
            proxy.wait_until_ready()
            load.acked.wait_for_more(MORE, "produced after the kill")
            load.consumed.wait_for_more(MORE, "consumed after the kill")
        load.finish()

    assert not workers & children_of(proxy.process.pid)
    assert load.acked.failures == []
    assert load.acked.values <= read_all(three_nodes.bootstrap_servers, "workers")
    ended = [line for line in proxy.log().splitlines() if "SIGKILL" in line]
    assert len(ended) == WORKERS, proxy.log()[-2000:]

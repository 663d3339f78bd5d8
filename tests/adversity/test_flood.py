"""Ten thousand connections that come at once, while others work."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Producer

from shareproxy.testing.driver import ShareDriver
from shareproxy.testing.kafka import LocalKafka
from tests.adversity.held import descriptors_of
from tests.support.command import Served, serving
from tests.support.flooder import Flooder, most_clients
from tests.support.load import LibrdkafkaLoad, read_all
from tests.support.waiting import wait_until

pytestmark = pytest.mark.timeout(300)

ASKING = 400
GARBAGE = 300
# fewer where the system does not allow a process so many files; garbage is closed at once, and makes room for others
FLOOD = min(10_000, most_clients() + GARBAGE - 100)
# attempts that came while the garbage was still there
REFUSED = 200
MORE = 1_000
NEWCOMER_SECONDS = 60
# the clients of the real work come and go a little
SOME_DESCRIPTORS = 20


@pytest.fixture
def proxy(three_nodes: LocalKafka, tmp_path: Path) -> Iterator[Served]:
    """The proxy as a process; its limits let the flood in, and let it stay however busy the machine is."""
    config = tmp_path / "proxy.toml"
    config.write_text(f"[limits]\nmax_connections = {FLOOD + 1_000}\nunauthenticated_timeout = 600\n")
    with serving(three_nodes.bootstrap_servers, "--config", str(config)) as served:
        served.wait_until_ready()
        yield served


def test_work_goes_on_in_a_flood(three_nodes: LocalKafka, driver: ShareDriver, proxy: Served) -> None:
    """Silent clients, clients that ask, and garbage: every record arrives, new clients come in, and all is freed."""
    driver.create_topic("flood", 6, 3)
    port = int(proxy.bootstrap_servers.rpartition(":")[2])
    with LibrdkafkaLoad(proxy.bootstrap_servers, "flood") as load:
        load.acked.wait_for_more(MORE, "before the flood")
        before = descriptors_of(proxy.process.pid)
        with Flooder(port, FLOOD, asking=ASKING, garbage=GARBAGE) as flood:
            found = flood.wait_until_settled(answers=ASKING)
            load.acked.wait_for_more(MORE, "produced in the flood")
            load.consumed.wait_for_more(MORE, "consumed in the flood")
            newcomer = Producer({"bootstrap.servers": proxy.bootstrap_servers})
            newcomer.produce("flood", "from a client that comes in the flood")
            assert newcomer.flush(NEWCOMER_SECONDS) == 0
            assert found.answered == ASKING
            assert found.connected >= FLOOD - GARBAGE - REFUSED
        wait_until(
            lambda: descriptors_of(proxy.process.pid) <= before + SOME_DESCRIPTORS, "all descriptors are free again"
        )
        load.finish()

    assert load.acked.failures == []
    assert load.acked.values <= read_all(three_nodes.bootstrap_servers, "flood")
    assert "bug in the proxy" not in proxy.log()

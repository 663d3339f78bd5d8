"""Built-in sinks in a sink worker, over a simulated cluster."""

from __future__ import annotations

import json
from pathlib import Path

from shareproxy.drain.sink_config import load_sink_settings
from shareproxy.drain.sink_parts import BrokerParts
from shareproxy.drain.worker import SinkWorker
from shareproxy.testing.simulated import SimulatedCluster
from tests.support.waiting import eventually

CONFIG = """
[worker]
"bootstrap.servers" = "BROKERS"
"consumer.group.protocol" = "share"

[connectors.orders]
class = "files"
topics = ["orders"]
"tasks.max" = 2
"value.converter" = "json"

[connectors.orders.sink]
directory = "DIRECTORY"
"""


async def test_every_record_is_in_a_file_before_it_is_accepted(tmp_path: Path) -> None:
    """Of two tasks, which have a writer's number each; the files are whole when the worker has stopped."""
    async with SimulatedCluster() as cluster:
        cluster.create_topic("orders", 2)
        cluster.set_group_config("share-orders", {"share.auto.offset.reset": "earliest"})
        file = tmp_path / "sink.toml"
        directory = tmp_path / "files"
        file.write_text(CONFIG.replace("BROKERS", cluster.bootstrap_servers).replace("DIRECTORY", str(directory)))
        worker = SinkWorker(load_sink_settings(file), BrokerParts())
        await worker.start()
        for partition in (0, 1):
            cluster.produce("orders", partition, 20, values=[json.dumps({"n": n}) for n in range(20)])
        await eventually(
            lambda: sum(meter.counts["record_acknowledge"] for meter in worker.meters) >= 40, "all are accepted"
        )
        await worker.stop()

    found = [json.loads(line) for path in directory.glob("*.jsonl") for line in path.read_text().splitlines()]
    assert {(record["partition"], record["offset"]) for record in found} == {(p, n) for p in (0, 1) for n in range(20)}
    assert all(record["value"] == {"n": record["offset"]} for record in found)

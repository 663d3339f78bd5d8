"""Converters that have to ask somebody: what waits is kept, and spends no delivery attempt."""

from __future__ import annotations

import asyncio
import json
import struct
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from shareproxy.drain.consumer_group_source import ConsumerGroupSource, GroupRecord
from shareproxy.drain.consumer_keys import ConsumeSettings, GroupProtocol
from shareproxy.drain.deferred import Converting, DeferringConverter, NotYet
from shareproxy.drain.deserializers import RecordAtFault, as_string
from shareproxy.drain.errors import DrainError
from shareproxy.drain.model import Headers, TimestampType
from shareproxy.drain.share_source import ShareSource
from shareproxy.drain.sink import Outcome
from shareproxy.drain.sink_config import load_sink_settings
from shareproxy.drain.sink_parts import BrokerParts
from shareproxy.drain.worker import SinkWorker
from shareproxy.testing.simulated import SimulatedCluster
from tests.drain.fake_consumer import FakeShareConsumer
from tests.drain.fake_group_consumer import FakeGroupConsumer
from tests.support.schema_registry import RegistryService
from tests.support.waiting import eventually


class Asking(DeferringConverter):
    """A converter that knows what a test has told it."""

    def __init__(self) -> None:
        self.known: set[bytes] = set()
        self.refused: Exception | None = None
        self.started = 0
        self.why: str | None = None
        self.news = asyncio.Event()

    async def start(self) -> None:
        """Begin."""
        if self.refused is not None:
            raise self.refused
        self.started += 1

    def learn(self, *data: bytes) -> None:
        """Know more."""
        self.known.update(data)
        self.news.set()

    def read(self, data: bytes, headers: Headers, *, key: bool) -> Any:
        """Return the text in capitals."""
        if data == b"bad":
            raise RecordAtFault("it is bad")
        if data not in self.known:
            raise NotYet
        return data.decode().upper()

    async def wait(self, timeout: float) -> None:
        """Wait for news."""
        try:
            async with asyncio.timeout(timeout):
                await self.news.wait()
        except TimeoutError:
            return

    @property
    def trouble(self) -> str | None:
        """What the test says."""
        return self.why

    async def close(self) -> None:
        """End."""
        self.started -= 1


def record(offset: int, value: bytes | None, *, key: bytes | None = None, lock: float | None = None) -> Any:
    """Return a record as a consumer gives it that could not convert it."""
    return Waiting(
        "orders", 0, offset, 0, TimestampType.CREATE, None, None, (), key, value, NotYet(), 1, lock_until=lock
    )


class Waiting(GroupRecord, frozen=True, eq=False, gc=False, kw_only=True):
    """A record with a lock."""

    lock_until: float | None = None

    @property
    def lock_deadline(self) -> float | None:  # type: ignore[override]
        """When the lock ends."""
        return self.lock_until


def test_key_and_value_are_converted_by_their_own() -> None:
    """A converter that asks nobody is called as ever; null stays."""
    asking = Asking()
    asking.learn(b"v")
    converting = Converting(as_string, asking)

    (both, null), rest = converting.convert([record(0, b"v", key=b"k"), record(1, None)], 10)

    assert (both.key, both.value, both.error) == ("k", "V", None)
    assert (null.key, null.value, null.error) == (None, None, None)
    assert rest == []


def test_a_record_at_fault_is_handed_on_with_what_is_wrong() -> None:
    """And is no reason for others to wait; nothing refers back to the record."""
    converting = Converting(Asking(), as_string)

    (bad, other), rest = converting.convert(
        [record(0, b"v", key=b"bad"), record(1, b"v", key=b"unknown"), record(2, b"\xff", key=b"unknown")], 10
    )

    assert isinstance(bad.error, RecordAtFault)
    assert (bad.key, bad.value, bad.error.__traceback__) == (None, None, None)
    assert isinstance(other.error, ValueError)
    assert [each.offset for each in rest] == [1]


def test_no_more_are_ready_than_are_wanted() -> None:
    """The rest keeps its order."""
    asking = Asking()
    asking.learn(b"a")

    ready, rest = Converting(None, asking).convert([record(n, b"ab"[n % 2 :][:1]) for n in range(6)], 2)

    assert [each.offset for each in ready] == [0, 2]
    assert [each.offset for each in rest] == [1, 3, 4, 5]


def test_what_was_read_before_stays_as_it_is() -> None:
    """And what another converter could not read."""
    done = msgspec.structs.replace(record(0, b"v"), value="V", error=None)
    bad = msgspec.structs.replace(record(1, b"v"), error=ValueError("no"))

    assert Converting(None, Asking()).convert([done, bad], 10) == ([done, bad], [])


def test_converters_that_ask_nobody_need_nothing() -> None:
    """Sources do no more than before, then."""
    assert not Converting(None, as_string).needed
    assert Converting(None, Asking()).needed


async def test_a_start_that_fails_leaves_nothing_behind() -> None:
    """Of two, the other is closed."""
    one, two = Asking(), Asking()
    two.refused = DrainError("no")

    with pytest.raises(DrainError, match="no"):
        await Converting(one, two).start()

    assert one.started == 0


class Consumer(FakeShareConsumer):
    """A share consumer that hands out records as the real one makes them."""

    def __init__(self, *records: Any) -> None:
        super().__init__()
        self.records = list(records)

    async def get_batch(self, max_records: int | None = None, timeout: float | None = None) -> Any:
        """Return what there is, or wait."""
        if not self.records:
            await asyncio.sleep(timeout or 0.0)
        records, self.records = self.records, []
        return records


async def share_source(consumer: FakeShareConsumer, asking: Asking) -> ShareSource:
    """Return a source that has joined."""
    consumer.deserializers = (None, asking)
    source = ShareSource(lambda on_event: consumer)
    await source.start()
    return source


async def test_a_share_group_keeps_what_waits_and_hands_on_the_rest() -> None:
    """It stays locked, and is neither released nor rejected."""
    asking, consumer = Asking(), Consumer(record(0, b"b"), record(1, b"a"))
    asking.learn(b"a")
    asking.why = "the registry is away"
    source = await share_source(consumer, asking)

    assert [each.offset for each in await source.get_batch(10, 0.05)] == [1]
    assert "1 records of group 'order-workers' wait: the registry is away" in str(source.why_not_ready())
    assert await source.get_batch(10, 0.01) == []
    asking.learn(b"b")
    (late,) = await source.get_batch(10, 5.0)

    assert (late.offset, late.value, consumer.acknowledged) == (0, "B", [])
    await source.get_batch(10, 0.01)
    assert source.why_not_ready() is None
    await source.close(1.0)
    assert asking.started == 0


async def test_a_batch_that_comes_while_the_registry_is_asked_waits_no_longer_than_that() -> None:
    """The first records with a new schema are handed on in the same poll."""
    asking, consumer = Asking(), Consumer(record(0, b"b"))
    source = await share_source(consumer, asking)
    poll = asyncio.create_task(source.get_batch(10, 30.0))
    await eventually(lambda: bool(source._waiting), "the record has come")

    asking.learn(b"b")

    assert [each.value for each in await poll] == ["B"]
    await source.close(1.0)


async def test_what_has_lost_its_lock_is_let_go() -> None:
    """Somebody else has it by now."""
    asking, consumer = Asking(), Consumer(record(0, b"b", lock=asyncio.get_running_loop().time()))
    source = await share_source(consumer, asking)
    assert await source.get_batch(10, 0.01) == []
    asking.learn(b"b")

    assert await source.get_batch(10, 0.01) == []
    await source.close(1.0)


async def test_a_share_group_that_cannot_be_joined_leaves_nothing_behind() -> None:
    """Nor one whose converter cannot start."""
    asking, consumer = Asking(), FakeShareConsumer()
    consumer.fail_start(DrainError("full"))
    with pytest.raises(DrainError, match="full"):
        await share_source(consumer, asking)
    assert asking.started == 0


async def group_source(consumer: FakeGroupConsumer, asking: Asking) -> ConsumerGroupSource:
    """Return a source that has joined."""
    settings = ConsumeSettings(
        protocol=GroupProtocol.CONSUMER, group="connect-orders", bootstrap_servers="127.0.0.1:9", request_timeout=5.0
    )
    source = ConsumerGroupSource(
        settings, ["orders"], make_consumer=lambda **_: consumer, check=False, value_deserializer=asking
    )
    await source.start()
    return source


async def test_a_consumer_group_gives_what_waited_first_and_commits_not_beyond_it() -> None:
    """It is delivered for the first time then."""
    asking, consumer = Asking(), FakeGroupConsumer({("orders", 0): ["a", "b", "a"]})
    asking.learn(b"a")
    asking.why = "the registry is away"
    source = await group_source(consumer, asking)

    first = await source.get_batch(10, 0.05)
    assert [each.offset for each in first] == [0, 2]
    assert source.why_not_ready() == "records of group 'connect-orders' wait: the registry is away"
    source.settle(first, Outcome.ACCEPT)
    await source.commit()
    assert consumer.committed == {("orders", 0): 1}
    assert await source.get_batch(10, 0.1) == []
    asking.learn(b"b")
    (late,) = await source.get_batch(10, 5.0)
    source.settle([late], Outcome.ACCEPT)
    await source.commit()

    assert (late.offset, late.value, late.delivery_count) == (1, "B", 1)
    assert consumer.committed == {("orders", 0): 3}
    assert source.why_not_ready() is None
    await source.close(5.0)
    assert asking.started == 0


async def test_a_consumer_group_lets_go_of_what_waits_when_its_partition_goes() -> None:
    """Whoever gets the partition gets it."""
    asking, consumer = Asking(), FakeGroupConsumer({("orders", 0): ["b"]})
    source = await group_source(consumer, asking)
    assert await source.get_batch(10, 0.05) == []

    await consumer.rebalance([])

    asking.learn(b"b")
    assert await source.get_batch(10, 0.1) == []
    await source.close(5.0)


CONFIG = """
[worker]
"bootstrap.servers" = "BROKERS"
"consumer.group.protocol" = "PROTOCOL"
"value.converter" = "avro"
"value.converter.schema.registry.url" = "REGISTRY"

[connectors.orders]
class = "files"
topics = ["orders"]
"reject.without.dlq" = REJECT

[connectors.orders.sink]
directory = "DIRECTORY"
"""


def framed(number: int, data: bytes) -> str:
    """Return bytes in the wire format, as text."""
    return (struct.pack(">bI", 0, number) + data).decode()


@pytest.fixture
async def service() -> AsyncIterator[RegistryService]:
    """A registry."""
    async with RegistryService() as service:
        yield service


def worker_over(cluster: SimulatedCluster, service: RegistryService, directory: Path, *, reject: bool) -> SinkWorker:
    """Return a worker that writes files."""
    file = directory / "sink.toml"
    parts = {
        "BROKERS": cluster.bootstrap_servers,
        "PROTOCOL": "share",
        "REGISTRY": service.url,
        "REJECT": "true" if reject else "false",
        "DIRECTORY": str(directory / "files"),
    }
    text = CONFIG
    for name, value in parts.items():
        text = text.replace(name, value)
    file.write_text(text)
    return SinkWorker(load_sink_settings(file), BrokerParts())


def written(directory: Path) -> list[Any]:
    """Return what the sink wrote."""
    files = (directory / "files").iterdir()
    return [json.loads(line) for path in files if "jsonl" in path.name for line in path.read_text().splitlines()]


async def test_a_worker_waits_for_a_registry_that_is_away_and_loses_nothing(
    service: RegistryService, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Each record is delivered once; one with an unknown schema is rejected by itself, and the log says why."""
    number, port = service.register('"string"'), service.port
    async with SimulatedCluster() as cluster:
        cluster.create_topic("orders")
        cluster.set_group_config("share-orders", {"share.auto.offset.reset": "earliest"})
        worker = worker_over(cluster, service, tmp_path, reject=True)
        await worker.start()
        await service.stop()
        cluster.produce("orders", 0, values=[framed(number, b"\x02" + bytes([65 + n])) for n in range(20)])
        await eventually(lambda: "wait: schema registry" in str(worker.why_not_ready()), "the worker says why")
        (meter,) = worker.meters
        assert meter.counts["record_acknowledge"] == 0
        await service.start(port)
        await eventually(lambda: meter.counts["record_acknowledge"] >= 20, "all are accepted")
        cluster.produce("orders", 0, values=[framed(99, b""), "plain"])
        await eventually(lambda: meter.counts["record_unreadable"] >= 2, "two are at fault")
        assert worker.why_not_ready() is None
        redelivered = meter.counts["record_redelivery"]
        await worker.stop()

    found = written(tmp_path)
    assert [(each["offset"], each["value"]) for each in found] == [(n, chr(65 + n)) for n in range(20)]
    assert redelivered == 0
    logged = capsys.readouterr().out
    assert "records wait for their schemas" in logged
    assert "schema 99, or one that it refers to, is not in the schema registry" in logged
    assert "does not begin with 0 and a schema id" in logged


async def test_a_worker_whose_login_is_wrong_says_so_at_the_start(service: RegistryService, tmp_path: Path) -> None:
    """Nothing is left running."""
    service.login = ("shop", "secret")
    async with SimulatedCluster() as cluster:
        cluster.create_topic("orders")
        worker = worker_over(cluster, service, tmp_path, reject=False)

        with pytest.raises(DrainError, match="refuses the login"):
            await worker.start()

"""A sink worker's parts over a simulated cluster; R numbers are those of drain.md."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import msgspec
import pytest

from shareproxy.admin.errors import AccessDenied, CannotReach, NotAShareGroup, NotSupported, UnknownTopic
from shareproxy.cluster.errors import ClusterError, Unreachable
from shareproxy.config import ConfigError
from shareproxy.drain.errors import DrainError
from shareproxy.drain.sink_config import SinkSettings, load_sink_settings
from shareproxy.drain.sink_parts import BrokerParts
from shareproxy.drain.worker import SinkWorker
from shareproxy.testing.simulated import SimulatedCluster
from tests.support.file_sink import LineSink, lines

SHARE = '"consumer.override.group.protocol" = "share"\n'


@pytest.fixture
async def cluster() -> AsyncIterator[SimulatedCluster]:
    """A cluster with a topic."""
    async with SimulatedCluster() as simulated:
        simulated.create_topic("orders", 2)
        simulated.set_group_config("share-orders", {"share.auto.offset.reset": "earliest"})
        yield simulated


@pytest.fixture
async def parts() -> AsyncIterator[BrokerParts]:
    """Parts that ask for a moment only."""
    made = BrokerParts(ask_timeout=5.0)
    yield made
    await made.close()


def settings(tmp_path: Path, cluster: SimulatedCluster | str, more: str = SHARE) -> SinkSettings:
    """Return settings of one connector over the cluster."""
    address = cluster if isinstance(cluster, str) else cluster.bootstrap_servers
    file = tmp_path / "sink.toml"
    (tmp_path / "out").mkdir(exist_ok=True)
    file.write_text(
        f'[worker]\n"bootstrap.servers" = "{address}"\n[connectors.orders]\n'
        f'class = "tests.support.file_sink:LineSink"\ntopics = "orders"\n{more}'
        f'[connectors.orders.sink]\ndirectory = "{tmp_path / "out"}"\n'
    )
    return load_sink_settings(file)


async def check(parts: BrokerParts, loaded: SinkSettings) -> list[str]:
    """Check the only connector."""
    return list(await parts.check(loaded.connectors[0]))


async def test_r25_one_line_says_how_it_will_work(
    tmp_path: Path, cluster: SimulatedCluster, parts: BrokerParts
) -> None:
    """Mode, group, lock, limit, acquire mode, isolation, reset; and what is missing for rejecting (R22)."""
    line, queue = await check(parts, settings(tmp_path, cluster))

    assert line == (
        "share group 'share-orders', topic 'orders', lock 30000 ms, delivery limit 5, acquire mode batch, isolation "
        "level read_uncommitted, new partitions from earliest, no dead-letter queue, 1 task"
    )
    assert "group 'share-orders' has no dead-letter queue; set it" in queue
    assert queue.endswith("a record that would be rejected is released instead, and its task fails")


async def test_r19_dropping_what_is_rejected_is_announced(
    tmp_path: Path, cluster: SimulatedCluster, parts: BrokerParts
) -> None:
    """Where the user set it."""
    _, queue = await check(parts, settings(tmp_path, cluster, SHARE + '"reject.without.dlq" = true\n'))

    assert queue.endswith("what is rejected is dropped, as reject.without.dlq=true says")


async def test_r4_a_topic_that_is_not_there_is_told(
    tmp_path: Path, cluster: SimulatedCluster, parts: BrokerParts
) -> None:
    """It may come later."""
    loaded = settings(tmp_path, cluster)
    cluster.delete_topic("orders")

    assert any("topic 'orders' does not exist" in line for line in await check(parts, loaded))


async def test_r6_a_group_of_another_type_is_refused(
    tmp_path: Path, cluster: SimulatedCluster, parts: BrokerParts
) -> None:
    """With the way out; nothing is joined."""
    cluster.commit_offsets("share-orders", {"orders": {0: 0}})

    with pytest.raises(NotAShareGroup, match="the name 'share-orders' is taken"):
        await check(parts, settings(tmp_path, cluster))


@pytest.mark.parametrize("more", ["exactly_once = true\n", ""])
async def test_r24_exactly_once_is_refused_naming_kip_1289_and_the_highest_api_key(
    tmp_path: Path, cluster: SimulatedCluster, more: str
) -> None:
    """For the connector, or for the whole worker; never served with less."""
    parts = BrokerParts(exactly_once=not more, ask_timeout=5.0)

    with pytest.raises(NotSupported, match=r"KIP-1289.*the highest API key of these brokers is \d+"):
        await check(parts, settings(tmp_path, cluster, SHARE + more))
    await parts.close()


async def test_r24_exactly_once_is_refused_when_nobody_answers_too(tmp_path: Path) -> None:
    """The answer does not depend on the brokers."""
    parts = BrokerParts(ask_timeout=0.2)

    with pytest.raises(NotSupported, match=r"KIP-1289.*is not known"):
        await check(parts, settings(tmp_path, "127.0.0.1:1", SHARE + "exactly_once = true\n"))
    await parts.close()


@pytest.mark.parametrize(("more", "group"), [(SHARE, "share-orders"), ("", "connect-orders")])
async def test_looking_ahead_finds_a_right_that_only_the_work_would_miss(
    tmp_path: Path, cluster: SimulatedCluster, parts: BrokerParts, more: str, group: str
) -> None:
    """The check of a start leaves that to the work, as other topics may do; looking ahead names the connector."""
    loaded = settings(tmp_path, cluster, more)
    cluster.commit_offsets("others", {"orders": {0: 0}})  # before its first group a cluster tells nothing of one
    await parts.look_ahead(loaded.connectors[0])
    cluster.deny("READ", "GROUP", group)

    await check(parts, loaded)
    with pytest.raises(AccessDenied, match=f"^connector 'orders': this user lacks READ on group '{group}'"):
        await parts.look_ahead(loaded.connectors[0])


async def test_looking_ahead_asks_a_sink_that_can(
    tmp_path: Path, cluster: SimulatedCluster, parts: BrokerParts
) -> None:
    """The files sink looks at its directory, and makes none; what it finds names the connector."""
    loaded = settings(tmp_path, cluster)
    connector = msgspec.structs.replace(
        loaded.connectors[0],
        keys=msgspec.structs.replace(loaded.connectors[0].keys, sink_class="files"),
        sink={"directory": str(tmp_path / "sink.toml" / "out")},
    )

    with pytest.raises(DrainError, match=r"^connector 'orders': directory '.*out' cannot be used: Not a directory: "):
        await parts.look_ahead(connector)


async def test_a_sink_whose_look_fails_is_told(
    tmp_path: Path, cluster: SimulatedCluster, parts: BrokerParts, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is the sink's mistake, so no bug of ours."""

    def look_ahead(config: object) -> None:
        raise KeyError("address")

    monkeypatch.setattr(LineSink, "look_ahead", staticmethod(look_ahead), raising=False)

    with pytest.raises(DrainError, match=r"^connector 'orders': the sink's look_ahead failed: KeyError: 'address'$"):
        await parts.look_ahead(settings(tmp_path, cluster).connectors[0])


async def test_r4_what_kafka_4_1_lacks_is_told(tmp_path: Path, parts: BrokerParts) -> None:
    """It works all the same."""
    async with SimulatedCluster(version="4.1.2") as simulated:
        simulated.create_topic("orders", 1)
        more = SHARE + '"consumer.override.share.acquire.mode" = "record_limit"\n'
        said = await check(parts, settings(tmp_path, simulated, more))

    assert any("whole batches are acquired" in line for line in said)
    assert any("no dead-letter queues for share groups" in line for line in said)


async def test_bad_input_a_put_timeout_above_a_lock_that_cannot_be_renewed_is_told(
    tmp_path: Path, parts: BrokerParts
) -> None:
    """R5, on Kafka 4.1."""
    async with SimulatedCluster(version="4.1.2") as simulated:
        simulated.create_topic("orders", 1)
        said = await check(parts, settings(tmp_path, simulated, SHARE + '"put.timeout.ms" = 40000\n'))

    assert any("put.timeout.ms is 40000 and a record is locked for 30000 ms" in line for line in said)


async def test_bad_input_brokers_that_do_not_answer(tmp_path: Path) -> None:
    """Exit code 3."""
    parts = BrokerParts(ask_timeout=0.3)
    for more in (SHARE, ""):
        with pytest.raises((Unreachable, CannotReach)):
            await check(parts, settings(tmp_path, "127.0.0.1:1", more))
    await parts.close()


async def test_bad_input_wrong_credentials(tmp_path: Path, parts: BrokerParts) -> None:
    """Exit code 4; the password is not shown."""
    async with SimulatedCluster(users={"me": "right"}) as simulated:
        properties = tmp_path / "client.properties"
        properties.write_text(
            "security.protocol=SASL_PLAINTEXT\nsasl.mechanism=PLAIN\nsasl.jaas.config=org.apache.kafka.common.security."
            'plain.PlainLoginModule required username="me" password="wrong-secret";\n'
        )
        with pytest.raises(ClusterError) as error:
            await check(
                parts, settings(tmp_path, simulated, SHARE + f'"consumer.override.command.config" = "{properties}"\n')
            )

    assert type(error.value).__name__ in ("AuthenticationFailed", "NotAuthorized")
    assert "wrong-secret" not in str(error.value)


async def test_bad_input_an_address_that_is_none(tmp_path: Path, parts: BrokerParts) -> None:
    """The key is named."""
    with pytest.raises(ConfigError, match=r'"bootstrap\.servers": '):
        await check(parts, settings(tmp_path, "no port here"))


async def test_a_consumer_groups_topics_must_be_there(
    tmp_path: Path, cluster: SimulatedCluster, parts: BrokerParts
) -> None:
    """Its lines tell the group."""
    assert "consumer group 'connect-orders'" in (await check(parts, settings(tmp_path, cluster, "")))[0]
    cluster.delete_topic("orders")
    with pytest.raises(UnknownTopic):
        await check(parts, settings(tmp_path, cluster, ""))


async def until(condition: Callable[[], object]) -> None:
    """Wait for it."""
    async with asyncio.timeout(20):
        while not condition():
            await asyncio.sleep(0.01)


async def test_a_whole_worker_drains_a_simulated_topic(tmp_path: Path, cluster: SimulatedCluster) -> None:
    """All records are in the sink, and accepted."""
    cluster.produce("orders", [0, 1], 20)
    parts = BrokerParts(ask_timeout=5.0, stop_timeout=2.0)
    worker = SinkWorker(settings(tmp_path, cluster), parts)
    await worker.start()
    await until(lambda: worker.meters[0].counts["record_acknowledge"] == 40)
    await worker.stop()

    assert {(partition, offset) for _, partition, offset, _ in lines(tmp_path / "out")} == {
        (partition, offset) for partition in (0, 1) for offset in range(20)
    }
    assert worker.unclean == []

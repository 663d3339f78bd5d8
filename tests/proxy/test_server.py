"""The proxy as a whole, in front of fake brokers."""

from __future__ import annotations

import asyncio
import contextlib
import ssl
from collections.abc import Mapping, Sequence

import pytest
from structlog.testing import capture_logs

from shareproxy.cluster.addresses import Address
from shareproxy.cluster.errors import Unreachable
from shareproxy.cluster.security import Security
from shareproxy.lag.model import AskedRow
from shareproxy.protocol.headers import RequestHead, decode_response
from shareproxy.protocol.ids import GroupId, NodeId
from shareproxy.protocol.messages import (
    ApiVersionsRequest,
    DescribeShareGroupOffsetsRequest,
    DescribeShareGroupOffsetsResponse,
    MetadataRequest,
    MetadataResponse,
)
from shareproxy.proxy.out_of_range import Places
from shareproxy.proxy.ports import PortsError
from shareproxy.proxy.server import Proxy
from shareproxy.proxy.upstream import NOT_ASKED_YET
from shareproxy.testing.kafka_security import Certificates
from tests.proxy.conftest import Proxies, proxy_settings
from tests.proxy.fake_broker import HOST, Client, FakeBroker, eventually, free_ports, taken_port
from tests.proxy.frames import answer, metadata, opaque_answer, opaque_request, request

pytestmark = pytest.mark.timeout(60)


class FillWith:
    """Answers 7 for every row."""

    async def fill(self, group: GroupId, rows: Sequence[AskedRow], *, deadline: float) -> Mapping[tuple[str, int], int]:
        """Play the part."""
        return {(row.topic, row.partition): 7 for row in rows}

    async def out_of_range(self, asked: Places, *, deadline: float) -> Places:
        """Say that everything exists."""
        return {}


async def is_refused(address: Address) -> bool:
    """Tell whether a client is turned away as by a broker that is down: at once, perhaps while it still connects."""
    try:
        async with Client(address) as client:
            return await client.rest() == b""
    except ConnectionError:
        return True


def broker_rows(frame: bytes) -> list[tuple[int, str, int]]:
    """Decode the brokers of a Metadata v12 answer."""
    _, message = decode_response(MetadataResponse, 12, frame[4:])
    return [(row.node_id, row.host, row.port) for row in message.brokers]


async def test_metadata_shows_the_proxys_ports_only(broker: FakeBroker, proxies: Proxies) -> None:
    """Clients are told one port per node id, and it leads to that node."""
    proxy = await proxies.start(broker)

    async with Client(proxy.bootstrap_address) as client:
        (row,) = broker_rows(await client.ask(request(MetadataRequest(), 12)))
    async with Client(Address(*row[1:])) as client:
        reply = await client.ask(opaque_request(5))

    assert row == (1, *proxy.node_addresses[NodeId(1)])
    assert row[1:] != tuple(broker.address)
    assert reply == opaque_answer(5, b"\1")


async def test_lag_is_filled_over_a_broker_that_has_none(broker: FakeBroker, proxies: Proxies) -> None:
    """The client sees version 1, the broker is asked in version 0 on the client's own connection."""
    proxy = await proxies.start(broker, lag=FillWith())

    async with Client(proxy.node_addresses[NodeId(1)]) as client:
        await client.ask(request(ApiVersionsRequest(), 3))
        reply = await client.ask(request(DescribeShareGroupOffsetsRequest(), 1, 2))

    _, message = decode_response(DescribeShareGroupOffsetsResponse, 1, reply[4:])
    assert message.groups[0].topics[0].partitions[0].lag == 7
    assert [frame[:4] for frame in broker.requests] == [b"\0\x12\0\3", b"\0\x5a\0\0"]
    assert broker.connections == 1


async def test_version_of_the_broker_is_kept_for_other_connections(broker: FakeBroker, proxies: Proxies) -> None:
    """Some clients ask for ApiVersions on their first connection only."""
    proxy = await proxies.start(broker, lag=FillWith())

    async with Client(proxy.node_addresses[NodeId(1)]) as first, Client(proxy.node_addresses[NodeId(1)]) as second:
        await first.ask(request(ApiVersionsRequest(), 3))
        await second.ask(request(DescribeShareGroupOffsetsRequest(), 1))

    assert broker.requests[-1][:4] == b"\0\x5a\0\0"


async def test_each_node_port_leads_to_its_node(proxies: Proxies) -> None:
    """Never to another broker, whoever is free (KIP-1242)."""
    async with FakeBroker(NodeId(1)) as one, FakeBroker(NodeId(2)) as two, FakeBroker(NodeId(3)) as three:
        proxy = await proxies.start(one, two, three)

        replies = []
        for node_id in (1, 2, 3, 3, 2, 1):
            async with Client(proxy.node_addresses[NodeId(node_id)]) as client:
                replies.append((await client.ask(opaque_request(1)))[-1])

    assert replies == [1, 2, 3, 3, 2, 1]


async def test_bootstrap_port_takes_brokers_in_turn(proxies: Proxies) -> None:
    """Load is spread."""
    async with FakeBroker(NodeId(1)) as one, FakeBroker(NodeId(2)) as two:
        proxy = await proxies.start(one, two)

        replies = []
        for _ in range(4):
            async with Client(proxy.bootstrap_address) as client:
                replies.append((await client.ask(opaque_request(1)))[-1])

    assert sorted(replies) == [1, 1, 2, 2]


async def test_bootstrap_port_skips_dead_brokers(broker: FakeBroker, proxies: Proxies) -> None:
    """Any live broker will do."""
    proxy = await proxies.start(broker, bootstrap_servers=(Address(HOST, 1), Address(HOST, 2), broker.address))

    for _ in range(3):
        async with Client(proxy.bootstrap_address) as client:
            assert await client.ask(opaque_request(4)) == opaque_answer(4, b"\1")


async def test_port_of_an_absent_node_closes_at_once(broker: FakeBroker, proxies: Proxies) -> None:
    """The client sees a broker that is down, and the log says which."""
    proxy = await proxies.start(broker)

    with capture_logs() as logs:
        assert await is_refused(proxy.node_addresses[NodeId(2)])

    (line,) = logs
    assert (line["event"], line["reason"], line["node_id"]) == ("connection closed", "node_unknown", 2)
    assert "node 2 is not among the cluster's nodes [1]" in line["detail"]


async def test_port_of_a_node_that_is_down_closes(broker: FakeBroker, proxies: Proxies) -> None:
    """No other broker takes its place; the log has the address and the cause."""
    proxy = await proxies.start(broker)
    await broker.stop()

    with capture_logs() as logs:
        async with Client(proxy.node_addresses[NodeId(1)]) as client:
            client.send(opaque_request())
            assert await client.rest() == b""

    assert logs[0]["reason"] == "broker_unreachable"
    assert str(broker.address) in logs[0]["detail"]
    assert "refused" in logs[0]["detail"].lower()


async def test_restarted_node_is_served_again(broker: FakeBroker, proxies: Proxies) -> None:
    """The port stays the node's."""
    proxy = await proxies.start(broker)
    await broker.stop()
    await broker.start()

    async with Client(proxy.node_addresses[NodeId(1)]) as client:
        assert await client.ask(opaque_request(4)) == opaque_answer(4, b"\1")


async def test_nodes_are_learnt_from_answers_that_pass(broker: FakeBroker, proxies: Proxies) -> None:
    """A node that joined is served as soon as a client is told of it."""
    async with FakeBroker(NodeId(2)) as new:
        proxy = await proxies.start(broker)
        broker.reply = lambda head, frame: answer(
            metadata((1, *broker.address), (2, *new.address)), head.api_version, head.correlation_id
        )

        async with Client(proxy.bootstrap_address) as client:
            rows = broker_rows(await client.ask(request(MetadataRequest(), 12)))
        async with Client(Address(*rows[1][1:])) as client:
            assert await client.ask(opaque_request(4)) == opaque_answer(4, b"\2")


async def test_node_without_a_port_is_shown_as_down(broker: FakeBroker, proxies: Proxies) -> None:
    """Its address does not leak; one error line, not one per answer, says what to change."""
    proxy = await proxies.start(broker)
    broker.reply = lambda head, frame: answer(
        metadata((1, *broker.address), (1001, "kafka-1001", 9092)), head.api_version, head.correlation_id
    )

    with capture_logs() as logs:
        async with Client(proxy.bootstrap_address) as client:
            rows = broker_rows(await client.ask(request(MetadataRequest(), 12)))
            await client.ask(request(MetadataRequest(), 12, 2))

    assert rows[1] == (1001, HOST, 0)
    (line,) = [line for line in logs if line["log_level"] == "error"]
    assert "broker 1001 at kafka-1001:9092 has no advertised port" in line["detail"]


async def test_node_without_a_port_is_reported_before_any_client_comes(broker: FakeBroker, proxies: Proxies) -> None:
    """Whoever starts the proxy sees it at once."""
    async with FakeBroker(NodeId(9)) as far:
        with capture_logs() as logs:
            await proxies.start(broker, far)

    (line,) = [line for line in logs if line["log_level"] == "error"]
    assert line["node_id"] == 9


async def test_declared_node_ids_have_ports(proxies: Proxies) -> None:
    """Ids with gaps need a declaration and no more ports than ids."""
    async with FakeBroker(NodeId(100)) as far:
        proxy = await proxies.start(far, node_ids=(range(5, 6), range(100, 101)), node_ports=free_ports(2))

        assert list(proxy.node_addresses) == [5, 100]
        async with Client(proxy.node_addresses[NodeId(100)]) as client:
            assert await client.ask(opaque_request(4)) == opaque_answer(4, b"\x64")


async def test_it_starts_without_a_cluster_and_recovers(broker: FakeBroker, proxies: Proxies) -> None:
    """Ports are bound at once; readiness tells the truth before and after."""
    up = False

    async def read_nodes(deadline: float) -> Mapping[NodeId, Address]:
        if not up:
            raise Unreachable("nobody is at kafka:9092")
        return {NodeId(1): broker.address}

    proxy = Proxy(proxy_settings(broker), None, read_nodes=read_nodes)
    assert (proxy.ready, proxy.reason) == (False, "not started")
    await proxy.start()
    proxies.started.append(proxy)

    await eventually(lambda: "nobody is at kafka:9092" in proxy.reason)
    assert not proxy.ready
    assert await is_refused(proxy.node_addresses[NodeId(1)])
    up = True
    await eventually(lambda: proxy.ready)
    assert proxy.reason == ""
    async with Client(proxy.node_addresses[NodeId(1)]) as client:
        assert await client.ask(opaque_request(4)) == opaque_answer(4, b"\1")


async def test_it_reads_the_nodes_by_itself(broker: FakeBroker) -> None:
    """Without a reader of nodes, a small client of its own asks the brokers."""
    proxy = Proxy(proxy_settings(broker), None)
    await proxy.start()
    try:
        await eventually(lambda: proxy.ready)
        async with Client(proxy.node_addresses[NodeId(1)]) as client:
            assert await client.ask(opaque_request(4)) == opaque_answer(4, b"\1")
    finally:
        await proxy.stop()


async def test_half_dead_cluster_is_told_and_recovered_from(
    broker: FakeBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Brokers that accept connections and never answer: it starts, says so, and goes on when they do."""
    monkeypatch.setattr("shareproxy.proxy.upstream.READ_SECONDS", 0.2)
    broker.reading.clear()
    proxy = Proxy(proxy_settings(broker), None)
    await proxy.start()
    try:
        await eventually(lambda: "answered yet" not in proxy.reason)
        assert not proxy.ready
        assert str(broker.address) in proxy.reason
        async with Client(proxy.bootstrap_address) as client:
            client.send(opaque_request(1))
            broker.reading.set()
            assert await client.frame() == opaque_answer(1, b"\1")
        await eventually(lambda: proxy.ready)
    finally:
        await proxy.stop()


async def test_lost_cluster_makes_it_unready(
    broker: FakeBroker, proxies: Proxies, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Readiness goes with the cluster, and comes back with it."""
    monkeypatch.setattr("shareproxy.proxy.upstream.WATCH_SECONDS", 0.01)
    monkeypatch.setattr("shareproxy.proxy.upstream.FIRST_RETRY_SECONDS", 0.01)
    failure: Exception | None = None

    async def read_nodes(deadline: float) -> Mapping[NodeId, Address]:
        if failure:
            raise failure
        return {NodeId(1): broker.address}

    proxy = Proxy(proxy_settings(broker), None, read_nodes=read_nodes)
    await proxy.start()
    proxies.started.append(proxy)
    await eventually(lambda: proxy.ready)

    failure = Unreachable("gone")
    await eventually(lambda: not proxy.ready)
    failure = ZeroDivisionError("bug")
    with capture_logs() as logs:
        await eventually(lambda: "ZeroDivisionError" in proxy.reason)
    assert any(isinstance(line.get("exc_info"), ZeroDivisionError) for line in logs)
    failure = None
    await eventually(lambda: proxy.ready)


async def test_taken_port_is_named(broker: FakeBroker) -> None:
    """Nothing stays bound after it."""
    low, high = free_ports(2)
    with taken_port() as port:
        proxy = Proxy(proxy_settings(broker, listen=Address(HOST, port), node_ports=(low, high)), None)
        with pytest.raises(OSError, match=f"cannot listen on {HOST}:{port}: ") as failed:
            await proxy.start()

    assert "in use" in str(failed.value).lower()
    assert not proxy.ready
    again = Proxy(proxy_settings(broker, node_ports=(low, high)), None)
    await again.start()
    await again.stop()


@pytest.mark.parametrize("host", ["", "*", "0.0.0.0", "::", "0", "0.0", "0x0", "::0", "0::0", "::ffff:0.0.0.0"])
def test_address_nobody_can_connect_to_is_refused(host: str) -> None:
    """Where to listen and what to tell clients are two settings."""
    with pytest.raises(PortsError, match="--advertised-host"):
        proxy_settings(advertised_host=host)


@pytest.mark.parametrize(
    "host", ["localhost", "127.0.0.1", "10.0.0.0", "::1", "::ffff:10.0.0.0", "fd00::", "0.example"]
)
def test_address_that_only_looks_like_all_addresses_is_taken(host: str) -> None:
    """Zeros at its end or in its name do no harm."""
    assert proxy_settings(advertised_host=host).advertised_host == host


async def test_reason_is_told_while_the_first_look_at_the_cluster_goes_on() -> None:
    """It is repeated for seconds before it is given up, and why is known after the first try."""
    with taken_port() as port:
        pass
    proxy = Proxy(proxy_settings(bootstrap_servers=(Address(HOST, port),)), None)
    await proxy.start()
    try:
        await eventually(lambda: NOT_ASKED_YET not in proxy.reason)

        assert proxy._upstream.failure == NOT_ASKED_YET
        assert proxy.reason.startswith(f"the cluster cannot be reached: {HOST}:{port}: ")
    finally:
        await proxy.stop()


def test_bootstrap_port_among_the_node_ports_is_refused() -> None:
    """One port cannot be both."""
    with pytest.raises(PortsError, match="19105 is both"):
        proxy_settings(listen=Address(HOST, 19105), node_ports=(19100, 19110))


async def test_further_clients_are_closed(broker: FakeBroker, proxies: Proxies) -> None:
    """The limit protects those who are connected."""
    proxy = await proxies.start(broker, max_connections=1)

    async with Client(proxy.bootstrap_address) as first:
        await first.ask(opaque_request(1))
        with capture_logs() as logs:
            async with Client(proxy.bootstrap_address) as second:
                assert await second.rest() == b""
        assert await first.ask(opaque_request(2)) == opaque_answer(2, b"\1")

    assert logs[0]["reason"] == "too_many_connections"
    await eventually(lambda: proxy.connections == 0)
    async with Client(proxy.bootstrap_address) as third:
        await third.ask(opaque_request(1))


async def test_stop_closes_idle_clients_at_once(broker: FakeBroker, proxies: Proxies) -> None:
    """Nothing is in flight, so nothing is waited for."""
    proxy = await proxies.start(broker)
    async with Client(proxy.bootstrap_address) as asked, Client(proxy.bootstrap_address) as silent:
        await asked.ask(opaque_request(1))
        await eventually(lambda: proxy.connections == 2)

        await proxy.stop(grace=60)

        assert await asked.rest() == b""
        assert await silent.rest() == b""
    assert (proxy.ready, proxy.reason, proxy.connections) == (False, "stopped", 0)


async def test_stop_lets_answers_arrive(broker: FakeBroker, proxies: Proxies) -> None:
    """What was asked before is answered; then the connection closes, and nobody new comes in."""
    proxy = await proxies.start(broker)
    go = asyncio.Event()

    async def late(head: RequestHead, frame: bytes) -> bytes:
        await go.wait()
        return opaque_answer(head.correlation_id, b"late")

    broker.reply = late
    address = proxy.bootstrap_address
    async with Client(address) as client:
        client.send(opaque_request(1))
        await broker.until(lambda: broker.requests)
        stopping = asyncio.create_task(proxy.stop(grace=60))
        await eventually(lambda: proxy.reason == "stopping")
        with pytest.raises(ConnectionError):
            await asyncio.open_connection(*address)
        go.set()

        assert await client.frame() == opaque_answer(1, b"late")
        assert await client.rest() == b""
        await stopping


async def test_stop_ends_after_the_grace(broker: FakeBroker, proxies: Proxies) -> None:
    """A broker that never answers does not keep the process."""
    proxy = await proxies.start(broker)
    broker.reply = lambda head, frame: None
    async with Client(proxy.bootstrap_address) as client:
        client.send(opaque_request(1))
        await broker.until(lambda: broker.requests)

        with capture_logs() as logs:
            await proxy.stop(grace=0.01)

        assert await client.rest() == b""
    assert [(line["reason"], line["detail"]) for line in logs] == [("stopped", "did not finish in time")]


async def test_stop_before_start_does_nothing(broker: FakeBroker) -> None:
    """A service that failed early can be stopped like any other."""
    await Proxy(proxy_settings(broker), None).stop()


async def test_brokers_may_speak_tls(proxies: Proxies, certificates: Certificates) -> None:
    """Clients speak plain text to the proxy, which checks the broker's certificate."""
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(certificates.server_pem)
    async with FakeBroker(NodeId(1), context) as broker:
        trusted = Security("SSL", ca_file=str(certificates.ca_pem))
        proxy = await proxies.start(broker, broker_security=trusted)
        async with Client(proxy.bootstrap_address) as client:
            client.send(opaque_request(1) + opaque_request(2))
            assert await client.frame() == opaque_answer(1, b"\1")
            assert await client.frame() == opaque_answer(2, b"\1")

        doubtful = await proxies.start(broker, broker_security=Security("SSL"))
        with capture_logs() as logs, contextlib.suppress(ConnectionError):
            async with Client(doubtful.bootstrap_address) as client:
                client.send(opaque_request(1))
                assert await client.rest() == b""
    (line,) = [line for line in logs if line.get("reason") == "broker_unreachable"]
    assert "certificate is not accepted" in line["detail"]


async def test_stop_begins_with_idle_clients_and_spreads_them(
    broker: FakeBroker, proxies: Proxies, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing of theirs is lost; those at work may go on for a moment."""
    monkeypatch.setattr("shareproxy.proxy.server.DRAIN_AT_ONCE", 1)
    monkeypatch.setattr("shareproxy.proxy.server.DRAIN_PAUSE_SECONDS", 3600.0)
    proxy = await proxies.start(broker)
    go = asyncio.Event()

    async def late(head: RequestHead, frame: bytes) -> bytes:
        await go.wait()
        return opaque_answer(head.correlation_id, b"late")

    async with Client(proxy.bootstrap_address) as busy, Client(proxy.bootstrap_address) as idle:
        await idle.ask(opaque_request(1))
        broker.reply = late
        busy.send(opaque_request(1))
        await broker.until(lambda: len(broker.requests) == 2)

        stopping = asyncio.create_task(proxy.stop(grace=3600))
        assert await idle.rest() == b""
        go.set()
        assert await busy.frame() == opaque_answer(1, b"late")
        assert await busy.ask(opaque_request(2)) == opaque_answer(2, b"late")  # its turn has not come yet

        proxy.hurry()
        assert await busy.rest() == b""
        await stopping


async def test_stop_may_let_clients_in_for_a_while(broker: FakeBroker, proxies: Proxies) -> None:
    """Load balancers need time to see that it is not ready any more."""
    proxy = await proxies.start(broker)
    stopping = asyncio.create_task(proxy.stop(grace=3600, delay=3600))
    await eventually(lambda: proxy.reason == "stopping")

    async with Client(proxy.bootstrap_address) as client:
        assert await client.ask(opaque_request(1)) == opaque_answer(1, b"\1")
        proxy.hurry()
        assert await client.rest() == b""
    await stopping

    assert proxy.reason == "stopped"


async def test_hurry_cuts_off_what_is_in_flight(broker: FakeBroker, proxies: Proxies) -> None:
    """However long it was given."""
    proxy = await proxies.start(broker)
    broker.reply = lambda head, frame: None
    async with Client(proxy.bootstrap_address) as client:
        client.send(opaque_request(1))
        await broker.until(lambda: broker.requests)
        stopping = asyncio.create_task(proxy.stop(grace=3600))
        await eventually(lambda: proxy.reason == "stopping")

        proxy.hurry()

        assert await client.rest() == b""
        await stopping


async def test_clients_may_come_over_ipv6(proxies: Proxies) -> None:
    """They are told the address without brackets, as the wire wants it."""
    async with FakeBroker(NodeId(1)) as broker:
        proxy = await proxies.start(broker, listen=Address("::1", 0), advertised_host="::1")

        async with Client(proxy.bootstrap_address) as client:
            (row,) = broker_rows(await client.ask(request(MetadataRequest(), 12)))
        async with Client(Address(*row[1:])) as client:
            assert await client.ask(opaque_request(4)) == opaque_answer(4, b"\1")

    assert row[1] == "::1"


async def test_nodes_that_come_and_go_are_seen_without_a_client(
    broker: FakeBroker, proxies: Proxies, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One that left is refused at once, whoever still remembers it; one that came is served."""
    monkeypatch.setattr("shareproxy.proxy.upstream.WATCH_SECONDS", 0.01)
    monkeypatch.setattr("shareproxy.proxy.upstream.FIRST_RETRY_SECONDS", 0.01)
    nodes = {NodeId(1): broker.address}

    async def read_nodes(deadline: float) -> Mapping[NodeId, Address]:
        return nodes

    proxy = Proxy(proxy_settings(broker), None, read_nodes=read_nodes)
    await proxy.start()
    proxies.started.append(proxy)
    async with FakeBroker(NodeId(2)) as new:
        nodes = {NodeId(1): broker.address, NodeId(2): new.address}
        await eventually(lambda: proxy._upstream.nodes == nodes)
        async with Client(proxy.node_addresses[NodeId(2)]) as client:
            assert await client.ask(opaque_request(4)) == opaque_answer(4, b"\2")

        nodes = {NodeId(2): new.address}
        await eventually(lambda: proxy._upstream.nodes == nodes)
        assert await is_refused(proxy.node_addresses[NodeId(1)])
        async with Client(proxy.bootstrap_address) as client:
            assert (await client.ask(opaque_request(4)))[-1] in (1, 2)


async def test_bootstrap_port_without_a_living_broker_closes(proxies: Proxies) -> None:
    """At once where all refuse; the client goes on trying, as it does with brokers."""
    proxy = Proxy(proxy_settings(bootstrap_servers=(Address(HOST, 1), Address(HOST, 2))), None)
    await proxy.start()
    proxies.started.append(proxy)

    with capture_logs() as logs:
        async with Client(proxy.bootstrap_address) as client:
            client.send(opaque_request(1))
            assert await client.rest() == b""

    (line,) = [line for line in logs if line["event"] == "connection closed"]
    assert line["reason"] == "broker_unreachable"
    assert f"{HOST}:1: Connection refused" in line["detail"]
    assert f"{HOST}:2: Connection refused" in line["detail"]

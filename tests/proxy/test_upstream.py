"""Where the brokers are, and connecting to them."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import ssl
from collections.abc import Mapping
from pathlib import Path

import pytest

from shareproxy.cluster.addresses import Address
from shareproxy.cluster.errors import PropertiesError
from shareproxy.cluster.security import Security
from shareproxy.protocol.ids import NodeId
from shareproxy.proxy import upstream
from shareproxy.proxy.upstream import UnknownNodeError, UnreachableError, Upstream
from shareproxy.testing.kafka_security import Certificates
from tests.proxy.fake_broker import HOST, FakeBroker, eventually

pytestmark = pytest.mark.timeout(60)

A, B, C = Address("a", 1), Address("b", 2), Address("c", 3)


async def test_any_broker_begins_with_another_one_each_time() -> None:
    """Known nodes take turns; each address is tried once."""
    brokers = Upstream((A, B))
    brokers.learn(NodeId(1), B)
    brokers.learn(NodeId(2), C)

    orders = [brokers.addresses(None) for _ in range(4)]

    assert all(sorted(order) == [A, B, C] for order in orders)
    assert sorted(order[0] for order in orders) == [B, B, C, C]


async def test_bootstrap_server_that_is_no_node_is_tried_last() -> None:
    """A broker that hangs takes connections, and has left the metadata."""
    brokers = Upstream((A, B))
    assert {brokers.addresses(None)[0] for _ in range(2)} == {A, B}  # nothing better is known yet

    brokers.learn(NodeId(2), B)

    assert [brokers.addresses(None) for _ in range(2)] == [[B, A], [B, A]]


async def test_nothing_is_known_before_the_first_answer() -> None:
    """Brokers may have refused already: the sentence must not say that nobody tried."""
    assert Upstream([Address("kafka", 9092)]).failure == "no broker has answered yet"


async def test_node_has_its_one_address() -> None:
    """The latest that was seen, and no other."""
    brokers = Upstream((A,))
    brokers.learn(NodeId(1), B)
    brokers.learn(NodeId(1), C)

    assert brokers.addresses(NodeId(1)) == [C]


async def test_unknown_node_has_none() -> None:
    """No other broker takes its place."""
    brokers = Upstream((A,))

    with pytest.raises(UnknownNodeError, match=r"node 1 is not among the cluster's nodes \[\]"):
        brokers.addresses(NodeId(1))
    with pytest.raises(UnknownNodeError):
        await brokers.connect(asyncio.Protocol, NodeId(1), 1)


async def test_versions_are_kept_per_node() -> None:
    """What one connection learns holds for the node's other connections; an unchosen broker has none."""
    brokers = Upstream((A,))
    brokers.learn(NodeId(1), A)
    brokers.versions_of(NodeId(1)).lag_version = 0
    brokers.versions_of(None).lag_version = 1

    assert brokers.versions_of(NodeId(1)).lag_version == 0
    assert brokers.versions_of(None).lag_version is None


async def test_nothing_is_kept_of_nodes_that_are_not_there() -> None:
    """A client may name any node."""
    brokers = Upstream((A,))

    brokers.versions_of(NodeId(7)).lag_version = 1

    assert brokers.versions_of(NodeId(7)).lag_version is None


async def test_all_brokers_are_tried(broker: FakeBroker) -> None:
    """Until one answers."""
    brokers = Upstream((Address(HOST, 1), Address("no.such.host.invalid", 9092), broker.address))

    for _ in range(3):
        transport, _, address = await brokers.connect(asyncio.Protocol, None, 5)
        transport.close()
        assert address == broker.address


async def test_every_failure_is_told() -> None:
    """One sentence with each address and its cause."""
    brokers = Upstream((Address(HOST, 1), Address("no.such.host.invalid", 9092)))

    with pytest.raises(UnreachableError) as failed:
        await brokers.connect(asyncio.Protocol, None, 5)

    text = str(failed.value)
    assert f"{HOST}:1: Connection refused" in text
    assert "no.such.host.invalid:9092: " in text


async def test_silent_machine_does_not_use_up_the_time(broker: FakeBroker, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each of several brokers gets a part of the time."""
    monkeypatch.setattr(upstream, "ATTEMPT_SECONDS", 0.05)
    with socket.socket() as full, socket.socket() as first:
        full.bind((HOST, 0))
        full.listen(0)
        first.connect(full.getsockname())
        silent = Address(HOST, full.getsockname()[1])
        brokers = Upstream((broker.address, silent))

        transport, _, address = await brokers.connect(asyncio.Protocol, None, 5)
        transport.close()
        assert address == broker.address
        brokers.learn(NodeId(1), silent)
        with pytest.raises(UnreachableError, match=f"{silent}: no answer in time"):
            await brokers.connect(asyncio.Protocol, NodeId(1), 0.05)


async def test_no_time_is_no_attempt(broker: FakeBroker) -> None:
    """A deadline that has passed is told as such."""
    with pytest.raises(UnreachableError, match="no answer in time"):
        await Upstream((broker.address,)).connect(asyncio.Protocol, None, 0)


async def test_plain_broker_does_not_speak_tls(broker: FakeBroker) -> None:
    """The cause names TLS."""
    brokers = Upstream((broker.address,), Security("SSL"))

    with pytest.raises(UnreachableError, match=str(broker.address)):
        await brokers.connect(asyncio.Protocol, None, 1)


async def test_missing_certificates_are_told_at_start(tmp_path: Path) -> None:
    """Not at the first client."""
    with pytest.raises(PropertiesError, match=r"ca\.pem"):
        Upstream((A,), Security("SSL", ca_file=str(tmp_path / "ca.pem")))


async def test_certificates_that_disappear_are_a_failure_to_connect(
    tmp_path: Path, broker: FakeBroker, certificates: Certificates
) -> None:
    """The client is closed with a reason, the process lives."""
    authority = tmp_path / "ca.pem"
    authority.write_bytes(certificates.ca_pem.read_bytes())
    brokers = Upstream((broker.address,), Security("SSL", ca_file=str(authority)))
    authority.unlink()

    with pytest.raises(UnreachableError, match="ca"):
        await brokers.connect(asyncio.Protocol, None, 1)


async def test_unknown_node_makes_the_watcher_look_at_once() -> None:
    """A client that comes for a node that has just started need not wait for the next turn."""
    brokers = Upstream((A,))
    reads = 0

    async def read_nodes(deadline: float) -> Mapping[NodeId, Address]:
        nonlocal reads
        reads += 1
        return {NodeId(1): A} if reads > 1 else {}

    watcher = asyncio.create_task(brokers.watch(read_nodes))
    await eventually(lambda: reads == 1)
    with pytest.raises(UnknownNodeError):
        brokers.addresses(NodeId(1))
    await eventually(lambda: brokers.nodes)

    assert brokers.addresses(NodeId(1)) == [A]
    watcher.cancel()
    await asyncio.gather(watcher, return_exceptions=True)


async def test_node_that_left_is_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its address may belong to another node by now."""
    monkeypatch.setattr(upstream, "WATCH_SECONDS", 0.01)
    monkeypatch.setattr(upstream, "FIRST_RETRY_SECONDS", 0.01)
    brokers = Upstream((A,))
    now = {NodeId(1): A, NodeId(2): B}

    async def read_nodes(deadline: float) -> Mapping[NodeId, Address]:
        return now

    watcher = asyncio.create_task(brokers.watch(read_nodes))
    await eventually(lambda: len(brokers.nodes) == 2)
    del now[NodeId(2)]
    await eventually(lambda: len(brokers.nodes) == 1)

    watcher.cancel()
    await asyncio.gather(watcher, return_exceptions=True)


async def test_address_that_failed_is_tried_last_for_a_while(
    broker: FakeBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A machine that is gone does not cost every other client its patience."""
    dead = Address(HOST, 1)
    brokers = Upstream((dead, broker.address))
    while brokers.addresses(None)[0] != broker.address:
        pass
    transport, _, _ = await brokers.connect(asyncio.Protocol, None, 5)  # begins with the dead one
    transport.close()

    assert [brokers.addresses(None)[0] for _ in range(4)] == [broker.address] * 4
    monkeypatch.setattr(upstream, "DOUBT_SECONDS", 0.0)
    assert {brokers.addresses(None)[0] for _ in range(4)} == {dead, broker.address}


async def test_address_that_answers_again_is_not_doubted(broker: FakeBroker) -> None:
    """It was restarted."""
    brokers = Upstream((broker.address,))
    await broker.stop()
    with pytest.raises(UnreachableError):
        await brokers.connect(asyncio.Protocol, None, 5)
    await broker.start()

    transport, _, address = await brokers.connect(asyncio.Protocol, None, 5)
    transport.close()

    assert address == broker.address


async def test_broker_that_hangs_in_tls_is_given_up_for_another(
    certificates: Certificates, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It took the connection, and no other attempt was made beside it; so it has a part of the time only."""
    monkeypatch.setattr(upstream, "ATTEMPT_SECONDS", 0.2)
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(certificates.server_pem)
    trusted = Security("SSL", ca_file=str(certificates.ca_pem))
    async with FakeBroker(NodeId(1)) as hanging, FakeBroker(NodeId(2), context) as other:
        hanging.reading.clear()
        brokers = Upstream((hanging.address, other.address), trusted)
        for _ in range(2):
            transport, _, address = await brokers.connect(asyncio.Protocol, None, 30)
            transport.close()
            assert address == other.address


async def test_brokers_may_have_ipv6_addresses() -> None:
    """With nothing in brackets."""
    ended = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(ConnectionError):
            await reader.read()
        writer.close()
        ended.append(1)

    server = await asyncio.start_server(serve, "::1", 0)
    address = Address("::1", server.sockets[0].getsockname()[1])

    for addresses in ((address,), (Address(HOST, 1), address)):
        brokers = Upstream(addresses)
        transport, _, found = await brokers.connect(asyncio.Protocol, None, 5)
        assert found == address
        assert transport.get_extra_info("peername")[0] == "::1"
        transport.abort()
    await eventually(lambda: len(ended) == 2)
    server.close()


async def test_no_broker_known_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Refused by all: at once. Silent: after the time that there is."""
    brokers = Upstream((Address(HOST, 1), Address(HOST, 2)))
    with pytest.raises(UnreachableError, match=r"refused.*refused"):
        await brokers.connect(asyncio.Protocol, None, 3600)

    with socket.socket() as full, socket.socket() as first:
        full.bind((HOST, 0))
        full.listen(0)
        first.connect(full.getsockname())
        silent = Upstream((Address(*full.getsockname()), Address(*full.getsockname())))
        with pytest.raises(UnreachableError, match="no answer in time"):
            await silent.connect(asyncio.Protocol, None, 0.05)

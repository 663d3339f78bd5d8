"""What networks do between client, proxy and broker, on both event loops."""

from __future__ import annotations

import asyncio

import pytest
from structlog.testing import capture_logs

from shareproxy.cluster.addresses import Address
from shareproxy.protocol.headers import RequestHead
from shareproxy.protocol.ids import NodeId
from shareproxy.protocol.messages import ApiVersionsRequest, MetadataRequest
from shareproxy.proxy import upstream
from shareproxy.testing.relay import FaultyRelay, Way
from tests.adversity.held import held
from tests.adversity.sevens import Sevens
from tests.proxy.conftest import Proxies
from tests.proxy.fake_broker import HOST, Client, FakeBroker, eventually
from tests.proxy.frames import opaque_answer, opaque_request, request, share_offsets_of

pytestmark = pytest.mark.timeout(60)

QUESTIONS = (
    request(ApiVersionsRequest(), 0, 1),
    request(MetadataRequest(topics=None), 1, 2),
    request(share_offsets_of({"t": [0]}), 0, 3),
    opaque_request(4, body=b"question" * 300),
)


def behind(relay: FaultyRelay, broker: FakeBroker) -> FakeBroker:
    """Return what stands for the broker behind a relay: the broker says that it is there, so that all go by it."""
    stand_in = FakeBroker(broker.node_id)
    stand_in.address = Address(HOST, relay.port)
    broker.reply = stand_in.usual_reply
    return stand_in


async def ask_all(address: Address) -> list[bytes]:
    """Ask all questions at once and return the answers."""
    async with Client(address) as client:
        client.send(b"".join(QUESTIONS))
        return [await client.frame() for _ in QUESTIONS]


@pytest.mark.parametrize("boundaries", ["byte by byte", "shuffled", "late"])
async def test_boundaries_of_chunks_mean_nothing(boundaries: str, broker: FakeBroker, proxies: Proxies) -> None:
    """Rewritten, filled-in and passing answers are the same however the bytes are cut up, on both sides."""
    async with FaultyRelay(*broker.address) as back:
        proxy = await proxies.start(behind(back, broker), lag=Sevens())
        expected = await ask_all(proxy.bootstrap_address)
        async with FaultyRelay(*proxy.bootstrap_address) as front:
            for seed, relay in enumerate((front, back)):
                match boundaries:
                    case "byte by byte":
                        relay.crumble(1)
                    case "shuffled":
                        relay.shuffle_boundaries(seed, largest=40)
                    case _:
                        relay.delay(0.02)

            found = await ask_all(Address(HOST, front.port))

    assert found == expected
    assert back.passed[Way.TO_SERVER] == 2 * sum(map(len, QUESTIONS))


async def test_broker_that_cannot_be_reached_by_silence_closes_its_clients(
    broker: FakeBroker, proxies: Proxies
) -> None:
    """A firewall drops what goes to it: one warning after the connect timeout, and other nodes are served meanwhile."""
    async with FakeBroker(NodeId(2)) as second, FaultyRelay(*broker.address) as relay:
        proxy = await proxies.start(behind(relay, broker), second, connect_timeout=0.4)
        addresses = proxy.node_addresses
        await relay.ignore_async()
        before = held()
        with capture_logs() as logs:
            async with Client(addresses[NodeId(1)]) as lost, Client(addresses[NodeId(2)]) as served:
                lost.send(opaque_request(1))
                assert await served.ask(opaque_request(2)) == opaque_answer(2, b"\2")
                assert await lost.rest() == b""
                assert await served.ask(opaque_request(3)) == opaque_answer(3, b"\2")
            await eventually(lambda: len(logs) == 2)  # the second client's end is noticed a turn of the loop later

        closed = [(line["reason"], line["log_level"]) for line in logs]
        assert closed == [("broker_unreachable", "warning"), ("client_closed", "info")]
        assert "no answer in time" in logs[0]["detail"]
        await second.until(lambda: second.ended)
        await eventually(lambda: held().within(before))


async def test_bootstrap_port_goes_round_a_silent_broker(
    broker: FakeBroker, proxies: Proxies, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One attempt's time is lost and no client: the next broker takes it."""
    monkeypatch.setattr(upstream, "ATTEMPT_SECONDS", 0.2)
    async with FakeBroker(NodeId(2)) as second, FaultyRelay(*broker.address) as relay:
        proxy = await proxies.start(behind(relay, broker), second)
        await relay.ignore_async()

        answers = []
        for number in range(4):
            async with Client(proxy.bootstrap_address) as client:
                answers.append(await client.ask(opaque_request(number)))

    assert answers == [opaque_answer(number, b"\2") for number in range(4)]


async def test_answers_that_vanish_hold_nothing_after_the_client_left(broker: FakeBroker, proxies: Proxies) -> None:
    """A black hole in mid-stream: the client waits as it would without us; its end ends both sides."""
    async with FakeBroker(NodeId(2)) as second, FaultyRelay(*broker.address) as relay:
        proxy = await proxies.start(behind(relay, broker), second)
        addresses = proxy.node_addresses
        await eventually(lambda: not proxy.connections)
        before = held()
        async with Client(addresses[NodeId(1)]) as client, Client(addresses[NodeId(2)]) as neighbour:
            await client.ask(opaque_request(1))
            relay.swallow(Way.TO_CLIENT)
            client.send(b"".join(opaque_request(number) for number in range(2, 40)))
            await broker.until(lambda: len(broker.requests) == 39)
            assert await neighbour.ask(opaque_request(2)) == opaque_answer(2, b"\2")
            assert proxy.connections == 2

        await broker.until(lambda: broker.ended)
        await eventually(lambda: not proxy.connections)
        await second.until(lambda: second.ended)
        await eventually(lambda: held().within(before))


async def test_slow_broker_delays_its_own_clients_only(broker: FakeBroker, proxies: Proxies) -> None:
    """Answers come in order and late; whoever asks another node does not notice."""
    async with FakeBroker(NodeId(2)) as second, FaultyRelay(*broker.address) as relay:
        proxy = await proxies.start(behind(relay, broker), second)
        addresses = proxy.node_addresses
        relay.throttle(2)
        async with Client(addresses[NodeId(1)]) as slow, Client(addresses[NodeId(2)]) as quick:
            slow.send(b"".join(opaque_request(number) for number in range(5)))
            for number in range(200):
                assert await quick.ask(opaque_request(number)) == opaque_answer(number, b"\2")
            assert relay.passed[Way.TO_CLIENT] < 5 * len(opaque_answer(1, b"\1"))
            relay.mend()
            assert [await slow.frame() for _ in range(5)] == [opaque_answer(number, b"\1") for number in range(5)]


async def test_client_that_ends_its_direction_has_its_requests_served(broker: FakeBroker, proxies: Proxies) -> None:
    """All that it said reaches the broker; then both sides end, as with a broker."""
    proxy = await proxies.start(broker)
    async with FaultyRelay(*proxy.bootstrap_address) as relay:
        with capture_logs() as logs:
            async with Client(Address(HOST, relay.port)) as client:
                await client.ask(opaque_request(1))
                client.send(opaque_request(2))
                await broker.until(lambda: len(broker.requests) == 2)

                relay.half_close(Way.TO_SERVER)

                await client.rest()
                await broker.until(lambda: broker.ended)

    assert [line["reason"] for line in logs] == ["client_closed"]


async def test_broker_that_ends_its_direction_ends_the_client(broker: FakeBroker, proxies: Proxies) -> None:
    """What it answered before arrives."""

    def reply(head: RequestHead, frame: bytes) -> bytes | None:
        return opaque_answer(1, b"\1") if head.correlation_id == 1 else None

    async with FaultyRelay(*broker.address) as relay:
        proxy = await proxies.start(behind(relay, broker))
        broker.reply = reply
        with capture_logs() as logs:
            async with Client(proxy.bootstrap_address) as client:
                client.send(opaque_request(1) + opaque_request(2))
                await broker.until(lambda: len(broker.requests) == 2)
                assert await client.frame() == opaque_answer(1, b"\1")

                relay.half_close(Way.TO_CLIENT)

                assert await client.rest() == b""
        await broker.until(lambda: broker.ended)

    assert [(line["reason"], line["detail"]) for line in logs] == [("broker_closed", "1 answers were due")]


async def test_line_that_is_cut_again_and_again_leaves_nothing(broker: FakeBroker, proxies: Proxies) -> None:
    """Fifty clients in the midst of their work, by resets and in order."""
    async with FaultyRelay(*broker.address) as back:
        proxy = await proxies.start(behind(back, broker))
        async with FaultyRelay(*proxy.bootstrap_address) as front:
            before = held()
            for turn in range(6):
                clients = [Client(Address(HOST, front.port)) for _ in range(50)]
                async with asyncio.timeout(20):
                    await asyncio.gather(*(client.__aenter__() for client in clients))
                    for client in clients:
                        client.send(opaque_request(1))
                    await asyncio.gather(*(client.frame() for client in clients))

                (front, back)[turn % 2].cut(reset=turn < 3)

                await eventually(lambda: not proxy.connections)
                for client in clients:
                    await client.__aexit__(None, None, None)
                await eventually(lambda: not front.connections and not back.connections)
                await eventually(lambda: held().within(before))

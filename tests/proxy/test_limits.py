"""Limits as clients meet them: of time, of sizes, of numbers."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Final

import msgspec
import pytest
from structlog.testing import capture_logs

from shareproxy.cluster.security import Security
from shareproxy.config import Limits
from shareproxy.protocol.headers import RequestHead
from shareproxy.protocol.messages import SaslAuthenticateRequest, SaslAuthenticateResponse
from shareproxy.proxy.client_tls import ClientTls
from shareproxy.testing.kafka_security import Certificates
from tests.proxy.conftest import Proxies
from tests.proxy.fake_broker import Client, FakeBroker, eventually
from tests.proxy.frames import answer, opaque_answer, opaque_request, produce, request, sasl_handshake
from tests.proxy.test_client_tls import TlsClient, trusting

pytestmark = pytest.mark.timeout(60)

SASL: Final = Security("SASL_PLAINTEXT", sasl_mechanism="PLAIN", username="u", password="p")
SHORT: Final = 0.1  # seconds of a limit that is waited for


async def close_reason(client: Client, logs: Sequence[object]) -> str:
    """Wait for the end of a client; return its reason."""
    assert await client.rest() == b""
    await eventually(lambda: logs)
    (line,) = logs
    assert isinstance(line, dict)
    return str(line["reason"])


@pytest.mark.parametrize("sent", [b"", b"\0\0\0\x20", opaque_request(1)[:11]], ids=["nothing", "size", "head"])
async def test_client_that_does_not_ask_is_closed(broker: FakeBroker, proxies: Proxies, sent: bytes) -> None:
    """Whether it has sent the beginning of something or nothing."""
    proxy = await proxies.start(broker, unauthenticated_timeout=SHORT)

    with capture_logs() as logs:
        async with Client(proxy.bootstrap_address) as client:
            client.send(sent)
            assert await close_reason(client, logs) == "first_request_timeout"


@pytest.mark.parametrize(
    "sent",
    [opaque_request(1), produce(1, acks=0), opaque_request(1, body=bytes(100))[:50]],
    ids=["answered", "without an answer", "in part"],
)
async def test_client_that_has_asked_may_be_silent(broker: FakeBroker, proxies: Proxies, sent: bytes) -> None:
    """Answered or not; a request that stops in its middle has a limit of its own."""
    proxy = await proxies.start(broker, unauthenticated_timeout=SHORT)
    broker.reply = lambda head, frame: opaque_answer(head.correlation_id) if head.api_key else None

    async with Client(proxy.bootstrap_address) as client, Client(proxy.bootstrap_address) as silent:
        client.send(sent)
        await broker.until(lambda: broker.connections)
        assert await silent.rest() == b""  # the limit has passed

        assert proxy.connections == 1


def sasl_broker(broker: FakeBroker, *answers: SaslAuthenticateResponse) -> None:
    """Let the broker accept a mechanism and give these answers to the steps that follow."""
    left = list(answers)

    def reply(head: RequestHead, frame: bytes) -> bytes:
        if head.api_key == 17:
            return opaque_answer(head.correlation_id, bytes(6))
        if head.api_key == 36:
            return answer(left.pop(0), head.api_version, head.correlation_id)
        return opaque_answer(head.correlation_id)

    broker.reply = reply


GOOD, BAD = SaslAuthenticateResponse(), SaslAuthenticateResponse(error_code=58, error_message="wrong password")
SALT, OTHER = SaslAuthenticateResponse(auth_bytes=b"r=1,s=2"), SaslAuthenticateResponse(auth_bytes=b'{"status":"x"}')
LARGE: Final = opaque_request(9, body=bytes(600_000))


@pytest.mark.parametrize(
    ("mechanism", "answers", "done"),
    [
        ("PLAIN", [GOOD], True),
        ("PLAIN", [BAD], False),
        ("PLAIN", [BAD, GOOD], True),
        ("SCRAM-SHA-512", [SALT], False),
        ("SCRAM-SHA-512", [SALT, GOOD], True),
        ("OAUTHBEARER", [GOOD], True),
        ("OAUTHBEARER", [OTHER], False),
        ("GSSAPI", [GOOD], True),
    ],
)
@pytest.mark.parametrize("version", [1, 2])
async def test_large_requests_pass_after_authentication_only(
    broker: FakeBroker,
    proxies: Proxies,
    mechanism: str,
    answers: list[SaslAuthenticateResponse],
    done: bool,
    version: int,
) -> None:
    """It is over when the broker has accepted the last step of the mechanism, in any version."""
    proxy = await proxies.start(broker, broker_security=SASL)
    sasl_broker(broker, *answers)

    with capture_logs() as logs:
        async with Client(proxy.bootstrap_address) as client:
            await client.ask(sasl_handshake(1, mechanism, 1))
            for number, expected in enumerate(answers, 2):
                step = request(SaslAuthenticateRequest(b"token"), version, number)
                assert await client.ask(step) == answer(expected, version, number)
            client.send(LARGE)
            if done:
                assert await client.frame() == opaque_answer(9)
            else:
                assert await close_reason(client, logs) == "unauthenticated_frame_too_large"
                assert "limits.max_unauthenticated_frame_bytes is 524288" in logs[0]["detail"]


async def test_tokens_without_headers_authenticate_too(broker: FakeBroker, proxies: Proxies) -> None:
    """As SaslHandshake v0 has them."""
    proxy = await proxies.start(broker, broker_security=SASL)
    broker.reply = lambda head, frame: opaque_answer(head.correlation_id, bytes(6) if head.api_key == 17 else b"")

    async with Client(proxy.bootstrap_address) as client:
        await client.ask(sasl_handshake(1, "PLAIN", 0))
        token = opaque_request(5, body=b"\0u\0p")  # what the fake broker can read as well
        assert await client.ask(token) == opaque_answer(5)
        assert await client.ask(LARGE) == opaque_answer(9)


async def test_client_that_authenticates_may_be_silent(broker: FakeBroker, proxies: Proxies) -> None:
    """Some connect to all brokers and use some of them."""
    proxy = await proxies.start(broker, broker_security=SASL, unauthenticated_timeout=SHORT)
    sasl_broker(broker, GOOD)

    async with Client(proxy.bootstrap_address) as client, Client(proxy.bootstrap_address) as other:
        await client.ask(sasl_handshake(1, "PLAIN", 1))
        await client.ask(request(SaslAuthenticateRequest(b"token"), 2, 2))
        assert await other.rest() == b""

        assert await client.ask(opaque_request(3)) == opaque_answer(3)


async def test_brokers_without_sasl_take_large_requests_at_once(broker: FakeBroker, proxies: Proxies) -> None:
    """A producer's first request may be its largest; only what authenticates stays small."""
    proxy = await proxies.start(broker)

    async with Client(proxy.bootstrap_address) as client:
        assert await client.ask(LARGE) == opaque_answer(9, b"\1")
        with capture_logs() as logs:
            client.send(opaque_request(1, api_key=18, body=bytes(600_000)))
            assert await close_reason(client, logs) == "unauthenticated_frame_too_large"


async def test_request_that_stops_is_closed_and_one_that_waits_for_the_broker_is_not(
    broker: FakeBroker, proxies: Proxies
) -> None:
    """The client is to blame only while it is read."""
    proxy = await proxies.start(broker, slow_request_timeout=SHORT)
    broker.reading.clear()
    frame = opaque_request(1, body=bytes(40_000_000))

    async with Client(proxy.bootstrap_address) as waiting, Client(proxy.bootstrap_address) as stopped:
        waiting.send(frame)
        await eventually(lambda: any(not connection._client_reading for connection in proxy._around.open))
        with capture_logs() as logs:
            stopped.send(frame[:1000])
            assert await close_reason(stopped, logs) == "slow_request"
        broker.reading.set()
        assert await waiting.frame() == opaque_answer(1, b"\1")


async def test_idle_client_is_closed_and_one_that_waits_for_an_answer_is_not(
    broker: FakeBroker, proxies: Proxies
) -> None:
    """A long poll is no idleness."""
    proxy = await proxies.start(broker, idle_timeout=SHORT)
    broker.reply = lambda head, frame: opaque_answer(1) if head.correlation_id == 1 else None

    async with Client(proxy.bootstrap_address) as polling, Client(proxy.bootstrap_address) as idle:
        polling.send(opaque_request(2))
        await broker.until(lambda: broker.requests)
        with capture_logs() as logs:
            await idle.ask(opaque_request(1))
            assert await close_reason(idle, logs) == "idle_timeout"

        assert logs[0]["log_level"] == "info"
        assert proxy.connections == 1


async def test_client_that_does_not_read_is_closed_though_nobody_sees_its_broker_end(
    broker: FakeBroker, proxies: Proxies
) -> None:
    """What it does not take keeps the broker from being read, and so its end from being seen."""
    proxy = await proxies.start(broker, stalled_timeout=SHORT)
    broker.reply = lambda head, frame: opaque_answer(head.correlation_id, bytes(40_000_000))

    async with Client(proxy.bootstrap_address) as client:
        client.writer.transport.pause_reading()  # type: ignore[attr-defined]
        with capture_logs() as logs:
            client.send(opaque_request(1))
            await eventually(lambda: any(connection.held_back for connection in proxy._around.open))
            await broker.stop()
            await eventually(lambda: not proxy.connections)

    assert [(line["reason"], line["log_level"]) for line in logs] == [("stalled", "warning")]
    assert logs[0]["detail"].endswith("s: the client does not take what the broker sends")


async def test_client_that_does_not_read_its_tls_is_closed(
    broker: FakeBroker, proxies: Proxies, certificates: Certificates
) -> None:
    """The event loops' own transports hold what it does not take."""
    tls = ClientTls(str(certificates.server_pem))
    proxy = await proxies.start(broker, stalled_timeout=SHORT, client_tls=tls)
    broker.reply = lambda head, frame: opaque_answer(head.correlation_id, bytes(40_000_000))

    async with TlsClient(proxy.bootstrap_address, trusting(certificates)) as client:
        client.writer.transport.pause_reading()  # type: ignore[attr-defined]
        with capture_logs() as logs:
            client.send(opaque_request(1))
            await eventually(lambda: any(connection.held_back for connection in proxy._around.open))
            await eventually(lambda: not proxy.connections)
        client.writer.transport.abort()  # it would go on reading to close in order

    assert [line["reason"] for line in logs] == ["stalled"]


async def test_broker_that_hangs_does_not_keep_a_client_for_ever(broker: FakeBroker, proxies: Proxies) -> None:
    """The client is not read meanwhile, and not seen to leave."""
    proxy = await proxies.start(broker, stalled_timeout=SHORT, slow_request_timeout=30.0)
    broker.reading.clear()

    with capture_logs() as logs:
        async with Client(proxy.bootstrap_address) as client:
            client.send(opaque_request(1, body=bytes(40_000_000)))
            assert await close_reason(client, logs) == "stalled"

    assert logs[0]["detail"].endswith("s: the broker does not take or answer what the client sends")


async def test_connections_of_one_address_are_limited(broker: FakeBroker, proxies: Proxies) -> None:
    """When one leaves there is room again."""
    proxy = await proxies.start(broker, max_connections_per_address=2)

    async with Client(proxy.bootstrap_address) as first:
        async with Client(proxy.bootstrap_address) as second:
            await first.ask(opaque_request(1))
            await second.ask(opaque_request(1))
            with capture_logs() as logs:
                async with Client(proxy.bootstrap_address) as third:
                    assert await close_reason(third, logs) == "too_many_from_address"
            assert logs[0]["detail"] == "127.0.0.1 has 2; limits.max_connections_per_address is 2"
        await eventually(lambda: proxy.connections == 1)
        async with Client(proxy.bootstrap_address) as fourth:
            await fourth.ask(opaque_request(1))


async def test_requests_in_flight_are_limited(broker: FakeBroker, proxies: Proxies) -> None:
    """The client is read on when half of them are answered; none is lost."""
    proxy = await proxies.start(broker, max_in_flight=4)
    go = asyncio.Event()

    async def late(head: RequestHead, frame: bytes) -> bytes:
        await go.wait()
        return opaque_answer(head.correlation_id)

    broker.reply = late
    async with Client(proxy.bootstrap_address) as client:
        for number in range(4):
            client.send(opaque_request(number))
        await eventually(lambda: any(not connection._client_reading for connection in proxy._around.open))
        for number in range(4, 20):
            client.send(opaque_request(number))
        go.set()

        assert [await client.frame() for _ in range(20)] == [opaque_answer(number) for number in range(20)]


async def test_limits_may_change(broker: FakeBroker, proxies: Proxies) -> None:
    """Those of time hold for connections that are open already."""
    proxy = await proxies.start(broker, idle_timeout=0.0, slow_request_timeout=SHORT)

    async with Client(proxy.bootstrap_address) as client:
        await client.ask(opaque_request(1))
        with capture_logs() as logs:
            proxy._around.limits = msgspec.structs.replace(proxy._around.limits, idle_timeout=SHORT)

            assert await close_reason(client, logs) == "idle_timeout"


async def test_bytes_both_ways_are_counted(broker: FakeBroker, proxies: Proxies) -> None:
    """By side and by API; the log line has them too."""
    proxy = await proxies.start(broker)
    broker.reply = lambda head, frame: opaque_answer(head.correlation_id, b"\1") if head.api_key else None

    with capture_logs() as logs:
        async with Client(proxy.bootstrap_address) as client:
            await client.ask(opaque_request(1, api_key=12, body=bytes(100)))
            client.send(produce(2, acks=0))
            await client.ask(opaque_request(3, api_key=12))
            broker.reply = lambda head, frame: None
            client.send(opaque_request(4, api_key=12))
            await broker.until(lambda: len(broker.requests) == 4)
        await eventually(lambda: not proxy.connections)

    sent = len(broker.received)
    counters = proxy.meter.to_dict()["counters"]
    assert counters["received_bytes"] == {"client": sent, "broker": 18}
    assert counters["requests"] == {"Produce": 1, "Heartbeat": 2}
    assert counters["request_bytes"]["Heartbeat"] == 110 + 10
    assert counters["answer_bytes"] == {"Produce": 0, "Heartbeat": 10}
    assert counters["lost_requests"] == {"Heartbeat": 1}
    assert counters["broker_connects"] == {"connected": 1}
    assert (logs[-1]["client_bytes"], logs[-1]["broker_bytes"]) == (sent, 18)


async def test_some_chunks_are_timed(broker: FakeBroker, proxies: Proxies, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of both directions, although they alternate; and some answers."""
    monkeypatch.setattr("shareproxy.proxy.meter.SAMPLE_EVERY", 3)
    proxy = await proxies.start(broker)
    proxy.meter.until_sample = 3

    async with Client(proxy.bootstrap_address) as client:
        for number in range(24):
            await client.ask(opaque_request(number))
        await eventually(lambda: proxy.meter.apis[12][0] == 24)

    told = proxy.meter.to_dict()
    latency = told["histograms"]["added_latency_seconds"]
    assert sum(latency["to_broker"]["counts"]) == sum(latency["to_client"]["counts"]) == 8
    assert told["counters"]["timed_answers"] == {"Heartbeat": 8}
    assert told["counters"]["timed_answer_seconds"]["Heartbeat"] > 0


@pytest.mark.parametrize(("limit", "allowed"), [(1024, 412), (200, 25), (20, 1), (100_000, 5000)])
async def test_connections_fit_into_the_limit_of_open_files(
    broker: FakeBroker, proxies: Proxies, monkeypatch: pytest.MonkeyPatch, limit: int, allowed: int
) -> None:
    """An event loop that runs out of them closes clients without a word; so no more are wanted, and that is said."""
    monkeypatch.setattr("shareproxy.proxy.surroundings.count_open_files", lambda: (100, limit))

    with capture_logs() as logs:
        proxy = await proxies.start(broker, max_connections=5000)

    told = [line for line in logs if line["event"] == "open files limit connections"]
    assert proxy.meter.to_dict()["gauges"]["max_connections"] == {"": allowed}
    assert [(line["open_files"], line["wanted"], line["max_connections"]) for line in told] == (
        [(limit, 5000, allowed)] if allowed < 5000 else []
    )


@pytest.mark.parametrize(("wanted", "level"), [(5000, "warning"), (Limits().max_connections, "info")])
async def test_limit_that_nobody_asked_for_is_no_reason_to_warn(
    broker: FakeBroker, proxies: Proxies, monkeypatch: pytest.MonkeyPatch, wanted: int, level: str
) -> None:
    """Most machines allow fewer files than the default limit would need."""
    monkeypatch.setattr("shareproxy.proxy.surroundings.count_open_files", lambda: (100, 1024))

    with capture_logs() as logs:
        await proxies.start(broker, max_connections=wanted)

    assert [line["log_level"] for line in logs if line["event"] == "open files limit connections"] == [level]


async def test_client_refused_for_want_of_open_files_says_so(
    broker: FakeBroker, proxies: Proxies, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The setting alone would not help."""
    monkeypatch.setattr("shareproxy.proxy.surroundings.count_open_files", lambda: (30, 36))
    proxy = await proxies.start(broker)

    async with Client(proxy.bootstrap_address) as first:
        await first.ask(opaque_request(1))
        with capture_logs() as logs:
            async with Client(proxy.bootstrap_address) as second:
                assert await close_reason(second, logs) == "too_many_connections"

    assert "the limit of open files allows 1; raise it (ulimit -n" in logs[0]["detail"]


async def test_without_a_limit_of_open_files_the_setting_holds(
    broker: FakeBroker, proxies: Proxies, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On systems that do not tell."""
    monkeypatch.setattr("shareproxy.proxy.surroundings.count_open_files", lambda: None)
    proxy = await proxies.start(broker, max_connections=77)

    assert proxy.meter.to_dict()["gauges"]["max_connections"] == {"": 77}

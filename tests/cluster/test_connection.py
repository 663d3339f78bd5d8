"""One connection: order, deadlines, bad answers, and what a person is told."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator, Sequence

import pytest

from shareproxy.cluster.addresses import Address
from shareproxy.cluster.connection import Connection
from shareproxy.cluster.errors import (
    BadAnswer,
    BrokerError,
    ClusterError,
    ConnectionClosed,
    DeadlinePassed,
    Unreachable,
    UnsupportedApi,
)
from shareproxy.cluster.retries import Retry
from shareproxy.protocol.headers import encode_response, sized
from shareproxy.protocol.messages import (
    ApiVersionsRequest,
    ApiVersionsResponse,
    ApiVersionsResponseApiVersion,
    ListGroupsRequest,
    ListGroupsResponse,
    ListGroupsResponseListedGroup,
    MetadataRequest,
    MetadataResponse,
)
from tests.cluster.scripted_broker import (
    HANG_UP,
    SILENCE,
    Answer,
    ScriptedBroker,
    eventually,
    soon,
)


@pytest.fixture
async def broker() -> AsyncIterator[ScriptedBroker]:
    """A broker that answers ApiVersions."""
    async with ScriptedBroker() as started:
        yield started


@pytest.fixture
async def connection(broker: ScriptedBroker) -> AsyncIterator[Connection]:
    """An open connection to it."""
    opened = await Connection.open(broker.address, deadline=soon())
    yield opened
    await opened.close()


def groups(request: ListGroupsRequest) -> ListGroupsResponse:
    """Answer with the filter that was asked for, so that answers can be told apart."""
    return ListGroupsResponse(groups=[ListGroupsResponseListedGroup(state) for state in request.states_filter])


async def ask(connection: Connection, name: str, deadline: float | None = None) -> str:
    """Ask for something that `groups` answers with the same name."""
    message = ListGroupsRequest(states_filter=[name])
    answer = await connection.request(message, deadline=soon() if deadline is None else deadline)
    return answer.groups[0].group_id


async def test_answers_reach_those_who_asked(broker: ScriptedBroker, connection: Connection) -> None:
    """Many requests are under way at once; each caller gets its own answer."""
    go_on = asyncio.Event()

    async def wait_then_answer(request: ListGroupsRequest) -> Answer:
        await go_on.wait()
        return groups(request)

    broker.on(ListGroupsRequest, wait_then_answer)
    names = [f"n{number}" for number in range(50)]
    answers = asyncio.gather(*(ask(connection, name) for name in names))

    await eventually(lambda: broker.count(ListGroupsRequest) == 50)  # all came before the first answer left
    go_on.set()

    assert await answers == names


async def test_a_late_answer_is_swallowed(broker: ScriptedBroker, connection: Connection) -> None:
    """After a deadline passed the connection works on, and nobody gets the answer of another request."""
    go_on = asyncio.Event()

    async def wait_then_answer(request: ListGroupsRequest) -> Answer:
        await go_on.wait()
        return groups(request)

    broker.on(ListGroupsRequest, wait_then_answer)
    with pytest.raises(DeadlinePassed, match=rf"{broker.address} did not answer ListGroups in time"):
        await ask(connection, "late", soon(0.02))
    assert not connection.idle
    go_on.set()

    assert await ask(connection, "next") == "next"
    assert connection.idle


async def test_a_deadline_in_the_past_sends_nothing(broker: ScriptedBroker, connection: Connection) -> None:
    """There is no point in asking what nobody can wait for."""
    broker.on(ListGroupsRequest, groups)

    with pytest.raises(DeadlinePassed, match="no time was left"):
        await ask(connection, "never", soon(-1))

    assert await ask(connection, "next") == "next"
    assert broker.count(ListGroupsRequest) == 1


async def test_a_cancelled_request_leaves_the_connection_usable(broker: ScriptedBroker, connection: Connection) -> None:
    """Its answer is swallowed as a late one is."""
    go_on = asyncio.Event()

    async def wait_then_answer(request: ListGroupsRequest) -> Answer:
        await go_on.wait()
        return groups(request)

    broker.on(ListGroupsRequest, wait_then_answer)
    cancelled = asyncio.ensure_future(ask(connection, "cancelled"))
    await eventually(lambda: broker.count(ListGroupsRequest) == 1)
    cancelled.cancel()
    with pytest.raises(asyncio.CancelledError):
        await cancelled
    go_on.set()

    assert await ask(connection, "next") == "next"


async def test_a_stuck_request_that_nobody_waits_for_wears_the_connection_out(
    broker: ScriptedBroker, connection: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is sent behind it would wait for the broker to finish it."""
    monkeypatch.setattr("shareproxy.cluster.pipeline.STALL_SECONDS", 0.0)
    broker.on(ListGroupsRequest, lambda _: SILENCE)
    assert not connection.worn

    with pytest.raises(DeadlinePassed):
        await ask(connection, "stuck", soon(0.02))

    assert connection.worn


async def test_a_request_that_somebody_waits_for_does_not_wear_it_out(
    broker: ScriptedBroker, connection: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Slow is not stuck."""
    monkeypatch.setattr("shareproxy.cluster.pipeline.STALL_SECONDS", 0.0)
    broker.on(ListGroupsRequest, lambda _: SILENCE)
    waiting = asyncio.ensure_future(ask(connection, "slow"))
    await eventually(lambda: broker.count(ListGroupsRequest) == 1)

    assert not connection.worn

    waiting.cancel()


async def test_a_broker_that_never_answers_is_given_up_at_the_deadline() -> None:
    """It accepts and is silent, as a stopped process does."""
    async with ScriptedBroker() as broker:
        broker.on(ApiVersionsRequest, lambda _: SILENCE)

        with pytest.raises(DeadlinePassed, match="ApiVersions in time"):
            await Connection.open(broker.address, deadline=soon(0.05))


async def test_a_closed_connection_tells_everyone_who_waits(broker: ScriptedBroker, connection: Connection) -> None:
    """Each caller gets an error of its own with address and cause; later callers too."""
    broker.on(ListGroupsRequest, lambda _: HANG_UP)

    outcomes = await asyncio.gather(*(ask(connection, "x") for _ in range(3)), return_exceptions=True)

    assert all(isinstance(outcome, ConnectionClosed) for outcome in outcomes)
    assert len({id(outcome) for outcome in outcomes}) == 3
    assert f"{broker.address} closed the connection" in str(outcomes[0])
    assert connection.closed
    with pytest.raises(ConnectionClosed, match="closed the connection") as caught:
        await ask(connection, "later")
    assert caught.value.retry is Retry.HERE


async def test_a_listener_that_wants_a_login_is_guessed(broker: ScriptedBroker, connection: Connection) -> None:
    """Such a listener answers ApiVersions and hangs up at the first other request."""
    broker.on(ListGroupsRequest, lambda _: HANG_UP)

    with pytest.raises(ConnectionClosed, match=r"wants a login, set security.protocol=SASL_PLAINTEXT"):
        await ask(connection, "x")


async def test_a_working_connection_does_not_guess(broker: ScriptedBroker, connection: Connection) -> None:
    """After the first answer the listener is known to be the right one."""
    broker.on(ListGroupsRequest, groups)
    await ask(connection, "x")
    broker.on(ListGroupsRequest, lambda _: HANG_UP)

    with pytest.raises(ConnectionClosed) as caught:
        await ask(connection, "x")

    assert "login" not in str(caught.value)


async def test_a_listener_that_hangs_up_at_once_may_speak_tls() -> None:
    """Some TLS stacks close without an alert."""
    async with ScriptedBroker() as broker:
        broker.on(ApiVersionsRequest, lambda _: HANG_UP)

        with pytest.raises(ConnectionClosed, match=r"security\.protocol=SSL"):
            await Connection.open(broker.address, deadline=soon())


@pytest.mark.parametrize(
    ("answer", "sentence"),
    [
        (b"\x00\x00\x00\x00", "size 0 is not positive"),
        (b"\xff\xff\xff\xff", "size -1 is not positive"),
        (b"\x7f\xff\xff\xff", "over the limit"),
        (sized(b"\x00\x00"), "no room for a header"),
        (sized(b"\x00\x00\x00\x63"), "correlation id 99 where 1 was due"),
        (sized(b"\x00\x00\x00\x01\x00\xff\xff"), "ListGroups version 5 that cannot be read"),
        (sized(b"\x00\x00\x00\x01"), "cannot be read"),
        (sized(encode_response(ListGroupsResponse(), 5, 1) + b"!"), "cannot be read"),
    ],
)
async def test_a_garbage_answer_closes_the_connection(
    broker: ScriptedBroker, connection: Connection, answer: bytes, sentence: str
) -> None:
    """Whoever waits is told what came, and nobody else is served from that stream."""
    broker.on(ListGroupsRequest, lambda _: answer)

    with pytest.raises(BadAnswer, match=sentence) as caught:
        await ask(connection, "x")

    assert str(broker.address) in str(caught.value)
    assert caught.value.retry is Retry.FINAL
    assert connection.closed


@pytest.mark.parametrize(
    ("answer", "sentence"),
    [
        (bytes.fromhex("15030300020250"), "answered with TLS; set security.protocol=SSL"),
        (b"HTTP/1.1 400 Bad Request\r\n\r\n", "answered with HTTP"),
        (sized(b"\x00\x00\x00\x00\x00"), "ApiVersions version 4 that cannot be read"),
    ],
)
async def test_a_server_that_is_no_broker_is_recognized(answer: bytes, sentence: str) -> None:
    """The first bytes tell what it is."""
    async with ScriptedBroker() as broker:
        broker.on(ApiVersionsRequest, lambda _: answer)

        with pytest.raises(BadAnswer, match=sentence):
            await Connection.open(broker.address, deadline=soon())


async def test_an_answer_to_nothing_closes_the_connection(broker: ScriptedBroker, connection: Connection) -> None:
    """Two answers to one question: the stream cannot be trusted any more."""
    frame = sized(encode_response(ListGroupsResponse(), 5, 1))
    broker.on(ListGroupsRequest, lambda _: frame + frame)

    await connection.request(ListGroupsRequest(), deadline=soon())

    await eventually(lambda: connection.closed)
    with pytest.raises(BadAnswer, match="although nothing was asked"):
        await ask(connection, "x")


async def test_an_answer_cut_short_is_told(broker: ScriptedBroker, connection: Connection) -> None:
    """The broker hung up in the middle of a frame."""

    async def half(_: ListGroupsRequest) -> Answer:
        broker.on(ListGroupsRequest, lambda _: HANG_UP)
        return sized(encode_response(ListGroupsResponse(), 5, 1))[:7]

    broker.on(ListGroupsRequest, half)

    outcomes = await asyncio.gather(ask(connection, "x"), ask(connection, "y"), return_exceptions=True)

    assert all("closed the connection in the middle of an answer" in str(outcome) for outcome in outcomes)


async def test_an_answer_over_the_limit_closes_the_connection(broker: ScriptedBroker) -> None:
    """Nothing is allocated for it."""
    connection = await Connection.open(broker.address, deadline=soon(), max_answer_bytes=1_000)
    broker.on(ListGroupsRequest, lambda _: groups(ListGroupsRequest(states_filter=["x" * 2_000])))

    with pytest.raises(BadAnswer, match="over the limit of 1000"):
        await ask(connection, "x")


@pytest.mark.parametrize(("offered", "then"), [([(18, 0, 3)], [4, 3]), ([(18, 0, 0)], [4, 0]), ([], [4, 0])])
async def test_an_older_broker_is_asked_in_its_own_version(
    offered: Sequence[tuple[int, int, int]], then: list[int]
) -> None:
    """Error 35 comes with a version 0 body, and may say what the broker knows."""
    async with ScriptedBroker() as broker:

        def answer(_: ApiVersionsRequest) -> Answer:
            rows = [ApiVersionsResponseApiVersion(*row) for row in offered]
            if len(broker.received) == 1:
                return ApiVersionsResponse(35, rows)
            return ApiVersionsResponse(api_keys=[ApiVersionsResponseApiVersion(3, 0, 4)])

        broker.on(ApiVersionsRequest, answer)
        connection = await Connection.open(broker.address, deadline=soon())

        assert [received.head.api_version for received in broker.received] == then
        assert connection.version_of(MetadataRequest) == 4
        await connection.close()


async def test_a_fallback_that_fails_ends_at_version_0() -> None:
    """A broker that does not keep its own word is asked once more."""
    async with ScriptedBroker() as broker:
        broker.on(ApiVersionsRequest, lambda _: ApiVersionsResponse(35, [ApiVersionsResponseApiVersion(18, 0, 3)]))

        with pytest.raises(BrokerError, match="refused ApiVersions"):
            await Connection.open(broker.address, deadline=soon())

        assert [received.head.api_version for received in broker.received] == [4, 3, 0]


async def test_the_version_is_the_highest_that_both_sides_know(broker: ScriptedBroker) -> None:
    """Within the limits of the caller, and on the wire."""
    broker.offers[ListGroupsRequest.api_key] = (0, 4)
    broker.on(ListGroupsRequest, lambda _: ListGroupsResponse())
    connection = await Connection.open(broker.address, deadline=soon())

    await connection.request(ListGroupsRequest(), deadline=soon())
    await connection.request(ListGroupsRequest(), deadline=soon(), max_version=3)

    assert [received.head.api_version for received in broker.received[1:]] == [4, 3]
    await connection.close()


async def test_an_api_that_is_not_offered_is_named(broker: ScriptedBroker) -> None:
    """With what is needed and what there is."""
    broker.offers[MetadataRequest.api_key] = (0, 3)
    del broker.offers[ListGroupsRequest.api_key]
    connection = await Connection.open(broker.address, deadline=soon())

    with pytest.raises(UnsupportedApi, match=r"Metadata \(API 3\) versions 4–13 is needed.*offers versions 0–3"):
        connection.version_of(MetadataRequest, min_version=4)
    with pytest.raises(UnsupportedApi, match="does not offer it") as caught:
        await connection.request(ListGroupsRequest(), deadline=soon())
    assert (caught.value.api_key, caught.value.offered) == (16, None)
    with pytest.raises(UnsupportedApi, match="version 0 is needed"):
        connection.version_of(ListGroupsRequest, max_version=0)
    await connection.close()


async def test_a_refused_connection_says_so() -> None:
    """With host and port."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]

    with pytest.raises(Unreachable, match=rf"127\.0\.0\.1:{port}: connection refused"):
        await Connection.open(Address("127.0.0.1", port), deadline=soon())


async def test_a_name_that_does_not_exist_says_so() -> None:
    """`.invalid` never resolves (RFC 2606)."""
    with pytest.raises(Unreachable, match=r"broker\.invalid:1: the name"):
        await Connection.open(Address("broker.invalid", 1), deadline=soon())


async def test_all_addresses_of_a_name_are_tried(broker: ScriptedBroker, monkeypatch: pytest.MonkeyPatch) -> None:
    """The first one refuses, the second one answers; the name is resolved at each connect."""
    asked: list[str] = []

    async def resolve(host: str, port: int, **_: object) -> list[tuple[object, ...]]:
        asked.append(host)
        return [(2, 1, 6, "", ("127.0.0.2", port)), (2, 1, 6, "", ("127.0.0.1", port))]

    monkeypatch.setattr(asyncio.get_running_loop(), "getaddrinfo", resolve)
    address = Address("kafka.example", broker.address.port)

    for _ in range(2):
        connection = await Connection.open(address, deadline=soon())
        await connection.close()

    assert asked.count("kafka.example") == 2


async def test_a_cancelled_open_leaves_no_socket() -> None:
    """The broker sees the connection go."""
    gone = asyncio.Event()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while await reader.read(1_000):
            accepted.set()
        writer.close()
        gone.set()

    accepted = asyncio.Event()
    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    address = Address("127.0.0.1", server.sockets[0].getsockname()[1])
    opening = asyncio.ensure_future(Connection.open(address, deadline=soon()))
    await accepted.wait()

    opening.cancel()

    with pytest.raises(asyncio.CancelledError):
        await opening
    async with asyncio.timeout_at(soon()):
        await gone.wait()
    server.close()


@pytest.fixture
async def deaf_broker() -> AsyncIterator[Address]:
    """Something that answers ApiVersions and then reads no more."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(1_000)
        offered = [ApiVersionsResponseApiVersion(ListGroupsRequest.api_key, 0, 5)]
        writer.write(sized(encode_response(ApiVersionsResponse(api_keys=offered), 4, 0)))
        await ended.wait()
        writer.transport.abort()

    ended = asyncio.Event()
    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    yield Address("127.0.0.1", server.sockets[0].getsockname()[1])
    ended.set()
    server.close()
    await server.wait_closed()


# 30 MB, more than any socket buffer takes
BIG = ListGroupsRequest(states_filter=["x" * 30_000] * 1_000)


async def test_sending_waits_for_a_broker_that_does_not_read(deaf_broker: Address) -> None:
    """Whoever finds the buffers full keeps their own deadline, and the memory stays bounded."""
    connection = await Connection.open(deaf_broker, deadline=soon())
    first = asyncio.ensure_future(connection.request(BIG, deadline=soon()))
    await eventually(lambda: not connection.idle)

    outcomes = await asyncio.gather(
        *(connection.request(BIG, deadline=soon(0.5)) for _ in range(5)), return_exceptions=True
    )

    assert [type(outcome) for outcome in outcomes] == [DeadlinePassed] * 5
    assert connection.in_flight == 1  # the others were never written
    waiting = asyncio.ensure_future(connection.request(ListGroupsRequest(), deadline=soon()))
    first.cancel()
    await connection.close()
    with pytest.raises(ConnectionClosed, match="closed on this side"):
        await waiting


async def test_closing_does_not_wait_for_a_broker_that_does_not_read(
    deaf_broker: Address, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is still to be sent is dropped."""
    monkeypatch.setattr("shareproxy.cluster.pipeline.CLOSE_SECONDS", 0.02)
    connection = await Connection.open(deaf_broker, deadline=soon())
    first = asyncio.ensure_future(connection.request(BIG, deadline=soon()))
    await eventually(lambda: not connection.idle)

    await connection.close()

    assert connection.finished
    with pytest.raises(ConnectionClosed):
        await first


async def test_sending_goes_on_when_the_broker_reads_again(broker: ScriptedBroker, connection: Connection) -> None:
    """Requests larger than the buffers arrive whole."""
    broker.on(ListGroupsRequest, lambda request: ListGroupsResponse(len(request.states_filter)))

    answers = await asyncio.gather(*(connection.request(BIG, deadline=soon(60)) for _ in range(2)))

    assert [answer.throttle_time_ms for answer in answers] == [1_000, 1_000]


async def test_closing_tells_those_who_wait(broker: ScriptedBroker, connection: Connection) -> None:
    """It was this side that closed, and they learn that."""
    broker.on(ListGroupsRequest, lambda _: SILENCE)
    waiting = asyncio.ensure_future(ask(connection, "x"))
    await eventually(lambda: broker.count(ListGroupsRequest) == 1)

    await connection.close()

    with pytest.raises(ConnectionClosed, match="closed on this side"):
        await waiting
    assert connection.finished
    await connection.close()  # a second time does no harm


async def test_a_retired_connection_finishes_what_is_under_way(broker: ScriptedBroker, connection: Connection) -> None:
    """It takes no new requests and is gone after the last answer."""
    go_on = asyncio.Event()

    async def wait_then_answer(request: ListGroupsRequest) -> Answer:
        await go_on.wait()
        return groups(request)

    broker.on(ListGroupsRequest, wait_then_answer)
    waiting = asyncio.ensure_future(ask(connection, "x"))
    await eventually(lambda: broker.count(ListGroupsRequest) == 1)

    connection.retire()

    assert connection.closed
    go_on.set()
    assert await waiting == "x"
    await eventually(lambda: connection.finished)


async def test_a_retired_idle_connection_closes_at_once(connection: Connection) -> None:
    """Nobody waits for it."""
    connection.retire()

    await eventually(lambda: connection.finished)
    with pytest.raises(ConnectionClosed, match="was replaced"):
        await connection.request(MetadataRequest(), deadline=soon())


async def test_the_client_names_itself(broker: ScriptedBroker, connection: Connection) -> None:
    """Brokers count clients by software name and version (KIP-511)."""
    (message,) = broker.messages(ApiVersionsRequest)

    assert message.client_software_name == "shareproxy"
    assert message.client_software_version
    assert (message.cluster_id, message.node_id) == (None, -1)


async def test_correlation_ids_wrap_around(broker: ScriptedBroker, connection: Connection) -> None:
    """After 2³¹ - 1 comes 0; the field is signed."""
    broker.on(MetadataRequest, lambda _: MetadataResponse())
    connection._correlation_id = 0x7FFFFFFF

    await connection.request(MetadataRequest(), deadline=soon())
    await connection.request(MetadataRequest(), deadline=soon())

    assert [received.head.correlation_id for received in broker.received[1:]] == [0x7FFFFFFF, 0]


def test_every_error_is_one_family() -> None:
    """A caller needs one `except`, and `retry` tells what helps."""
    assert issubclass(BadAnswer, ConnectionClosed)
    assert issubclass(DeadlinePassed, Unreachable)
    assert issubclass(Unreachable, ClusterError)
    assert issubclass(ConnectionClosed, ClusterError)

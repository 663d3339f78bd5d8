"""The session: both ways together, in any order of chunks and local answers."""

from __future__ import annotations

import struct
from dataclasses import dataclass

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shareproxy.protocol.framing import MAX_REQUEST_BYTES, FrameReader
from shareproxy.protocol.messages import (
    ApiVersionsRequest,
    DescribeShareGroupOffsetsRequest,
    FindCoordinatorRequest,
    FindCoordinatorResponse,
    MetadataRequest,
)
from shareproxy.proxy.close import CloseReason
from shareproxy.proxy.exchange import MAX_IN_FLIGHT, BrokerVersions
from shareproxy.proxy.session import Session
from tests.proxy.frames import (
    answer,
    api_versions,
    metadata,
    opaque_answer,
    opaque_request,
    produce,
    request,
    sasl_handshake,
    share_offsets,
)


def to_proxy(node_id: int, host: str, port: int) -> tuple[str, int]:
    """Advertise everything at one host."""
    return "proxy.example", 19100 + node_id


def new_session(max_request_bytes: int = MAX_REQUEST_BYTES, max_in_flight: int = MAX_IN_FLIGHT) -> Session:
    """Return a session whose broker has DescribeShareGroupOffsets v0 only."""
    versions = BrokerVersions(0)
    return Session(to_proxy, versions=versions, max_request_bytes=max_request_bytes, max_in_flight=max_in_flight)


def taken(out: list[bytes]) -> bytes:
    """Take away what is to be sent."""
    data = b"".join(out)
    out.clear()
    return data


@dataclass(frozen=True)
class Turn:
    """A client's request, what the broker gets and answers, and what the client gets."""

    request: bytes
    forwarded: bytes
    answered: bytes | None
    delivered: bytes | None


def turns(correlation_id: int, kind: str, size: int) -> Turn:
    """Make one turn of a kind."""
    number = correlation_id
    filler = b"x" * size
    match kind:
        case "opaque":
            asked, reply = opaque_request(number, body=filler), opaque_answer(number, filler)
            return Turn(asked, asked, reply, reply)
        case "produce":
            asked, reply = produce(number, records=filler), opaque_answer(number, b"produced")
            return Turn(asked, asked, reply, reply)
        case "produce acks 0":
            asked = produce(number, acks=0, records=filler)
            return Turn(asked, asked, None, None)
        case "metadata":
            asked = request(MetadataRequest(), 12, number)
            hosts = [(1, "kafka-1" + "." * size, 9092), (2, "kafka-2", 9092)]
            seen = [(1, "proxy.example", 19101), (2, "proxy.example", 19102)]
            return Turn(asked, asked, answer(metadata(*hosts), 12, number), answer(metadata(*seen), 12, number))
        case "coordinator":
            asked = request(FindCoordinatorRequest(), 2, number)
            broker = FindCoordinatorResponse(node_id=1, host="kafka-1", port=9092)
            proxy = FindCoordinatorResponse(node_id=1, host="proxy.example", port=19101)
            return Turn(asked, asked, answer(broker, 2, number), answer(proxy, 2, number))
        case "versions":
            asked = request(ApiVersionsRequest(), 3, number)
            told, shown = api_versions((3, 0, 20), (90, 0, 0)), api_versions((3, 0, 13), (90, 0, 1))
            return Turn(asked, asked, answer(told, 3, number), answer(shown, 3, number))
        case "lag":
            asked = request(DescribeShareGroupOffsetsRequest(), 1, number)
            rows = answer(share_offsets((0, size, -1)), 0, number)
            return Turn(asked, asked[:6] + b"\0\0" + asked[8:], rows, worked_on(rows))
        case _:
            raise AssertionError(kind)


def worked_on(rows: bytes) -> bytes:
    """Return what the local step of these tests makes of an answer: the same, with a mark behind it."""
    frame = rows[4:] + b"step"
    return struct.pack(">i", len(frame)) + frame


KINDS = ("opaque", "produce", "produce acks 0", "metadata", "coordinator", "versions", "lag")


@settings(max_examples=300, deadline=None)
@given(
    script=st.lists(st.tuples(st.sampled_from(KINDS), st.integers(0, 60)), max_size=12),
    data=st.data(),
)
def test_every_answer_arrives_in_order(script: list[tuple[str, int]], data: st.DataObject) -> None:
    """Whatever the chunks and whenever the local steps end, the bytes are those of the simple model: one by one."""
    session = new_session()
    plan = [turns(number, kind, size) for number, (kind, size) in enumerate(script)]
    from_client = b"".join(turn.request for turn in plan)
    forwarded, delivered = b"", b""
    broker_frames = FrameReader(1_000_000)
    replies = [turn.answered for turn in plan]
    from_broker = b""
    seen_by_broker = 0
    while True:
        moves = []
        if from_client:
            moves.append("client")
        if from_broker:
            moves.append("broker")
        if session.step is not None:
            moves.append("step")
        if not moves:
            break
        move = data.draw(st.sampled_from(moves))
        size = data.draw(st.integers(1, 40) | st.just(1_000_000))
        if move == "client":
            session.receive_from_client(from_client[:size])
            from_client = from_client[size:]
        elif move == "broker":
            session.receive_from_broker(from_broker[:size])
            from_broker = from_broker[size:]
        elif session.step is not None:
            session.finish_step((session.step.frame, b"step"))
        new = taken(session.to_broker)
        forwarded += new
        for _ in broker_frames.feed(new) if new else ():
            from_broker += replies[seen_by_broker] or b""
            seen_by_broker += 1
        delivered += taken(session.to_client)

    assert session.close_reason is None, session.close_detail
    assert forwarded == b"".join(turn.forwarded for turn in plan)
    assert delivered == b"".join(turn.delivered or b"" for turn in plan)
    assert session.idle


@settings(max_examples=300, deadline=None)
@given(st.lists(st.binary(min_size=1, max_size=60), max_size=20), st.booleans())
def test_garbage_never_raises(chunks: list[bytes], from_broker: bool) -> None:
    """Any bytes either pass, wait, or close with one reason."""
    session = new_session(max_request_bytes=1_000)
    session.receive_from_client(opaque_request(1) + request(MetadataRequest(), 12, 2))
    for chunk in chunks:
        if from_broker:
            session.receive_from_broker(chunk)
        else:
            session.receive_from_client(chunk)

    assert session.close_reason is None or session.close_detail
    assert len(b"".join(session.to_broker)) <= sum(map(len, chunks)) + 200


def test_early_requests_wait_for_the_broker() -> None:
    """Requests may come before there is a broker; they leave in order."""
    session = new_session()

    session.receive_from_client(opaque_request(1))
    session.receive_from_client(opaque_request(2))

    assert taken(session.to_broker) == opaque_request(1) + opaque_request(2)


def test_session_is_idle_between_frames_only() -> None:
    """A request or answer in part, or an answer that is due, is in flight."""
    session = new_session()
    asked, answered = opaque_request(1), opaque_answer(1, b"abc")
    seen = [session.idle]
    for chunk in (asked[:5], asked[5:]):
        session.receive_from_client(chunk)
        seen.append(session.idle)
    for chunk in (answered[:9], answered[9:]):
        session.receive_from_broker(chunk)
        seen.append(session.idle)

    assert seen == [True, False, False, False, True]


def test_end_of_the_client_closes() -> None:
    """What came before is still for the broker."""
    session = new_session()
    session.receive_from_client(produce(acks=0))

    session.receive_client_end()

    assert session.close_reason is CloseReason.CLIENT_CLOSED
    assert taken(session.to_broker) == produce(acks=0)


def test_end_of_the_client_within_a_request_is_told() -> None:
    """The log says that a request was cut."""
    session = new_session()
    session.receive_from_client(opaque_request(body=b"1234")[:-1])

    session.receive_client_end()

    assert session.close_detail == "within a request"


def test_client_that_never_spoke_is_a_probe() -> None:
    """Health probes have a reason of their own."""
    session = new_session()

    session.receive_client_end()

    assert session.close_reason is CloseReason.NO_REQUEST


def test_end_of_the_broker_closes() -> None:
    """The log says how many answers were due."""
    session = new_session()
    session.receive_from_client(opaque_request(1) + opaque_request(2))

    session.receive_broker_end()

    assert (session.close_reason, session.close_detail) == (CloseReason.BROKER_CLOSED, "2 answers were due")


def test_end_of_the_broker_waits_for_the_step() -> None:
    """An answer that has come is still delivered, with those behind it."""
    session = new_session()
    session.receive_from_client(request(DescribeShareGroupOffsetsRequest(), 1, 1) + opaque_request(2))
    rows = answer(share_offsets((0, 1, -1)), 0, 1)
    session.receive_from_broker(rows + opaque_answer(2))

    session.receive_broker_end()
    assert session.close_reason is None
    assert session.broker_paused
    assert session.step is not None
    session.finish_step((session.step.frame, b"step"))

    assert taken(session.to_client) == worked_on(rows) + opaque_answer(2)
    assert session.close_reason is CloseReason.BROKER_CLOSED


def test_first_reason_stays() -> None:
    """One reason per connection."""
    session = new_session()

    session.receive_from_client(b"GET / HTTP/1.1")
    session.receive_client_end()
    session.receive_broker_end()
    session.close(CloseReason.STOPPED)

    assert session.close_reason is CloseReason.HTTP_REQUEST


def test_nothing_passes_after_the_close() -> None:
    """Bytes that come late are dropped."""
    session = new_session()
    session.receive_from_client(request(DescribeShareGroupOffsetsRequest(), 1, 1))
    session.receive_from_broker(answer(share_offsets((0, 1, -1)), 0, 1))
    session.close(CloseReason.STOPPED)
    session.to_broker.clear()

    session.receive_from_client(opaque_request())
    session.receive_from_broker(opaque_answer())
    session.finish_step((b"\0\0\0\1",))

    assert not session.to_broker
    assert not session.to_client


def test_answer_behind_a_step_that_is_wrong_closes() -> None:
    """What waited is checked like everything else."""
    session = new_session()
    session.receive_from_client(request(DescribeShareGroupOffsetsRequest(), 1, 1))
    session.receive_from_broker(answer(share_offsets((0, 1, -1)), 0, 1) + opaque_answer(9))
    assert session.step is not None

    session.finish_step((session.step.frame,))

    assert session.close_reason is CloseReason.UNEXPECTED_ANSWER


@pytest.mark.parametrize(("mechanism", "rounds"), [("PLAIN", 1), ("SCRAM-SHA-512", 2), ("OAUTHBEARER", 1)])
def test_raw_sasl_tokens_pass_in_lock_step(mechanism: str, rounds: int) -> None:
    """After SaslHandshake v0, tokens without headers take turns; then requests go on, even if all came at once."""
    session = new_session()
    token, reply = b"\0\0\0\5hello", b"\0\0\0\2ok"
    handshake = sasl_handshake(1, mechanism)

    session.receive_from_client(handshake + token * rounds + opaque_request(2))
    assert taken(session.to_broker) == handshake
    paused = [session.client_paused]
    session.receive_from_broker(opaque_answer(1, bytes(6)))
    for _ in range(rounds):
        assert taken(session.to_broker) == token
        paused.append(session.client_paused)
        session.receive_from_broker(reply)

    assert taken(session.to_broker) == opaque_request(2)
    assert [*paused, session.client_paused] == [True] * (rounds + 1) + [False]
    session.receive_from_broker(opaque_answer(2))
    assert taken(session.to_client) == opaque_answer(1, bytes(6)) + reply * rounds + opaque_answer(2)
    assert session.close_reason is None


def test_refused_handshake_leaves_requests() -> None:
    """Error 33 or 34: the connection stays as it was."""
    session = new_session()
    session.receive_from_client(sasl_handshake(1) + opaque_request(2))
    session.to_broker.clear()

    session.receive_from_broker(opaque_answer(1, struct.pack(">hi", 33, 0)))

    assert taken(session.to_broker) == opaque_request(2)
    assert session.close_reason is None


REFUSED = {
    "unknown version": opaque_request(9, api_key=3, version=99),
    "negative size": struct.pack(">i", -1) + bytes(20),
}


@pytest.mark.parametrize("refused", REFUSED.values(), ids=REFUSED)
def test_good_requests_before_a_refused_one_are_answered(refused: bytes) -> None:
    """As by a broker: what was done must not look as if it had failed."""
    session = new_session()

    session.receive_from_client(opaque_request(1) + opaque_request(2) + refused)
    assert taken(session.to_broker) == opaque_request(1) + opaque_request(2)
    assert session.client_paused
    session.receive_from_client(opaque_request(3))
    session.receive_from_broker(opaque_answer(1))
    session.receive_from_broker(opaque_answer(2))

    assert taken(session.to_client) == opaque_answer(1) + opaque_answer(2)
    assert session.close_reason in (CloseReason.UNSUPPORTED_VERSION, CloseReason.FRAME_SIZE)
    assert taken(session.to_broker) == b""


@pytest.mark.parametrize("ended_by", ["client", "broker"])
def test_refusal_is_the_reason_whoever_ends_first(ended_by: str) -> None:
    """Who does not get an answer any more was refused all the same."""
    session = new_session()
    session.receive_from_client(opaque_request(1) + REFUSED["unknown version"])

    if ended_by == "client":
        session.receive_client_end()
    else:
        session.receive_broker_end()

    assert session.close_reason is CloseReason.UNSUPPORTED_VERSION


@pytest.mark.parametrize("chunks", [1, 2])
def test_what_comes_behind_the_last_answer_before_a_refusal_changes_nothing(chunks: int) -> None:
    """Whether it comes with that answer or in a chunk of its own."""
    session = new_session()
    session.receive_from_client(opaque_request(1) + REFUSED["unknown version"])

    if chunks == 1:
        session.receive_from_broker(opaque_answer(1) + opaque_answer(2))
    else:
        session.receive_from_broker(opaque_answer(1))
        session.receive_from_broker(opaque_answer(2))

    assert taken(session.to_client) == opaque_answer(1)
    assert session.close_reason is CloseReason.UNSUPPORTED_VERSION


def test_answer_that_nobody_asked_for_is_the_reason_before_a_refusal() -> None:
    """As long as another one is due."""
    session = new_session()
    session.receive_from_client(opaque_request(1) + REFUSED["unknown version"])

    session.receive_from_broker(opaque_answer(2))

    assert session.close_reason is CloseReason.UNEXPECTED_ANSWER


def test_refusal_waits_for_the_lag_before_it() -> None:
    """A local step is an answer that is due."""
    session = new_session()
    session.receive_from_client(request(DescribeShareGroupOffsetsRequest(), 1) + REFUSED["negative size"])
    session.receive_from_broker(answer(share_offsets((0, 2, -1)), 0, 1))
    assert session.step is not None

    session.finish_step((session.step.frame,))

    assert session.close_reason is CloseReason.FRAME_SIZE
    assert taken(session.to_client)


def test_ends_tell_what_went_wrong_besides() -> None:
    """What was due, and the error of the socket."""
    session = new_session()
    session.receive_from_client(opaque_request(1))

    session.receive_broker_end("alert: certificate expired")

    assert session.close_detail == "1 answers were due; alert: certificate expired"


def test_chunks_that_only_pass_are_told_apart() -> None:
    """Whoever moves bytes has to look at nothing else then."""
    session = new_session()

    assert session.receive_from_client(opaque_request(1))
    assert session.receive_from_broker(opaque_answer(1))
    assert not session.receive_from_client(sasl_handshake(2, "PLAIN"))
    assert not session.receive_from_broker(answer_to_handshake(2))
    assert not new_session().receive_from_client(REFUSED["negative size"])


def test_one_chunk_cannot_pass_the_limit_of_requests_in_flight() -> None:
    """What is one too many waits for an answer, whatever came in the same piece."""
    session = new_session(max_in_flight=4)
    frames = [opaque_request(number) for number in range(10)]

    session.receive_from_client(b"".join(frames) + opaque_request(10)[:5])
    assert taken(session.to_broker) == b"".join(frames[:4])
    assert session.client_paused
    session.receive_from_client(opaque_request(10)[5:])  # as uvloop does, though it is told to pause
    assert taken(session.to_broker) == b""
    session.receive_from_broker(opaque_answer(0))

    assert taken(session.to_broker) == frames[4]
    assert len(session.outstanding) == 4
    for number in range(1, 11):
        session.receive_from_broker(opaque_answer(number))
    assert taken(session.to_broker) == b"".join(frames[5:]) + opaque_request(10)
    assert session.idle
    assert not session.client_paused


def test_request_without_an_answer_is_not_in_flight() -> None:
    """Nobody would ever make room again."""
    session = new_session(max_in_flight=2)
    frames = produce(1, acks=0) * 5 + opaque_request(2)

    session.receive_from_client(frames)

    assert taken(session.to_broker) == frames
    assert not session.client_paused


def test_large_request_at_the_limit_passes_to_its_end() -> None:
    """Only what follows it waits."""
    session = new_session(max_in_flight=1)
    frame = opaque_request(1, body=bytes(1000))

    session.receive_from_client(frame[:500])
    session.receive_from_client(frame[500:] + opaque_request(2))

    assert taken(session.to_broker) == frame


def test_what_waits_for_room_still_goes_out_when_the_client_ends() -> None:
    """It may be a Produce with acks 0, of which nobody would know that it is lost."""
    session = new_session(max_in_flight=1)
    frames = opaque_request(1) + opaque_request(2) + produce(3, acks=0)
    session.receive_from_client(frames)

    session.receive_client_end()

    assert taken(session.to_broker) == frames
    assert session.close_reason is CloseReason.CLIENT_CLOSED


def test_what_waits_for_room_goes_nowhere_after_the_close() -> None:
    """The broker has ended: whatever the client does then."""
    session = new_session(max_in_flight=1)
    session.receive_from_client(opaque_request(1) + opaque_request(2))
    session.receive_broker_end()
    taken(session.to_broker)

    session.receive_client_end()

    assert taken(session.to_broker) == b""


def test_garbage_that_waits_for_room_is_the_reason_of_the_end() -> None:
    """As if there had been room."""
    session = new_session(max_in_flight=1)
    session.receive_from_client(opaque_request(1) + REFUSED["negative size"])
    assert session.close_reason is None

    session.receive_client_end()

    assert session.close_reason is CloseReason.FRAME_SIZE


def answer_to_handshake(number: int) -> bytes:
    """Return an accepted SaslHandshake v0."""
    return opaque_answer(number, bytes(6))

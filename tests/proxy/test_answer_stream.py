"""The way from the broker to the client."""

import struct

import pytest

from shareproxy.protocol.headers import decode_response, encode_response
from shareproxy.protocol.messages import (
    FetchableTopicResponse,
    FetchResponse,
    FetchResponseNodeEndpoint,
    FetchResponsePartitionData,
)
from shareproxy.proxy.answer_stream import AnswerStream, LagStep
from shareproxy.proxy.close import CloseReason
from shareproxy.proxy.exchange import BrokerVersions, ClosingError, Exchange, LagAsked, Phase
from shareproxy.proxy.out_of_range import LocalTopic
from tests.proxy.frames import HEARTBEAT, answer, api_versions, metadata, opaque_answer, share_offsets

LIMIT = 100_000


class Line:
    """An answer stream, with the requests that were asked before."""

    def __init__(self, *asked: tuple[int, int], fills_lag: bool = True) -> None:
        self.exchange = Exchange(BrokerVersions(), fills_lag=fills_lag)
        for number, (api_key, version) in enumerate(asked):
            self.exchange.outstanding.append((8, api_key, version, number))
            if api_key == 90 and version in (0, 1) and fills_lag:
                self.exchange.lag_asked.append(LagAsked(0))
        self.out: list[bytes] = []
        self.stream = AnswerStream(self.exchange, self.out, lambda node_id, host, port: ("proxy", 1), LIMIT)

    def feed(self, *chunks: bytes) -> bytes:
        """Feed chunks and return everything for the client so far."""
        for chunk in chunks:
            self.stream.feed(chunk)
        return b"".join(self.out)

    def reason_for(self, *chunks: bytes) -> CloseReason:
        """Feed chunks that end in a refusal."""
        with pytest.raises(ClosingError) as refused:
            self.feed(*chunks)
        assert refused.value.detail
        return refused.value.reason


ASKED = ((HEARTBEAT, 4), (18, 4), (HEARTBEAT, 4), (3, 12), (12345, 6), (60, 99))
MIXED = (
    opaque_answer(0, b"heartbeat")
    + answer(api_versions((90, 0, 0)), 4, 1)
    + opaque_answer(2)
    + answer(metadata((1, "kafka", 9092)), 12, 3)
    + opaque_answer(4, b"unknown")
)
EXPECTED = (
    opaque_answer(0, b"heartbeat")
    + answer(api_versions((90, 0, 1)), 4, 1)
    + opaque_answer(2)
    + answer(metadata((1, "proxy", 1)), 12, 3)
    + opaque_answer(4, b"unknown")
)


def test_answers_pass_as_the_chunk_they_came_in() -> None:
    """Whole frames that need no edit leave as the very object that came."""
    line = Line((HEARTBEAT, 4), (1, 15), (90, 0))
    chunk = opaque_answer(0) + opaque_answer(1, b"fetched") + opaque_answer(2)

    line.feed(chunk)

    assert line.out[0] is chunk


@pytest.mark.parametrize("cut", range(len(MIXED)))
def test_answers_may_be_cut_anywhere(cut: int) -> None:
    """The same answers come out."""
    assert Line(*ASKED).feed(MIXED[:cut], MIXED[cut:]) == EXPECTED


def test_answers_may_come_byte_by_byte() -> None:
    """The slowest broker works."""
    line = Line(*ASKED)

    assert line.feed(*(bytes((byte,)) for byte in MIXED)) == EXPECTED
    assert not line.stream.within_answer


def test_inside_of_a_large_answer_passes_at_once() -> None:
    """A large fetch is never held."""
    line = Line((1, 15))
    frame = opaque_answer(0, bytes(LIMIT * 5))
    inside = frame[10:400_000]

    line.feed(frame[:10], inside)

    assert line.out[1] is inside
    assert line.stream.within_answer
    assert line.feed(frame[400_000:]) == frame


def large_fetch(*endpoints: FetchResponseNodeEndpoint, size: int = LIMIT * 5) -> bytes:
    """Return a Fetch answer that is not held, and perhaps with a hint."""
    partition = FetchResponsePartitionData(records=bytes(size))
    topic = FetchableTopicResponse(partitions=[partition])
    return answer(FetchResponse(responses=[topic], node_endpoints=list(endpoints)), 17, 0)


def test_large_fetch_passes_as_it_comes() -> None:
    """Its last bytes are looked at in passing; what follows is not held up."""
    line = Line((1, 17), (HEARTBEAT, 4))
    frame = large_fetch()
    inside = frame[10:400_000]

    line.feed(frame[:10], inside)

    assert line.out[-1] is inside
    assert line.stream.within_answer
    assert line.feed(frame[400_000:] + opaque_answer(1)) == frame + opaque_answer(1)
    assert not line.stream.within_answer


def test_hint_of_a_large_fetch_is_hidden() -> None:
    """The client asks for metadata instead; no address of a broker reaches it as one."""
    line = Line((1, 17))
    frame = large_fetch(FetchResponseNodeEndpoint(2, "kafka-2", 9092))

    passed = line.feed(*(frame[start : start + 65_536] for start in range(0, len(frame), 65_536)))

    _, message = decode_response(FetchResponse, 17, passed[4:])
    assert len(passed) == len(frame)
    assert message.node_endpoints == []


@pytest.mark.parametrize("cut", [0, 3, 9, 40])
def test_hint_of_a_small_fetch_is_rewritten(cut: int) -> None:
    """A client that asked the wrong broker goes to the right one through the proxy."""
    line = Line((1, 17), (HEARTBEAT, 4))
    frame = large_fetch(FetchResponseNodeEndpoint(2, "kafka-2", 9092), size=5)

    passed = line.feed(frame[:cut], frame[cut:] + opaque_answer(1))

    assert passed == large_fetch(FetchResponseNodeEndpoint(2, "proxy", 1), size=5) + opaque_answer(1)


def test_small_answers_without_a_hint_pass_as_the_chunk_they_came_in() -> None:
    """A look at their last bytes is enough."""
    line = Line((1, 17), (1, 17))
    one = answer(FetchResponse(responses=[FetchableTopicResponse(partitions=[FetchResponsePartitionData()])]), 17, 0)
    chunk = one + one[:4] + b"\0\0\0\1" + one[8:]

    line.feed(chunk)

    assert len(line.out) == 1
    assert line.out[0] is chunk


def test_damaged_large_fetch_closes() -> None:
    """An end that is not where it must be could hide an address."""
    line = Line((1, 17))

    assert line.reason_for(opaque_answer(0, bytes(16) + b"\xff" * LIMIT)) is CloseReason.MALFORMED_ANSWER


def test_what_the_broker_said_of_lag_is_noted() -> None:
    """Later requests, also on other connections to the broker, are asked in that version."""
    line = Line((18, 4))

    line.feed(answer(api_versions((90, 0, 0)), 4, 0))

    assert line.exchange.versions.lag_version == 0


def test_error_35_does_not_change_what_was_noted() -> None:
    """It lists one API only."""
    line = Line((18, 9))
    line.exchange.versions.lag_version = 1

    line.feed(answer(api_versions((18, 0, 4), error_code=35), 0, 0))

    assert line.exchange.versions.lag_version == 1


def test_step_holds_everything_behind_it() -> None:
    """No answer overtakes the one that is worked on."""
    line = Line((HEARTBEAT, 4), (90, 1), (HEARTBEAT, 4), (HEARTBEAT, 4))
    lag_answer = encode_response(share_offsets((0, 2, -1)), 0, 1)

    line.feed(opaque_answer(0) + struct.pack(">i", len(lag_answer)) + lag_answer + opaque_answer(2))
    line.feed(opaque_answer(3))

    assert b"".join(line.out) == opaque_answer(0)
    steps = [line.stream.step]
    line.stream.finish_step((b"\0\0\0\1", b"edited"))
    assert [*steps, line.stream.step] == [LagStep(lag_answer, 0), None]
    assert b"".join(line.out) == opaque_answer(0) + opaque_answer(1, b"edited") + opaque_answer(2) + opaque_answer(3)


def test_steps_follow_one_another() -> None:
    """The next answer that needs work becomes the next step, without another chunk."""
    line = Line((90, 1), (90, 1))

    line.feed(answer(share_offsets((0, 1, -1)), 0, 0) + answer(share_offsets((0, 2, -1)), 0, 1))
    first = line.stream.step
    line.stream.finish_step((b"\0\0\0\0",))
    second = line.stream.step
    line.stream.finish_step((b"\0\0\0\1",))

    assert first is not None
    assert second is not None
    assert (first.frame[:4], second.frame[:4]) == (b"\0\0\0\0", b"\0\0\0\1")
    assert b"".join(line.out) == opaque_answer(0) + opaque_answer(1)


@pytest.mark.parametrize("version", [0, 2])
def test_lag_answer_in_another_version_passes(version: int) -> None:
    """A client that asked in version 0 gets the broker's bytes."""
    line = Line((90, version))

    assert line.feed(opaque_answer(0, b"rows")) == opaque_answer(0, b"rows")
    assert line.stream.step is None


def test_version_0_answer_with_local_rows_becomes_a_step() -> None:
    """Rows that are answered here are missing in the broker's bytes."""
    line = Line((90, 0))
    local = ({"t": LocalTopic((7,), stands_in=False)},)
    line.exchange.lag_asked[0] = LagAsked(0, local)

    line.feed(opaque_answer(0, b"rows"))

    assert line.stream.step == LagStep(b"\0\0\0\0rows", 0, 0, local)


@pytest.mark.parametrize("version", [-1, 0, 2, 99])
def test_version_that_has_no_lag_is_never_mistaken(version: int) -> None:
    """What was noted for one request is not used up by another."""
    line = Line((90, version), (90, 1))

    line.feed(opaque_answer(0), opaque_answer(1, b"rows"))

    assert line.stream.step == LagStep(b"\0\0\0\1rows", 0)


def test_lag_answer_passes_where_nothing_fills_it() -> None:
    """Without something that works out lag, no step begins."""
    line = Line((90, 1), fills_lag=False)

    assert line.feed(opaque_answer(0, b"rows")) == opaque_answer(0, b"rows")


def test_crowd_is_over_when_half_of_it_is_answered() -> None:
    """The client is read again, whichever kind of answer comes last."""
    line = Line(*[(3, 12)] * 501)
    line.exchange.crowded = True

    line.feed(answer(metadata(), 12, 0))

    assert not line.exchange.crowded


@pytest.mark.parametrize("correlation_id", [1, -1, 7])
def test_answer_out_of_order_is_refused(correlation_id: int) -> None:
    """The answer due next has the oldest request's correlation id."""
    line = Line((HEARTBEAT, 4), (HEARTBEAT, 4))

    assert line.reason_for(opaque_answer(correlation_id)) is CloseReason.UNEXPECTED_ANSWER


def test_answer_without_a_request_is_refused() -> None:
    """Brokers never speak first."""
    assert Line().reason_for(opaque_answer(0)) is CloseReason.UNEXPECTED_ANSWER


@pytest.mark.parametrize("size", [3, 0, -1, -(2**31)])
def test_answer_of_impossible_size_is_refused(size: int) -> None:
    """An answer has at least its correlation id."""
    assert Line((HEARTBEAT, 4)).reason_for(struct.pack(">ii", size, 0)) is CloseReason.UNEXPECTED_ANSWER


def test_edited_answer_over_the_limit_is_refused() -> None:
    """What is held whole has a limit, checked before anything is held."""
    assert Line((3, 12)).reason_for(struct.pack(">ii", LIMIT + 1, 0)) is CloseReason.ANSWER_TOO_LARGE


@pytest.mark.parametrize(("api_key", "version"), [(3, 12), (10, 6), (60, 2), (18, 4)])
def test_damaged_edited_answer_is_refused(api_key: int, version: int) -> None:
    """It cannot be passed, as it could hold an address."""
    assert Line((api_key, version)).reason_for(opaque_answer(0, b"\x7f" * 9)) is CloseReason.MALFORMED_ANSWER


def test_handshake_decides_what_the_client_sends() -> None:
    """Error 0 begins the tokens, any other error leaves the connection as it was."""
    for error_code, phase in ((0, Phase.CLIENT_TOKEN), (33, Phase.REQUESTS)):
        line = Line((17, 0))
        line.exchange.expect_tokens("PLAIN")
        frame = opaque_answer(0, struct.pack(">hi", error_code, 0))

        assert line.feed(frame) == frame
        assert line.exchange.phase is phase


def test_brokers_token_passes_whole() -> None:
    """PLAIN ends with one empty token; then answers follow."""
    line = Line((17, 0), (HEARTBEAT, 4))
    line.exchange.expect_tokens("PLAIN")
    accepted = opaque_answer(0, bytes(6))
    line.feed(accepted)
    line.exchange.client_token_passed()

    assert line.feed(b"\0\0", b"\0\0" + opaque_answer(1)) == accepted + bytes(4) + opaque_answer(1)
    assert line.exchange.phase is Phase.REQUESTS


def test_handshake_of_version_1_passes_unread() -> None:
    """Nothing depends on its answer."""
    line = Line((17, 1))

    assert line.feed(opaque_answer(0, b"\0\0")) == opaque_answer(0, b"\0\0")
    assert line.exchange.phase is Phase.REQUESTS


@pytest.mark.parametrize(
    ("refused", "reason"),
    [
        (opaque_answer(7), CloseReason.UNEXPECTED_ANSWER),
        (struct.pack(">ii", LIMIT + 1, 1), CloseReason.ANSWER_TOO_LARGE),
    ],
)
def test_good_answers_before_a_refused_one_pass(refused: bytes, reason: CloseReason) -> None:
    """It does not matter whether they came in one chunk with it."""
    line = Line((HEARTBEAT, 4), (3, 12))

    assert line.reason_for(opaque_answer(0, b"good") + refused) is reason

    assert b"".join(line.out) == opaque_answer(0, b"good")


def test_good_answers_before_a_bad_one_pass() -> None:
    """It must not matter whether they come in one chunk or in several."""
    line = Line((HEARTBEAT, 4), (HEARTBEAT, 4))
    good = opaque_answer(0, b"good")

    assert line.reason_for(good + opaque_answer(77)) is CloseReason.UNEXPECTED_ANSWER
    assert b"".join(line.out) == good


def test_good_answers_before_one_that_is_too_large_pass() -> None:
    """The same for one that would have to be edited."""
    line = Line((HEARTBEAT, 4), (3, 12))
    good = opaque_answer(0, b"good")

    assert line.reason_for(good + struct.pack(">ii", LIMIT + 1, 1)) is CloseReason.ANSWER_TOO_LARGE
    assert b"".join(line.out) == good


def test_large_fetch_passes_as_the_chunks_it_came_in() -> None:
    """Also the chunk in which it begins, and the last one: without a hint nothing is copied."""
    line = Line((HEARTBEAT, 4), (1, 17))
    part = FetchResponsePartitionData(records=bytes(200_000))
    frame = answer(FetchResponse(responses=[FetchableTopicResponse(partitions=[part])]), 17, 1)
    first, second = opaque_answer(0) + frame[:90_000], frame[90_000:]

    line.feed(first, second)

    assert line.out[0] is first
    assert line.out[1] is second
    assert not line.stream.within_answer


def test_large_fetches_that_share_a_chunk_pass_uncopied() -> None:
    """With two in flight most chunks hold the end of one and the beginning of the next."""
    line = Line((1, 17), (1, 17), (HEARTBEAT, 4))
    part = FetchResponsePartitionData(records=bytes(200_000))
    message = FetchResponse(responses=[FetchableTopicResponse(partitions=[part])])
    frames = answer(message, 17, 0) + answer(message, 17, 1) + opaque_answer(2)
    first, second, third = frames[:150_000], frames[150_000:300_000], frames[300_000:]

    line.feed(first, second, third)

    assert [passed is chunk for passed, chunk in zip(line.out, (first, second, third), strict=True)] == [True] * 3
    assert not line.stream.within_answer


def test_hint_is_hidden_though_the_next_answer_is_in_its_chunk() -> None:
    """Before and behind it nothing changes."""
    line = Line((1, 17), (1, 17))
    endpoint = FetchResponseNodeEndpoint(node_id=1, host="broker", port=9092)
    frame, next_frame = large_fetch(endpoint), large_fetch()
    head = struct.pack(">i", 1)

    passed = line.feed(frame[:-30], frame[-30:] + next_frame[:4] + head + next_frame[8:])

    assert b"broker" in passed  # its tag has another number now
    assert passed[: len(frame)] != frame
    assert len(passed) == len(frame) + len(next_frame)
    assert passed[len(frame) :] == next_frame[:4] + head + next_frame[8:]

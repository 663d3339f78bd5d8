"""The way from the client to the broker."""

import struct

import pytest

from shareproxy.protocol.messages import (
    DescribeClusterRequest,
    DescribeShareGroupOffsetsRequest,
    FindCoordinatorRequest,
    MetadataRequest,
)
from shareproxy.proxy import request_stream
from shareproxy.proxy.close import CloseReason
from shareproxy.proxy.exchange import MAX_IN_FLIGHT, BrokerVersions, ClosingError, Exchange, LagAsked, Phase
from shareproxy.proxy.out_of_range import LocalTopic
from shareproxy.proxy.request_stream import MAX_HELD_BYTES, RequestStream
from shareproxy.proxy.requests import produce_is_answered
from tests.proxy.frames import opaque_request, produce, request, sasl_handshake, share_offsets_of

LIMIT = 1_000_000


class Line:
    """A request stream and what came out of it."""

    def __init__(self, lag_version: int | None = None, *, fills_lag: bool = True) -> None:
        self.exchange = Exchange(BrokerVersions(lag_version), fills_lag=fills_lag)
        self.out: list[bytes] = []
        self.stream = RequestStream(self.exchange, self.out, LIMIT)

    def feed(self, *chunks: bytes) -> bytes:
        """Feed chunks and return everything for the broker so far."""
        for chunk in chunks:
            self.stream.feed(chunk)
        return b"".join(self.out)

    @property
    def awaited(self) -> list[int]:
        """Correlation ids of the requests that will be answered."""
        return [head[3] for head in self.exchange.outstanding]


def reason_for(*chunks: bytes) -> tuple[CloseReason, bytes]:
    """Feed chunks that end in a refusal; return its reason and what went to the broker before."""
    line = Line()
    with pytest.raises(ClosingError) as refused:
        line.feed(*chunks)
    assert refused.value.detail
    return refused.value.reason, b"".join(line.out)


MIXED = (
    opaque_request(1)
    + produce(2, acks=0)
    + produce(3, acks=1, version=7, transactional_id="t")
    + request(MetadataRequest(), 12, 4)
    + opaque_request(5, api_key=999, version=7, body=b"trailing and unknown")
    + produce(6, acks=0, version=3)
    + request(FindCoordinatorRequest(), 3, 7)
)


def test_requests_pass_as_the_chunk_they_came_in() -> None:
    """Whole frames that need no edit leave as the very object that came."""
    line = Line()

    line.feed(MIXED)

    assert line.out[0] is MIXED
    assert line.awaited == [1, 3, 4, 5, 7]


@pytest.mark.parametrize("cut", range(1, len(MIXED)))
def test_requests_may_be_cut_anywhere(cut: int) -> None:
    """The same bytes pass, and the same answers are awaited."""
    line = Line()

    assert line.feed(MIXED[:cut], MIXED[cut:]) == MIXED
    assert line.awaited == [1, 3, 4, 5, 7]
    assert not line.stream.within_request


def test_requests_may_come_byte_by_byte() -> None:
    """The slowest client works."""
    line = Line()

    assert line.feed(*(bytes((byte,)) for byte in MIXED)) == MIXED
    assert line.awaited == [1, 3, 4, 5, 7]


def test_inside_of_a_large_request_passes_at_once() -> None:
    """Nothing of a large request is held once its first fields are known."""
    line = Line()
    frame = produce(1, records=bytes(500_000))
    inside = frame[100:400_000]

    line.feed(frame[:100], inside)

    assert line.out[1] is inside
    assert line.stream.within_request
    assert line.feed(frame[400_000:]) == frame
    assert not line.stream.within_request


def test_crowd_of_requests_asks_for_a_pause() -> None:
    """Too many unanswered requests stop the reading, not the connection."""
    line = Line()

    line.feed(opaque_request() * (MAX_IN_FLIGHT - 1))
    assert not line.exchange.crowded
    line.feed(opaque_request())

    assert line.exchange.crowded


@pytest.mark.parametrize("lag_version", [None, 1])
def test_lag_is_asked_for_in_the_clients_version(lag_version: int | None) -> None:
    """A broker that has v1, or that has not said, gets the client's own bytes."""
    line = Line(lag_version)
    frame = request(DescribeShareGroupOffsetsRequest(), 1)

    assert line.feed(frame) == frame
    assert list(line.exchange.lag_asked) == [LagAsked(1)]


def test_lag_is_asked_for_in_version_0_where_the_broker_has_no_other() -> None:
    """Only the version changes, in each of several requests."""
    line = Line(lag_version=0)
    frames = [request(DescribeShareGroupOffsetsRequest(), 1, number) for number in range(3)]

    sent = line.feed(opaque_request() + b"".join(frames) + opaque_request())

    expected = [frame[:6] + b"\0\0" + frame[8:] for frame in frames]
    assert sent == opaque_request() + b"".join(expected) + opaque_request()
    assert list(line.exchange.lag_asked) == [LagAsked(0)] * 3


@pytest.mark.parametrize("version", [0, 2])
def test_lag_request_in_another_version_passes(version: int) -> None:
    """Version 0 has no Lag; a version nobody knows is the broker's to refuse."""
    line = Line(lag_version=0)
    frame = opaque_request(api_key=90, version=version)

    assert line.feed(frame) == frame
    assert list(line.exchange.lag_asked) == [LagAsked(0)] * (version == 0)


NAMED = request(share_offsets_of({"t": [0, 7]}), 1, 5)


@pytest.mark.parametrize("cut", range(len(NAMED)))
def test_request_for_named_partitions_is_held(cut: int) -> None:
    """It is not known yet which of them exist; what comes behind it waits."""
    line = Line()

    assert line.feed(opaque_request(4) + NAMED[:cut], NAMED[cut:] + opaque_request(6)) == opaque_request(4)

    assert line.stream.lookup is not None
    assert line.stream.lookup.asked == {"t": {0, 7}}
    assert (line.exchange.phase, line.awaited) == (Phase.LOOKUP, [4])


def test_nothing_is_looked_up_for_a_client_that_has_not_authenticated() -> None:
    """Anybody who can connect could make the proxy ask otherwise; the broker refuses the request."""
    line = Line()
    line.exchange.authenticated = False

    assert line.feed(NAMED + opaque_request(6)) == NAMED + opaque_request(6)

    assert (line.stream.lookup, line.awaited) == (None, [5, 6])


def test_held_request_goes_on_as_it_is_if_all_exists() -> None:
    """Its bytes are the client's own, and what waited behind it follows."""
    line = Line()
    line.feed(NAMED + opaque_request(6))

    line.stream.finish_lookup({})

    assert b"".join(line.out) == NAMED + opaque_request(6)
    assert (line.exchange.phase, line.awaited, line.stream.lookup) == (Phase.REQUESTS, [5, 6], None)
    assert list(line.exchange.lag_asked) == [LagAsked(1)]


def test_held_request_goes_on_without_what_does_not_exist() -> None:
    """The rest is asked in the version that the broker has, and the missing rows are noted."""
    line = Line(lag_version=0)
    line.feed(NAMED)

    line.stream.finish_lookup({"t": {7}})

    assert b"".join(line.out) == request(share_offsets_of({"t": [0]}), 0, 5)
    assert list(line.exchange.lag_asked) == [LagAsked(0, ({"t": LocalTopic((7,), stands_in=False)},))]


def test_held_requests_follow_one_another() -> None:
    """The next one that names partitions is looked up in its turn."""
    line = Line()
    line.feed(NAMED + request(share_offsets_of({"u": [1]}), 1, 6))

    line.stream.finish_lookup({})

    assert line.stream.lookup is not None
    assert line.stream.lookup.asked == {"u": {1}}
    assert line.awaited == [5]


def test_request_too_large_to_hold_passes_unread() -> None:
    """A client cannot make the proxy keep much."""
    line = Line()
    frame = request(share_offsets_of({"t": list(range(70_000))}), 1, 5)

    assert line.feed(frame) == frame
    assert line.stream.lookup is None


def test_damaged_lag_request_passes() -> None:
    """The broker has its own way to refuse it."""
    line = Line()
    frame = opaque_request(api_key=90, version=1, body=b"\0\x7f")

    assert line.feed(frame) == frame


def test_lag_request_passes_where_nothing_fills_it() -> None:
    """Without something that works out lag nothing is changed."""
    line = Line(lag_version=0, fills_lag=False)
    frame = request(DescribeShareGroupOffsetsRequest(), 1)

    assert line.feed(frame) == frame
    assert not line.exchange.lag_asked


@pytest.mark.parametrize(
    ("first_bytes", "reason"),
    [
        (bytes.fromhex("16030102"), CloseReason.TLS_HELLO),
        (b"GET ", CloseReason.HTTP_REQUEST),
        (b"POST", CloseReason.HTTP_REQUEST),
        (b"\x7f\xff\xff\xff", CloseReason.FRAME_TOO_LARGE),
        (struct.pack(">i", LIMIT + 1), CloseReason.FRAME_TOO_LARGE),
        (b"\xff\xff\xff\xff", CloseReason.FRAME_SIZE),
        (b"\x80\x00\x00\x00", CloseReason.FRAME_SIZE),
        (b"\x00\x00\x00\x00", CloseReason.FRAME_SIZE),
        (struct.pack(">i", 7), CloseReason.MALFORMED_REQUEST),
    ],
)
@pytest.mark.parametrize("more", [b"", b"0123456789"])
def test_impossible_size_is_refused_at_its_fourth_byte(first_bytes: bytes, reason: CloseReason, more: bytes) -> None:
    """Good requests before it pass; nothing is waited for or allocated."""
    good = opaque_request()

    assert reason_for(good + first_bytes + more) == (reason, good)
    assert reason_for(good, first_bytes[:2], first_bytes[2:] + more) == (reason, good)


@pytest.mark.parametrize("message", [MetadataRequest, FindCoordinatorRequest, DescribeClusterRequest])
@pytest.mark.parametrize("step", [1, 100])
def test_version_that_was_not_offered_is_refused(
    message: type[MetadataRequest | FindCoordinatorRequest | DescribeClusterRequest], step: int
) -> None:
    """An answer in a newer version could hold addresses that nobody looks for."""
    version = message.max_version + step

    assert reason_for(opaque_request(api_key=message.api_key, version=version))[0] is CloseReason.UNSUPPORTED_VERSION


@pytest.mark.parametrize(("api_key", "version"), [(0, 14), (0, -1), (3, -1), (60, -7)])
def test_impossible_version_of_a_parsed_api_is_refused(api_key: int, version: int) -> None:
    """A Produce of unknown layout has no known acks; negative versions do not exist."""
    assert reason_for(opaque_request(api_key=api_key, version=version))[0] is CloseReason.UNSUPPORTED_VERSION


@pytest.mark.parametrize(("api_key", "version"), [(18, 6), (18, 127), (2, 99), (-5, 0), (32767, 32767), (2, -1)])
def test_unknown_apis_and_versions_pass(api_key: int, version: int) -> None:
    """What is only forwarded is the broker's to accept or refuse."""
    frame = opaque_request(api_key=api_key, version=version)

    assert Line().feed(frame) == frame


def test_produce_without_acks_is_refused() -> None:
    """If nobody can tell whether an answer comes, the order of answers is lost."""
    frame = struct.pack(">ihhih", 10, 0, 9, 1, -1)

    assert reason_for(frame) == (CloseReason.MALFORMED_REQUEST, b"")


def test_endless_first_fields_are_refused() -> None:
    """What is held while acks is missing is bounded."""
    tags = b"\x01\x00" + b"\xff\xff\x3f"  # one tag of a megabyte
    frame = struct.pack(">ihhih", LIMIT, 0, 9, 1, -1) + tags

    chunks = [frame, *([bytes(65_536)] * (MAX_HELD_BYTES // 65_536))]

    assert reason_for(*chunks) == (CloseReason.MALFORMED_REQUEST, b"")


def test_handshake_of_version_0_holds_what_follows() -> None:
    """Only its answer says whether a token or a request comes next."""
    line = Line()
    handshake = sasl_handshake(1)

    assert line.feed(handshake + b"rest") == handshake
    assert line.exchange.phase is Phase.HANDSHAKE
    assert line.feed(b"more") == handshake
    assert not line.stream.waiting

    line.exchange.handshake_answered(accepted=False)
    assert line.stream.waiting


def test_handshake_of_version_0_may_be_cut_anywhere() -> None:
    """It is looked at when it is whole."""
    handshake = sasl_handshake(1)

    for cut in range(1, len(handshake)):
        line = Line()
        assert line.feed(handshake[:cut], handshake[cut:]) == handshake
        assert line.exchange.phase is Phase.HANDSHAKE


def test_handshake_of_version_1_is_an_ordinary_request() -> None:
    """From version 1 on, tokens travel in SaslAuthenticate requests."""
    line = Line()

    line.feed(sasl_handshake(1, "GSSAPI", version=1))

    assert line.exchange.phase is Phase.REQUESTS
    assert line.awaited == [1]


def test_handshake_of_version_0_with_endless_tokens_ends_when_it_is_accepted() -> None:
    """GSSAPI tokens have no known number; a broker that does not have the mechanism says so and goes on."""
    line = Line()
    line.feed(sasl_handshake(1, "GSSAPI"))
    line.exchange.handshake_answered(accepted=False)
    assert line.exchange.phase is Phase.REQUESTS

    line.feed(sasl_handshake(2, "GSSAPI"))
    with pytest.raises(ClosingError) as refused:
        line.exchange.handshake_answered(accepted=True)

    assert refused.value.reason is CloseReason.UNSUPPORTED_SASL


def test_first_fields_that_come_bit_by_bit_are_seldom_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever sends many header tags one byte at a time must not have them walked again and again."""
    looks: list[int] = []

    def look(data: bytes, start: int, size: int, version: int) -> bool | None:
        looks.append(len(data))
        return produce_is_answered(data, start, size, version)

    monkeypatch.setattr(request_stream, "produce_is_answered", look)
    tags = b"\x88\x27" + b"\5\0" * 5_000
    head = struct.pack(">hhih", 0, 9, 1, -1) + tags + struct.pack(">bh", 0, 1)
    frame = struct.pack(">i", len(head)) + head
    line = Line()

    for position in range(len(frame)):
        line.feed(frame[position : position + 1])

    assert line.awaited == [1]
    assert b"".join(line.out) == frame
    assert len(looks) < 20


def test_more_tags_than_kafka_accepts_are_refused() -> None:
    """A count alone must not promise work."""
    head = struct.pack(">hhih", 0, 9, 1, -1) + b"\xe0\xc5\x08" + b"\5\0" * 100
    assert reason_for(struct.pack(">i", 300_000) + head)[0] is CloseReason.MALFORMED_REQUEST


@pytest.mark.parametrize("api_key", [78, 79])
def test_preview_of_the_share_apis_is_refused(api_key: int) -> None:
    """Version 0 ends with addresses in a layout of its own, and no release offers it."""
    assert reason_for(opaque_request(1, api_key=api_key, version=0))[0] is CloseReason.UNSUPPORTED_VERSION


def test_handshake_without_mechanism_is_refused() -> None:
    """A damaged handshake leaves the next bytes without a meaning."""
    assert reason_for(struct.pack(">ihhih", 10, 17, 0, 1, -1))[0] is CloseReason.MALFORMED_REQUEST


def test_token_passes_whole_and_what_follows_waits() -> None:
    """Tokens and the broker's tokens take turns; a token may be empty."""
    line = Line()
    line.feed(sasl_handshake(1, "SCRAM-SHA-256"))
    line.exchange.handshake_answered(accepted=True)
    line.out.clear()

    assert line.feed(b"\0\0\0", b"\3ab") == b""
    assert line.feed(b"c" + b"\0\0") == b"\0\0\0\3abc"
    assert line.exchange.phase is Phase.BROKER_TOKEN
    line.exchange.broker_token_passed()
    assert line.feed(b"\0\0") == b"\0\0\0\3abc" + b"\0\0\0\0"


@pytest.mark.parametrize(("size", "reason"), [(-1, CloseReason.FRAME_SIZE), (524_289, CloseReason.FRAME_TOO_LARGE)])
def test_token_of_impossible_size_is_refused(size: int, reason: CloseReason) -> None:
    """Tokens are held whole, so they have Kafka's limit."""
    line = Line()
    line.feed(sasl_handshake(1))
    line.exchange.handshake_answered(accepted=True)

    with pytest.raises(ClosingError) as refused:
        line.feed(struct.pack(">i", size))

    assert refused.value.reason is reason

"""Reading acks and the SASL mechanism."""

import struct

import pytest

from shareproxy.protocol.errors import DecodeError
from shareproxy.proxy.requests import produce_is_answered, sasl_mechanism
from tests.proxy.frames import produce, sasl_handshake

LONG = "x" * 300  # its compact length takes two bytes


def size_of(frame: bytes | bytearray) -> int:
    """Read the size prefix."""
    return int.from_bytes(frame[:4])


@pytest.mark.parametrize("acks", [0, 1, -1])
@pytest.mark.parametrize("version", range(3, 14))
@pytest.mark.parametrize("client_id", [None, "", "client", LONG])
@pytest.mark.parametrize("transactional_id", [None, "", "transaction", LONG])
def test_acks_are_found(acks: int, version: int, client_id: str | None, transactional_id: str | None) -> None:
    """Only acks 0 means no answer, whatever ids stand before it."""
    frame = produce(acks=acks, version=version, client_id=client_id, transactional_id=transactional_id)

    assert produce_is_answered(frame, 0, size_of(frame), version) is (acks != 0)


@pytest.mark.parametrize("version", [0, 1, 2])
def test_acks_stand_first_before_transactions(version: int) -> None:
    """Versions 0 to 2 have no transactional id."""
    frame = produce(acks=0, version=version)

    assert produce_is_answered(frame, 0, size_of(frame), version) is False


@pytest.mark.parametrize("length", [-2, -32768])
def test_any_negative_client_id_length_is_null(length: int) -> None:
    """Brokers read every negative length as null."""
    frame = bytearray(produce(acks=0, client_id=None))
    frame[12:14] = struct.pack(">h", length)

    assert produce_is_answered(bytes(frame), 0, size_of(frame), 9) is False


def test_header_tags_are_stepped_over() -> None:
    """Unknown tagged fields in the header move acks back."""
    tags = b"\x02" + b"\x00\x03abc" + b"\x81\x01\x80\x01" + bytes(128)
    frame = produce(acks=0, tags=tags)

    assert produce_is_answered(frame, 0, size_of(frame), 9) is False


@pytest.mark.parametrize(("version", "transactional_id"), [(8, "tx"), (9, None), (13, LONG)])
def test_acks_are_not_guessed_before_they_are_there(version: int, transactional_id: str | None) -> None:
    """Cut anywhere before the end of acks, the answer is None."""
    frame = produce(acks=0, version=version, transactional_id=transactional_id, records=b"")
    end_of_acks = len(frame) - 4

    for cut in range(12, end_of_acks):
        assert produce_is_answered(frame[:cut], 0, size_of(frame), version) is None, cut
    assert produce_is_answered(frame[:end_of_acks], 0, size_of(frame), version) is False


def test_acks_are_read_behind_other_bytes() -> None:
    """The request may stand anywhere in the chunk."""
    frame = produce(acks=0)

    assert produce_is_answered(b"12345" + frame + frame, 5, size_of(frame), 9) is False


@pytest.mark.parametrize("size", range(8, 18))
def test_request_that_ends_before_acks_is_refused(size: int) -> None:
    """The next request's bytes are never taken for acks."""
    frame = struct.pack(">i", size) + produce(client_id="client")[4:]

    with pytest.raises(DecodeError, match="ends before acks"):
        produce_is_answered(frame[: 4 + size], 0, size, 9)
    with pytest.raises(DecodeError, match="ends before acks"):
        produce_is_answered(frame + bytes(40), 0, size, 9)


def test_endless_varint_is_refused() -> None:
    """A sixth byte of a varint does not exist."""
    frame = produce(tags=b"\xff\xff\xff\xff\xff\xff\x01")

    with pytest.raises(DecodeError, match="longer than 5 bytes"):
        produce_is_answered(frame, 0, size_of(frame), 9)


def test_mechanism_is_found() -> None:
    """The mechanism is the only field of the handshake."""
    frame = sasl_handshake(mechanism="SCRAM-SHA-256")

    assert sasl_mechanism(b"ab" + frame, 2, size_of(frame)) == "SCRAM-SHA-256"


def test_mechanism_waits_for_the_whole_request() -> None:
    """A handshake that has not come whole is not read."""
    frame = sasl_handshake()

    assert all(sasl_mechanism(frame[:cut], 0, size_of(frame)) is None for cut in range(12, len(frame)))


@pytest.mark.parametrize("tail", [b"", b"\0", b"\xff\xff", b"\0\x09PLAIN"])
def test_handshake_without_mechanism_is_refused(tail: bytes) -> None:
    """Missing, null or cut: none of them is a mechanism."""
    frame = struct.pack(">ihhih", 10 + len(tail), 17, 0, 1, -1) + tail

    with pytest.raises(DecodeError, match="mechanism"):
        sasl_mechanism(frame, 0, size_of(frame))

"""Headers of record batches."""

from __future__ import annotations

import itertools
import struct
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shareproxy.lag.records import ABORT, COMMIT, record_batches
from shareproxy.protocol.errors import DecodeError
from tests.lag.logs import APPEND_TIME, HORIZON, TRANSACTIONAL, batch, marker


def test_batches_follow_each_other() -> None:
    """Offsets, counts and producers come from the headers."""
    first, second = record_batches(batch(5, 3) + batch(9, 2, producer_id=7, attributes=TRANSACTIONAL))

    assert (first.base_offset, first.last_offset, first.records, first.dense) == (5, 7, 3, True)
    assert (first.transactional, first.control, first.marker, first.producer_id) == (False, False, None, -1)
    assert (second.base_offset, second.last_offset, second.producer_id, second.transactional) == (9, 10, 7, True)


@pytest.mark.parametrize("data", [None, b""])
def test_nothing_is_no_batch(data: bytes | None) -> None:
    """A broker may send null or no bytes."""
    assert record_batches(data) == []


@pytest.mark.parametrize("commit", [True, False])
def test_markers_tell_how_a_transaction_ended(commit: bool) -> None:
    """The control record's key has the type."""
    [found] = record_batches(marker(12, 7, commit=commit))

    assert (found.control, found.marker, found.producer_id) == (True, COMMIT if commit else ABORT, 7)


def test_compacted_batch_keeps_its_span() -> None:
    """Fewer records than offsets, even none."""
    some, none = record_batches(batch(0, 2, span=10) + batch(10, 0, span=5))

    assert (some.last_offset, some.records, some.dense) == (9, 2, False)
    assert (none.last_offset, none.records, none.dense) == (14, 0, False)


@pytest.mark.parametrize(
    ("attributes", "timestamp"),
    [(0, 1_000), (APPEND_TIME, 2_000), (HORIZON, 2_000)],
    ids=["create", "append", "horizon"],
)
def test_time_of_the_first_record(attributes: int, timestamp: int) -> None:
    """Where the first timestamp stands for something else, the newest is the best there is."""
    [found] = record_batches(batch(0, 3, attributes=attributes))

    assert found.timestamp == timestamp


def test_batch_without_a_time() -> None:
    """-1 on the wire is none."""
    [found] = record_batches(batch(0, first_time=-1, newest_time=-1))

    assert found.timestamp is None


def test_last_batch_may_be_cut_off() -> None:
    """At every byte: only whole batches count."""
    whole, cut = batch(0, 2), batch(2, 2)
    for size in range(len(cut)):
        assert [found.base_offset for found in record_batches(whole + cut[:size])] == [0]


def test_old_messages() -> None:
    """Formats 0 and 1: a compressed message stands for an unknown number."""
    plain = struct.pack(">qiIbbq", 3, 14, 0, 1, 0, 77) + b""
    packed = struct.pack(">qiIbb", 9, 6, 0, 0, 1)

    one, other = record_batches(plain + packed)

    assert (one.base_offset, one.records, one.timestamp) == (3, 1, 77)
    assert (other.base_offset, other.records, other.timestamp) == (9, None, None)


@pytest.mark.parametrize(
    "damaged",
    [
        struct.pack(">qi", 0, 3) + bytes(60),  # shorter than any batch
        struct.pack(">qi", -1, 60) + bytes(80),
        batch(0)[:16] + b"\x03" + batch(0)[17:],  # a format of the future
        struct.pack(">qiib", 0, 20, 0, 2) + bytes(40),  # shorter than a header
        batch(0, 5, span=3),  # more records than offsets
        batch(5) + batch(5),  # an offset twice
        batch(0, attributes=TRANSACTIONAL | 0x20, body=b"\x0c\0\0\0\x02"),  # marker without a key
        batch(0, attributes=TRANSACTIONAL | 0x20, body=b"\xff" * 5),
        batch(0, attributes=TRANSACTIONAL | 0x20, body=b""),
    ],
)
def test_damage_is_one_error(damaged: bytes) -> None:
    """Never another exception."""
    with pytest.raises(DecodeError, match="record"):
        record_batches(damaged)


@given(st.binary(max_size=300))
def test_any_bytes(data: bytes) -> None:
    """Batches, or a `DecodeError`."""
    try:
        found = record_batches(data)
    except DecodeError:
        return
    assert all(one.last_offset < other.base_offset for one, other in itertools.pairwise(found))


@given(st.data())
def test_any_byte_changed(data: st.DataObject) -> None:
    """A damaged header is noticed, or read as another header; nothing else happens."""
    raw = bytearray(batch(0, 3) + marker(3, 7, commit=True) + batch(4, 1))
    at = data.draw(st.integers(0, len(raw) - 1))
    raw[at] = data.draw(st.integers(0, 255))
    with suppress(DecodeError):
        record_batches(bytes(raw))

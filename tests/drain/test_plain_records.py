"""The plain parser: it agrees with the compiled one about all that is whole, and damage raises `DecodeError` only."""

from __future__ import annotations

import struct
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shareproxy.drain.plain_records import PlainBatch, PlainRecords, crc32c
from shareproxy.drain.record_data import PARSER, decode_acquired
from shareproxy.protocol.errors import DecodeError
from tests.drain import batches
from tests.drain.batches import Content, batch, marker

blobs = st.none() | st.binary(max_size=60)
contents = st.builds(
    Content,
    value=blobs | st.binary(min_size=200, max_size=400),
    key=blobs,
    headers=st.lists(st.tuples(st.text(max_size=8), blobs), max_size=3).map(tuple),
    timestamp=st.integers(0, 2**50),
)


def read(data: bytes) -> list[tuple[Any, ...]]:
    """Return all that the plain parser finds."""
    parser = PlainRecords(data)
    found = []
    while (one := parser.next_batch()) is not None:
        assert one.validate_crc()
        found += [(one.base_offset, one.next_offset, one.is_control_batch, one.is_transactional, *row) for row in one]
    return found


def read_compiled(data: bytes) -> list[tuple[Any, ...]]:
    """Return the same as aiokafka sees it."""
    parser: Any = PARSER(data)
    found = []
    while parser.has_next():
        one = parser.next_batch()
        assert one.validate_crc()
        found += [
            (
                *(one.base_offset, one.next_offset, one.is_control_batch, one.is_transactional),
                *(row.offset, row.timestamp, row.key, row.value, row.headers),
            )
            for row in one
        ]
    return found


@given(st.lists(contents, min_size=1, max_size=6), st.sampled_from(batches.CODECS), st.integers(0, 2**40))
@settings(max_examples=60, deadline=None)
def test_both_parsers_agree(made: list[Content], codec: int, base: int) -> None:
    """Whatever is in the records, both parsers tell the same."""
    data = batch(base, made, codec=codec) + marker(base + len(made)) + batch(base + len(made) + 1, 2)

    assert read(data) == read_compiled(data)


@pytest.mark.parametrize("attributes", [0, batches.LOG_APPEND_TIME, batches.TRANSACTIONAL])
@pytest.mark.parametrize("codec", batches.CODECS)
def test_both_agree_on_attributes(codec: int, attributes: int) -> None:
    """Attributes mean the same to both."""
    data = batch(
        9, [Content(timestamp=batches.TIME + number) for number in range(5)], codec=codec, attributes=attributes
    )

    assert read(data) == read_compiled(data)


def test_raw_snappy() -> None:
    """Snappy without Java's frame around it, as librdkafka writes it."""
    import cramjam

    plain = batch(0, [Content(b"x" * 500), Content(b"y" * 500)])
    head = bytearray(plain[: batches.HEADER])
    struct.pack_into(">h", head, batches.ATTRIBUTES_AT, batches.SNAPPY)
    data = batches.with_crc(bytes(head) + bytes(cramjam.snappy.compress_raw(plain[batches.HEADER :])))

    assert [row[-2] for row in read(data)] == [b"x" * 500, b"y" * 500]
    assert read(data) == read_compiled(data)


@given(st.data())
@settings(max_examples=60, deadline=None)
def test_damage_raises_decode_errors_only(data: st.DataObject) -> None:
    """Bytes changed, cut or added anywhere: records, or a `DecodeError`, and nothing else."""
    whole = batch(100, data.draw(st.lists(contents, max_size=4)), codec=data.draw(st.sampled_from(batches.CODECS)))
    broken = bytearray(whole)
    for _ in range(data.draw(st.integers(1, 4))):
        broken[data.draw(st.integers(0, len(broken) - 1))] = data.draw(st.integers(0, 255))
    cut = bytes(broken[: data.draw(st.integers(0, len(broken)))])
    with suppress(DecodeError):
        parser = PlainRecords(cut)
        while (one := parser.next_batch()) is not None:
            one.validate_crc()
            assert len(list(one)) <= len(cut) * 1000


@given(st.data())
@settings(max_examples=60, deadline=None)
def test_decoding_damage_accounts_for_every_offset(data: st.DataObject) -> None:
    """However the bytes are damaged, each acquired offset has one fate, and no record is made up."""
    whole = b"".join(
        batch(
            base,
            data.draw(st.lists(contents, min_size=3, max_size=3)),
            codec=data.draw(st.sampled_from(batches.CODECS)),
        )
        for base in (10, 13, 16)
    )
    broken = bytearray(whole)
    for _ in range(data.draw(st.integers(0, 3))):
        broken[data.draw(st.integers(0, len(broken) - 1))] = data.draw(st.integers(0, 255))
    sent = bytes(broken[: data.draw(st.integers(0, len(broken)))]) if data.draw(st.booleans()) else bytes(broken)
    lot: Any = None

    decoded = decode_acquired(sent, [(10, 14, 1), (16, 18, 2)], topic="t", partition=0, lot=lot)

    fates = [record.offset for record in decoded.records]
    ranges = [*decoded.gaps, *decoded.unread, *(each for damage in decoded.damaged for each in damage.ranges)]
    fates += [offset for each in ranges for offset in range(each.first, each.last + 1)]
    assert sorted(fates) == [10, 11, 12, 13, 14, 16, 17, 18]


@given(st.binary(max_size=200))
@settings(max_examples=100, deadline=None)
def test_any_bytes(sent: bytes) -> None:
    """Bytes that never were a batch raise `DecodeError`, or are too few."""
    with suppress(DecodeError):
        parser = PlainRecords(sent)
        while (one := parser.next_batch()) is not None:
            assert len(list(one)) <= len(sent)


@pytest.mark.parametrize("size", range(0, 75, 5))
def test_cut_off_batch_is_left_out(size: int) -> None:
    """The last batch may be cut off anywhere."""
    data = batch(0, 1)
    parser = PlainRecords(data + batch(1, 1)[:size])

    assert [parser.next_batch() is not None, parser.has_next(), parser.next_batch()] == [True, False, None]


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        (lambda data: data[:16] + b"\x01" + data[17:], "message format 1 is not read here"),
        (lambda data: data[:57] + struct.pack(">i", 99) + data[61:], "99 records do not fit"),
        (lambda data: data[:57] + struct.pack(">i", -1) + data[61:], "-1 records do not fit"),
        (lambda data: data[:57] + struct.pack(">i", 2) + data[61:], "is cut off"),
        (lambda data: data + b"\0", "1 bytes are left behind the last record"),
        (lambda data: data[:21] + struct.pack(">h", 5) + data[23:], "there is no compression 5"),
        (lambda data: data[:21] + struct.pack(">h", 1) + data[23:], "cannot be decompressed"),
        (lambda data: data[:40], "shorter than its header"),
    ],
)
def test_problem_is_named(change: Any, problem: str) -> None:
    """What is wrong is told in words."""
    with pytest.raises(DecodeError, match=problem):
        list(PlainBatch(change(batch(0, [Content(b"v" * 20)]))))


def test_checksum_of_the_standard() -> None:
    """The nine digits have the checksum that RFC 3720 and every catalogue give for CRC-32C."""
    assert crc32c(b"123456789") == 0xE3069283

"""What became of each acquired offset, for every form that the records of a ShareFetch answer have."""

from __future__ import annotations

import gc
import struct
import weakref
from collections.abc import Callable, Sequence
from typing import Any

import pytest
from aiokafka import codec as aiokafka_codec
from aiokafka.record.legacy_records import LegacyRecordBatchBuilder

from shareproxy.drain import record_data
from shareproxy.drain.checksum import CHECKSUM, Checksum
from shareproxy.drain.model import Acknowledgement, OffsetRange, TimestampType
from shareproxy.drain.plain_records import PlainRecords
from shareproxy.drain.record import AckTicket
from shareproxy.drain.record_data import COMPILED, PARSER, CannotDecompress, Decoded, Parser, decode_acquired
from tests.drain import batches
from tests.drain.batches import Content, batch, marker

parsers = pytest.mark.parametrize("parser", [PARSER, PlainRecords], ids=["compiled", "plain"])
ParserType = Callable[[bytes], Parser]


class QuietLot:
    """A lot whose records nobody acknowledges."""

    def acknowledge(self, offset: int, kind: Acknowledgement, delay: float = 0.0) -> AckTicket:
        raise AssertionError("nobody acknowledges here")

    def lock_deadline(self, offset: int) -> float:
        return 30.0


LOT = QuietLot()


def decode(data: bytes | None, acquired: Sequence[tuple[int, int, int]], **more: Any) -> Decoded:
    """Decode a partition of topic orders."""
    return decode_acquired(data, acquired, topic="orders", partition=3, lot=LOT, **more)


def offsets(decoded: Decoded) -> list[int]:
    """Return the offsets that have a record."""
    return [record.offset for record in decoded.records]


def test_compiled_parser_is_there() -> None:
    """What the speed of the consumer rests on is in the aiokafka that is installed."""
    assert COMPILED


@parsers
@pytest.mark.parametrize("codec", batches.CODECS)
def test_all_fields_arrive(parser: ParserType, codec: int) -> None:
    """A record tells where it is, when it was written, what is in it, and how often it was handed out."""
    content = Content(b"v" * 50, b"k", (("trace", b"1"), ("empty", b""), ("null", None)), batches.TIME + 5)

    decoded = decode(batch(70, [content], codec=codec), [(70, 70, 2)], parser=parser)

    [record] = decoded.records
    assert (record.topic, record.partition, record.offset) == ("orders", 3, 70)
    assert (record.key, record.value, record.raw_key, record.raw_value) == (b"k", b"v" * 50, b"k", b"v" * 50)
    assert list(record.headers) == [("trace", b"1"), ("empty", b""), ("null", None)]
    assert (record.timestamp, record.timestamp_type) == (batches.TIME + 5, TimestampType.CREATE)
    assert (record.delivery_count, record.lot, record.error, record.lock_deadline) == (2, LOT, None, 30.0)


@parsers
def test_null_and_empty_are_told_apart(parser: ParserType) -> None:
    """A tombstone has no value; an empty value is one."""
    contents = [Content(None, None), Content(b"", b"")]

    first, second = decode(batch(0, contents), [(0, 1, 1)], parser=parser).records

    assert (first.key, first.value, second.key, second.value) == (None, None, b"", b"")


@parsers
def test_append_time_is_that_of_the_batch(parser: ParserType) -> None:
    """Where the broker sets the time, all records of a batch have its newest."""
    contents = [Content(timestamp=batches.TIME), Content(timestamp=batches.TIME + 9)]

    decoded = decode(batch(0, contents, attributes=batches.LOG_APPEND_TIME), [(0, 1, 1)], parser=parser)

    assert {(record.timestamp, record.timestamp_type) for record in decoded.records} == {
        (batches.TIME + 9, TimestampType.LOG_APPEND)
    }


@parsers
def test_only_acquired_offsets_are_handed_out(parser: ParserType) -> None:
    """A batch of 30 comes whole although 13 of its records are ours (drain.md §3.4)."""
    decoded = decode(batch(0, 30), [(4, 9, 2), (12, 18, 3)], parser=parser)

    assert offsets(decoded) == [*range(4, 10), *range(12, 19)]
    assert [record.delivery_count for record in decoded.records] == [2] * 6 + [3] * 7
    assert (decoded.gaps, decoded.damaged, decoded.unread) == ([], [], [])


@parsers
def test_ranges_of_one_offset(parser: ParserType) -> None:
    """Kafka 4.1 answers one range for each offset after some were acknowledged."""
    decoded = decode(batch(0, 10), [(offset, offset, 1) for offset in range(1, 10, 2)], parser=parser)

    assert offsets(decoded) == [1, 3, 5, 7, 9]
    assert decoded.gaps == []


@parsers
def test_one_range_over_many_batches(parser: ParserType) -> None:
    """Ranges need not end where batches do."""
    data = b"".join(batch(base, 4) for base in range(0, 20, 4))

    decoded = decode(data, [(2, 17, 1)], parser=parser)

    assert offsets(decoded) == list(range(2, 18))


@parsers
def test_ranges_out_of_order(parser: ParserType) -> None:
    """The order of the ranges says nothing."""
    assert offsets(decode(batch(0, 6), [(4, 5, 1), (0, 1, 2)], parser=parser)) == [0, 1, 4, 5]


@parsers
def test_bogus_range_is_none(parser: ParserType) -> None:
    """(0, −1) is what brokers answer to a batch size of 0."""
    decoded = decode(batch(0, 2), [(0, -1, 1)], parser=parser)

    assert (decoded.records, decoded.gaps, decoded.damaged, decoded.unread) == ([], [], [], [])


@parsers
def test_markers_are_gaps(parser: ParserType) -> None:
    """The offset of a marker is acquired and has no record; without an acknowledgement lag stays at 1."""
    data = batch(0, 3, attributes=batches.TRANSACTIONAL) + marker(3) + batch(4, 1) + marker(5, commit=False)

    decoded = decode(data, [(0, 5, 1)], parser=parser)

    assert offsets(decoded) == [0, 1, 2, 4]
    assert decoded.gaps == [OffsetRange(3, 3), OffsetRange(5, 5)]


@parsers
def test_aborted_records_are_not_ours(parser: ParserType) -> None:
    """With read_committed the aborted batch is in the answer, but its offsets were not acquired."""
    data = batch(0, 4) + batch(4, 3, attributes=batches.TRANSACTIONAL) + batch(7, 3)

    decoded = decode(data, [(0, 3, 1), (7, 9, 1)], parser=parser)

    assert offsets(decoded) == [0, 1, 2, 3, 7, 8, 9]
    assert decoded.gaps == []


@parsers
def test_holes_of_compaction_are_gaps(parser: ParserType) -> None:
    """Offsets that compaction took away, within batches, between them and before them, are closed, too."""
    data = batch(10, 3, deltas=[1, 3, 4], last=15) + batch(20, 2)

    decoded = decode(data, [(8, 21, 1)], parser=parser)

    assert offsets(decoded) == [11, 13, 14, 20, 21]
    assert decoded.gaps == [OffsetRange(8, 10), OffsetRange(12, 12), OffsetRange(15, 19)]


@parsers
def test_empty_batch_is_a_gap(parser: ParserType) -> None:
    """Compaction may leave a batch without a record."""
    data = bytearray(batch(5, 1)[: batches.HEADER])
    struct.pack_into(">i", data, batches.COUNT_AT, 0)

    decoded = decode(batches.with_crc(data), [(5, 5, 1)], parser=parser)

    assert (decoded.records, decoded.gaps, decoded.damaged) == ([], [OffsetRange(5, 5)], [])


@parsers
@pytest.mark.parametrize("kept", [1, 11, 12, 16, 17, 40, 60, 61, 80])
def test_cut_off_end_is_never_a_gap(parser: ParserType, kept: int) -> None:
    """Of what was cut off nobody knows whether it holds records: not a gap, which would lose them."""
    decoded = decode(batch(0, 2) + batch(2, 2)[:kept], [(0, 3, 1)], parser=parser)

    assert offsets(decoded) == [0, 1]
    assert (decoded.gaps, decoded.damaged, decoded.unread) == ([], [], [OffsetRange(2, 3)])


@parsers
@pytest.mark.parametrize("data", [None, b""])
def test_no_bytes_at_all(parser: ParserType, data: bytes | None) -> None:
    """Acquired offsets without any bytes are given back, not closed."""
    decoded = decode(data, [(7, 9, 1)], parser=parser)

    assert (decoded.records, decoded.gaps, decoded.unread) == ([], [], [OffsetRange(7, 9)])


@parsers
def test_flipped_byte_is_told_and_neighbours_arrive(parser: ParserType) -> None:
    """A checksum that does not fit costs the batch, and no other."""
    broken = bytearray(batch(2, 2))
    broken[-3] ^= 1

    decoded = decode(batch(0, 2) + bytes(broken) + batch(4, 2), [(0, 5, 1)], parser=parser)

    assert offsets(decoded) == [0, 1, 4, 5]
    [damage] = decoded.damaged
    assert damage.ranges == (OffsetRange(2, 3),)
    assert damage.reason == "the batch at offset 2 is damaged: its checksum does not fit its bytes"
    assert (decoded.gaps, decoded.unread) == ([], [])


@parsers
def test_flipped_bit_makes_no_marker_of_records(parser: ParserType) -> None:
    """Markers are acknowledged for good; damage that looks like one must not be."""
    broken = bytearray(batch(0, 3))
    broken[batches.ATTRIBUTES_AT + 1] ^= batches.CONTROL

    decoded = decode(bytes(broken), [(0, 2, 1)], parser=parser)

    assert (decoded.records, decoded.gaps) == ([], [])
    assert [damage.ranges for damage in decoded.damaged] == [(OffsetRange(0, 2),)]


@pytest.mark.parametrize("checksum", [CHECKSUM, None], ids=["instruction", "table"])
@pytest.mark.parametrize("at", [batches.ATTRIBUTES_AT, batches.COUNT_AT, -1])
def test_each_checked_byte_counts(monkeypatch: pytest.MonkeyPatch, checksum: Checksum | None, at: int) -> None:
    """From the attributes to the last byte, with and without the package that computes checksums quickly."""
    monkeypatch.setattr(record_data, "CHECKSUM", checksum)
    changed = bytearray(batch(2, 3))
    changed[at] ^= 1

    decoded = decode(batch(0, 2) + bytes(changed) + batch(5, 2), [(0, 6, 1)])

    assert offsets(decoded) == [0, 1, 5, 6]
    [damage] = decoded.damaged
    assert damage.ranges == (OffsetRange(2, 4),)
    assert damage.reason.endswith("its checksum does not fit its bytes")


def test_records_without_headers_share_one_thing() -> None:
    """A list for each record would have the garbage collector look at thousands of them."""
    first, second = decode(batch(0, 2), [(0, 1, 1)]).records
    [read_one_by_one] = decode(batch(0, 2), [(1, 1, 1)]).records

    assert first.headers is second.headers is read_one_by_one.headers
    assert not gc.is_tracked(first.headers)


@parsers
def test_damage_behind_a_right_checksum(parser: ParserType) -> None:
    """A batch that cannot be read is told although its checksum fits, and none of its records is handed out."""
    broken = bytearray(batch(0, 3))
    broken[-1] = 9  # headers that are not there

    decoded = decode(batches.with_crc(broken) + batch(3, 1), [(0, 3, 1)], parser=parser)

    assert offsets(decoded) == [3]
    assert [damage.ranges for damage in decoded.damaged] == [(OffsetRange(0, 2),)]


@parsers
def test_bytes_that_are_no_batch(parser: ParserType) -> None:
    """Where batches cannot be told apart any more, all that was acquired behind is damaged, and nothing a gap."""
    decoded = decode(batch(0, 2) + b"\xff" * 100, [(0, 9, 1)], parser=parser)

    assert offsets(decoded) == [0, 1]
    assert [damage.ranges for damage in decoded.damaged] == [(OffsetRange(2, 9),)]
    assert "no batch" in decoded.damaged[0].reason
    assert (decoded.gaps, decoded.unread) == ([], [])


@parsers
def test_offsets_that_cannot_be(parser: ParserType) -> None:
    """An offset beyond what 63 bits hold is no offset."""
    broken = bytearray(batch(0, 2))
    struct.pack_into(">q", broken, 0, 2**63 - 1)

    decoded = decode(bytes(broken), [(0, 1, 1)], parser=parser)

    assert (decoded.records, decoded.gaps) == ([], [])
    assert [damage.ranges for damage in decoded.damaged] == [(OffsetRange(0, 1),)]


@parsers
def test_batch_that_goes_back(parser: ParserType) -> None:
    """An offset that was there before is not handed out twice."""
    decoded = decode(batch(5, 2) + batch(5, 2), [(5, 8, 1)], parser=parser)

    assert offsets(decoded) == [5, 6]
    assert [damage.ranges for damage in decoded.damaged] == [(OffsetRange(7, 8),)]


@parsers
@pytest.mark.parametrize("form", [0, 1])
def test_batch_that_looks_like_an_old_message(parser: ParserType, form: int) -> None:
    """No checksum covers the format: what a flipped bit makes of it is damage, and its other offsets are no gaps."""
    data = bytearray(batch(5, 3) + batch(8, 2))
    data[16] = form

    decoded = decode(bytes(data), [(5, 9, 1)], parser=parser)

    assert decoded.gaps == []
    assert decoded.damaged[0].ranges == (OffsetRange(5, 5),)
    assert OffsetRange(6, 7) in decoded.unread


@parsers
def test_batch_that_says_a_wrong_end(parser: ParserType) -> None:
    """The checksum tells; the offsets between that end and the next batch may be records, and are no gaps."""
    data = bytearray(batch(5, 3) + batch(8, 2))
    data[26] = 0  # the last byte of its last offset delta

    decoded = decode(bytes(data), [(5, 9, 1)], parser=parser)

    assert (offsets(decoded), decoded.gaps) == ([8, 9], [])
    assert [damage.ranges for damage in decoded.damaged] == [(OffsetRange(5, 5),)]
    assert decoded.unread == [OffsetRange(6, 7)]


@parsers
def test_record_outside_of_its_batch(parser: ParserType) -> None:
    """A record whose offset is not within its batch is damage, not somebody else's offset."""
    decoded = decode(batch(0, 2, deltas=[0, 7], last=1), [(0, 1, 1), (7, 7, 1)], parser=parser)

    assert decoded.records == []
    assert [damage.ranges for damage in decoded.damaged] == [(OffsetRange(0, 1),)]
    assert decoded.unread == [OffsetRange(7, 7)]


@parsers
def test_stray_offset_between_right_ones(parser: ParserType) -> None:
    """First, last and number of records are as they should be, and one in the middle is somebody else's offset."""
    decoded = decode(batch(10, 3, deltas=[0, -6, 2], last=12), [(10, 12, 1)], parser=parser)

    assert decoded.records == []
    assert [damage.ranges for damage in decoded.damaged] == [(OffsetRange(10, 12),)]


@parsers
def test_batches_before_ours_are_not_read(parser: ParserType) -> None:
    """With record-wise acquiring the same batch comes again and again; what is not ours may be damaged."""
    broken = bytearray(batch(0, 2))
    broken[-3] ^= 1

    decoded = decode(bytes(broken) + batch(2, 2), [(2, 3, 1)], parser=parser)

    assert offsets(decoded) == [2, 3]
    assert decoded.damaged == []


@parsers
def test_deserializers_make_key_and_value(parser: ParserType) -> None:
    """What deserialisers return stands beside the bytes; nothing is called for null."""
    contents = [Content(b"12", b"a"), Content(None, None)]

    first, second = decode(
        batch(0, contents), [(0, 1, 1)], parser=parser, key_deserializer=bytes.decode, value_deserializer=int
    ).records

    assert (first.key, first.value, first.raw_key, first.raw_value) == ("a", 12, b"a", b"12")
    assert (second.key, second.value, second.error) == (None, None, None)


@parsers
def test_failed_deserializer_keeps_the_record(parser: ParserType) -> None:
    """A record that cannot be deserialised arrives with the reason and its bytes, and its neighbours are well (R11)."""
    contents = [Content(b"1"), Content(b"x"), Content(b"3")]

    records = decode(batch(0, contents), [(0, 2, 1)], parser=parser, value_deserializer=int).records

    assert [record.value for record in records] == [1, None, 3]
    assert isinstance(records[1].error, ValueError)
    assert records[1].raw_value == b"x"


def test_missing_package_is_no_damage(monkeypatch: pytest.MonkeyPatch) -> None:
    """Records that only this machine cannot read must not lose their attempts: the consumer is to end."""
    data = batch(0, 2, codec=batches.ZSTD)
    monkeypatch.setattr(aiokafka_codec, "has_zstd", lambda: False)
    monkeypatch.setattr(aiokafka_codec, "cramjam", None)

    with pytest.raises(CannotDecompress, match=r"orders-3 are compressed with zstd.*pip install 'aiokafka\[zstd\]'"):
        decode(data, [(0, 1, 1)])


@parsers
def test_unknown_compression_is_damage(parser: ParserType) -> None:
    """There is no compression 7."""
    data = batches.with_crc(batch(0, 1, attributes=7))

    [damage] = decode(data, [(0, 0, 1)], parser=parser).damaged

    assert damage.ranges == (OffsetRange(0, 0),)


@pytest.mark.parametrize("codec", [batches.NONE, batches.GZIP, batches.LZ4])
def test_old_message_formats(codec: int) -> None:
    """Messages of format 1, which old topics may still hold, arrive, too."""
    builder = LegacyRecordBatchBuilder(1, codec, 1 << 20)
    for delta in range(3):
        builder.append(delta, batches.TIME, b"k", b"v%d" % delta)
    data = builder.build()
    if codec:
        struct.pack_into(">q", data, 0, 2)  # a broker gives the message around them the offset of the last one

    decoded = decode(bytes(data), [(0, 2, 1)])

    assert [(record.offset, record.value, record.timestamp) for record in decoded.records] == [
        (0, b"v0", batches.TIME),
        (1, b"v1", batches.TIME),
        (2, b"v2", batches.TIME),
    ]
    assert (decoded.gaps, decoded.damaged, decoded.unread) == ([], [], [])


def test_old_message_without_a_time() -> None:
    """Format 0 has no timestamps."""
    builder = LegacyRecordBatchBuilder(0, 0, 1 << 20)
    builder.append(0, None, None, b"old")

    [record] = decode(bytes(builder.build()), [(0, 0, 1)]).records

    assert (record.value, record.timestamp) == (b"old", -1)


def test_repr_tells_no_contents() -> None:
    """What is in a record must not get into logs."""
    [record] = decode(batch(0, [Content(b"secret", b"secret")]), [(0, 0, 1)]).records

    assert repr(record) == "ShareRecord(orders-3, offset 0, delivery 1)"


def test_module_says_which_parser_it_uses() -> None:
    """With nothing compiled the plain parser is used."""
    assert record_data.PARSER is not PlainRecords


def test_what_a_deserialiser_raised_keeps_nothing_alive() -> None:
    """Records are not looked at by the collector, so that a traceback that leads back to them would never go."""

    class UnreadableError(Exception):
        """Can be watched."""

    def refuses(value: bytes) -> None:
        try:
            raise KeyError(value)
        except KeyError as cause:
            raise UnreadableError("not for us") from cause

    decoded = decode(batch(0, [Content(b"a"), Content(b"b")]), [(0, 1, 1)], value_deserializer=refuses)
    watched = weakref.ref(decoded.records[0].error)
    told = str(decoded.records[1].error)
    del decoded
    gc.collect()

    assert told == "not for us"
    assert watched() is None

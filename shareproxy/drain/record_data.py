"""Turn the records of a ShareFetch answer into objects: those that were acquired, and no others.

In: the bytes of one partition and the offsets that are ours. Out: records, and what is to become of every other offset.
Must never: raise for what a broker sent, hand out an offset that is not ours, or call an offset a gap that may hold a
record, because gaps are acknowledged for good.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import pairwise
from operator import attrgetter
from typing import Any, Final, NamedTuple, Protocol, TypeAlias

import msgspec

from shareproxy.drain.checksum import CHECKSUM, checksum_fits
from shareproxy.drain.errors import DrainError
from shareproxy.drain.kept_errors import without_frames
from shareproxy.drain.model import Headers, OffsetRange, TimestampType
from shareproxy.drain.plain_records import PlainRecords
from shareproxy.drain.record import Lot, Origin, ShareRecord
from shareproxy.protocol.errors import DecodeError

Deserializer: TypeAlias = Callable[[bytes], Any]

# base offset, length, format, attributes, last offset delta; old formats have the first three in the same places
_FRAME: Final = struct.Struct(">qi4xB4xhi")
_LENGTH_END: Final = 12
_SHORTEST_BATCH: Final = 49  # bytes behind the length of an empty batch
_SHORTEST_OLD_MESSAGE: Final = 14
_OFFSET: Final = attrgetter("offset")
_NONE_LEFT: Final = 2**63  # an offset that cannot be
NEWEST_FORMAT: Final = 2
LOG_APPEND_TIME: Final = 0x08
CONTROL: Final = 0x20
CODEC: Final = 0x07
CODECS: Final = {1: "gzip", 2: "snappy", 3: "lz4", 4: "zstd"}


class ParsedRecord(Protocol):
    """What a parser tells of one record."""

    @property
    def offset(self) -> int:
        """Place in the partition."""

    @property
    def timestamp(self) -> int | None:
        """Milliseconds since 1970."""

    @property
    def key(self) -> bytes | None:
        """The key's bytes."""

    @property
    def value(self) -> bytes | None:
        """The value's bytes."""

    @property
    def headers(self) -> Headers:
        """Names and bytes."""


class ParsedBatch(Protocol):
    """What a parser tells of one batch."""

    def validate_crc(self) -> bool:
        """Return whether the checksum fits; asked before the records."""

    def __iter__(self) -> Iterator[ParsedRecord]:
        """Return the records."""


class Parser(Protocol):
    """Walks over batches, one after the other."""

    def next_batch(self) -> ParsedBatch | None:
        """Return the next batch."""


def _compiled_parser() -> Callable[[bytes], Parser] | None:
    """Return aiokafka's compiled parser; it is not a public interface, so that it may be gone one day."""
    try:
        from aiokafka.record._crecords import MemoryRecords
    except ImportError:
        return None
    return MemoryRecords  # type: ignore[no-any-return]


_compiled: Final = _compiled_parser()
COMPILED: Final = _compiled is not None
"""Whether records are read by compiled code; else they are by Python, at a tenth of the speed."""
PARSER: Final[Callable[[bytes], Parser]] = _compiled or PlainRecords


class CannotDecompress(DrainError):  # noqa: N818 - the name says what happened
    """A package is missing without which no record of this compression can be read."""


class Damage(msgspec.Struct, frozen=True):
    """Acquired offsets whose records cannot be read.

    Attributes:
        ranges: the offsets.
        reason: what is wrong with the bytes.
    """

    ranges: tuple[OffsetRange, ...]
    reason: str


class Decoded(msgspec.Struct, frozen=True):
    """What the acquired offsets of one partition turned out to be; each is in exactly one of the four.

    Attributes:
        records: in order of their offsets.
        gaps: offsets without a record for certain: markers of transactions, and what compaction took away.
        damaged: offsets whose batch is damaged.
        unread: offsets of which the answer says nothing, such as those behind its cut-off end: to be released.
    """

    records: list[ShareRecord]
    gaps: list[OffsetRange]
    damaged: list[Damage]
    unread: list[OffsetRange]


def decode_acquired(
    data: bytes | None,
    acquired: Sequence[tuple[int, int, int]],
    *,
    topic: str,
    partition: int,
    lot: Lot,
    key_deserializer: Deserializer | None = None,
    value_deserializer: Deserializer | None = None,
    parser: Callable[[bytes], Parser] = PARSER,
) -> Decoded:
    """Return the records that were acquired, and what the other acquired offsets are.

    Args:
        data: `Records` of a ShareFetch answer: whole batches, the last one may be cut off; `None` is empty.
        acquired: `AcquiredRecords`, each as first offset, last offset and delivery count.
        topic: name, for the records.
        partition: number, for the records.
        lot: what the records are acknowledged through.
        key_deserializer: called with each key that is there; what it raises is kept with the record.
        value_deserializer: the same for values.
        parser: reads batches; another one in tests.

    Raises:
        CannotDecompress: the records are compressed, and the package that reads them is not installed.

    Source: KIP-932 (AcquiredRecords), KIP-98 (batches).
    """
    data = data or b""
    wanted = _Wanted(acquired)
    frames = _frames(data)
    found = Decoded([], [], [], [])
    records, gaps = found.records, found.gaps
    # what is behind a fault is kept from the parser
    source = parser(data if frames.fault is None else data[: frames.end])
    deserializers = (
        None if key_deserializer is None and value_deserializer is None else (key_deserializer, value_deserializer)
    )
    checksum = CHECKSUM if parser is _compiled else None
    start, stop = 0, 0
    sure = True  # the batch before ends where it says: what is missing behind it is a gap, and not a part of it
    for base, last, attributes, old, end in frames.batches:
        start, stop = stop, end
        if wanted.first == _NONE_LEFT:
            break
        try:
            batch = source.next_batch()
        except Exception:  # it looks into old messages at once; told below, if ours are among them
            batch = None
        if wanted.first < base and not old:
            _add_ranges(gaps if sure else found.unread, wanted.take(base - 1))
        sure = True
        if wanted.first > last:
            continue
        sure = False
        pieces = wanted.take(last)
        timestamp_type = TimestampType.LOG_APPEND if attributes & LOG_APPEND_TIME else TimestampType.CREATE
        try:
            if batch is None:
                raise DecodeError("it is not there")
            if old or checksum is None:
                intact = batch.validate_crc()
            else:
                intact = checksum_fits(checksum, data, start, stop)
            if not intact:
                raise DecodeError("its checksum does not fit its bytes")
            sure = True
            if attributes & CONTROL:  # only now: one flipped bit must not make records a marker
                _add_ranges(gaps, pieces)
                continue
            if deserializers is None and len(pieces) == 1 and pieces[0][:2] == (base, last) and not old:
                # by far the most frequent case, and the one that decides how fast a queue is drained
                origin = Origin(topic, partition, timestamp_type, pieces[0][2], lot)
                built = [
                    ShareRecord(
                        origin,
                        record.offset,
                        record.timestamp,  # type: ignore[arg-type] # only old messages have none
                        key := record.key,
                        value := record.value,
                        # an empty list for each record is what the garbage collector would be started for
                        record.headers or (),
                        key,
                        value,
                    )
                    for record in batch
                ]
                if list(map(_OFFSET, built)) != list(range(base, last + 1)):
                    _add_ranges(gaps, _holes(built, base, last))
            else:
                rows = _ours(batch, pieces)
                built = _built(rows, topic, partition, timestamp_type, lot, deserializers)
                _add_ranges(gaps, _holes_of_pieces(built, pieces))
        except Exception as error:
            reason = _reason(error, attributes, topic, partition)
            found.damaged.append(Damage(_ranges(pieces), f"the batch at offset {base} is damaged: {reason}"))
        else:
            records += built
    rest = _ranges(wanted.take(_NONE_LEFT))
    if rest and frames.fault is not None:
        found.damaged.append(Damage(rest, frames.fault))
    else:
        found.unread.extend(rest)
    return found


Piece: TypeAlias = tuple[int, int, int]


class _Wanted:
    """Acquired offsets in order, taken away from the front."""

    __slots__ = ("_at", "_ranges", "first")

    def __init__(self, acquired: Iterable[tuple[int, int, int]]) -> None:
        # a broker answers (0, -1) where it was asked for batches of no records
        self._ranges = sorted(each for each in acquired if each[0] <= each[1])
        self._at = 0
        self.first = self._ranges[0][0] if self._ranges else _NONE_LEFT

    def take(self, last: int) -> list[Piece]:
        """Take all up to `last`."""
        first = self.first
        if self._at < len(self._ranges):
            _, stop, count = self._ranges[self._at]
            if first <= last < stop:  # one range over many batches
                self.first = last + 1
                return [(first, last, count)]
        taken: list[Piece] = []
        while self.first <= last and self._at < len(self._ranges):
            _, stop, count = self._ranges[self._at]
            if stop > last:
                taken.append((self.first, last, count))
                self.first = last + 1
                break
            if self.first <= stop:
                taken.append((self.first, stop, count))
            self._at += 1
            if self._at < len(self._ranges):
                self.first = max(stop + 1, self._ranges[self._at][0])
            else:
                self.first = _NONE_LEFT
        return taken


class _Frames(NamedTuple):
    """What was found by the sizes alone.

    Attributes:
        batches: base offset, last offset, attributes, whether the format is an old one, and where it ends, of each
            whole batch.
        end: where the last one ends.
        fault: what is wrong behind it; `None` if nothing is, or if a batch is cut off there.
    """

    batches: list[tuple[int, int, int, bool, int]]
    end: int
    fault: str | None


def _frames(data: bytes) -> _Frames:
    batches: list[tuple[int, int, int, bool, int]] = []
    position, end, previous = 0, len(data), -1
    unpack, size = _FRAME.unpack_from, _FRAME.size
    while end - position >= size:
        base, length, form, attributes, delta = unpack(data, position)
        old = form < NEWEST_FORMAT
        if old:  # what is in the place of these is something else
            attributes = delta = 0
        shortest, last = _SHORTEST_OLD_MESSAGE if old else _SHORTEST_BATCH, base + delta
        if length < shortest or delta < 0 or base <= previous or form > NEWEST_FORMAT or last >= _NONE_LEFT:
            fault = f"the bytes from {position} on are no batch: format {form}, length {length}, offset {base}"
            return _Frames(batches, position, f"{fault} after {previous}")
        stop = position + _LENGTH_END + length
        if stop > end:
            break
        position, previous = stop, last
        batches.append((base, last, attributes, old, stop))
    return _Frames(batches, position, None)


def _ours(batch: ParsedBatch, pieces: Sequence[Piece]) -> Iterator[tuple[ParsedRecord, int]]:
    """Yield the records within the pieces, each with its delivery count; does not read further than needed."""
    rest = iter(pieces)
    first, last, count = next(rest)
    previous = -1
    for record in batch:
        offset = record.offset
        if offset <= previous:
            raise DecodeError(f"offset {offset} comes after {previous}")
        previous = offset
        while offset > last:
            following = next(rest, None)
            if following is None:
                return
            first, last, count = following
        if offset >= first:
            yield record, count


def _built(
    rows: Iterable[tuple[ParsedRecord, int]],
    topic: str,
    partition: int,
    timestamp_type: TimestampType,
    lot: Lot,
    deserializers: tuple[Deserializer | None, Deserializer | None] | None,
) -> list[ShareRecord]:
    of_key, of_value = deserializers or (None, None)
    built = []
    origin = Origin(topic, partition, timestamp_type, 0, lot)
    for record, count in rows:
        raw_key, raw_value = record.key, record.value
        key: Any = raw_key
        value: Any = raw_value
        error = None
        try:
            if of_key is not None and raw_key is not None:
                key = of_key(raw_key)
            if of_value is not None and raw_value is not None:
                value = of_value(raw_value)
        except Exception as raised:
            key = value = None
            error = without_frames(raised)
        timestamp = -1 if record.timestamp is None else record.timestamp
        if origin.delivery_count != count:
            origin = Origin(topic, partition, timestamp_type, count, lot)
        headers = record.headers or ()
        built.append(ShareRecord(origin, record.offset, timestamp, key, value, headers, raw_key, raw_value, error))
    return built


def _holes(built: Sequence[ShareRecord], first: int, last: int) -> list[OffsetRange]:
    """Return the offsets from `first` to `last` that have no record.

    Raises:
        DecodeError: there are offsets besides, or they do not ascend.
    """
    offsets = [first - 1, *(record.offset for record in built), last + 1]
    holes = []
    for before, after in pairwise(offsets):
        if after <= before:
            raise DecodeError(f"offset {after} comes after {before}")
        if after > before + 1:
            holes.append(OffsetRange(before + 1, after - 1))
    return holes


def _holes_of_pieces(built: Sequence[ShareRecord], pieces: Sequence[Piece]) -> Iterator[OffsetRange]:
    at = 0
    for first, last, _ in pieces:
        start = at
        while at < len(built) and built[at].offset <= last:
            at += 1
        yield from _holes(built[start:at], first, last)


def _add_ranges(ranges: list[OffsetRange], more: Iterable[tuple[int, ...]]) -> None:
    """Append ranges, those that touch as one."""
    for first, last, *_ in more:
        if ranges and ranges[-1].last + 1 == first:
            ranges[-1] = OffsetRange(ranges[-1].first, last)
        else:
            ranges.append(OffsetRange(first, last))


def _ranges(pieces: Iterable[Piece]) -> tuple[OffsetRange, ...]:
    ranges: list[OffsetRange] = []
    _add_ranges(ranges, pieces)
    return tuple(ranges)


def _reason(error: Exception, attributes: int, topic: str, partition: int) -> str:
    """Return what is wrong with a batch, in words.

    Raises:
        CannotDecompress: nothing is, but a package is missing here.
    """
    codec = CODECS.get(attributes & CODEC)
    if codec is not None and not _can_decompress(codec):
        raise CannotDecompress(
            f"the records of {topic}-{partition} are compressed with {codec}, and the package that reads it is not "
            f"installed; try: pip install 'aiokafka[{codec}]'"
        )
    return str(error) or type(error).__name__


def _can_decompress(codec: str) -> bool:
    from aiokafka import codec as codecs

    found: Any = getattr(codecs, f"has_{codec}", None)
    return found is None or bool(found())

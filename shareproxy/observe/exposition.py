"""Write metric families in Prometheus' two text formats, plain and compressed, from parts that are made once.

In: families whose lines are ready. Out: pages: lists of bytes, to be sent one after the other.
Must never: hold the event loop for a large page, or copy one for each scrape.
"""

from __future__ import annotations

import asyncio
import zlib
from collections.abc import Iterator, Sequence
from enum import Enum
from typing import Final

import msgspec
from prometheus_client.openmetrics.exposition import CONTENT_TYPE_LATEST as OPENMETRICS_TYPE

TEXT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"
# the lines are much alike: the fastest level already makes them a twentieth
GZIP_LEVEL: Final = 1
# deflate, no name, no time, unknown system
GZIP_HEAD: Final = b"\x1f\x8b\x08\x00\x00\x00\x00\x00\x04\xff"
RAW_DEFLATE: Final = -15
END: Final = b"# EOF\n"
# a piece that is joined and encoded at once
CHUNK_LINES: Final = 500


class Format(Enum):
    """A text format; the value is its content type."""

    TEXT = TEXT_TYPE
    OPENMETRICS = OPENMETRICS_TYPE


class Kind(Enum):
    """Type of a family: as the text format and as OpenMetrics call it."""

    GAUGE = ("gauge", "gauge")
    COUNTER = ("counter", "counter")
    INFO = ("gauge", "info")
    UNTYPED = ("untyped", "unknown")


class Family:
    """Collect the lines of one metric.

    Args:
        name: of the samples.
        about: what it is, one sentence.
        kind: its type.
    """

    __slots__ = ("_lines", "about", "chunks", "kind", "name")

    def __init__(self, name: str, about: str, kind: Kind = Kind.GAUGE) -> None:
        self.name, self.about, self.kind = name, about, kind
        self.chunks: list[bytes] = []
        self._lines: list[str] = []

    def add(self, labels: str, value: float) -> None:
        """Add a sample.

        Args:
            labels: as written, in braces.
            value: a finite number.
        """
        lines = self._lines
        lines.append(f"{self.name}{labels} {value}\n")
        if len(lines) >= CHUNK_LINES:
            self.end()

    def end(self) -> None:
        """Turn the lines so far into bytes."""
        if self._lines:
            self.chunks.append("".join(self._lines).encode())
            self._lines = []

    def head(self, form: Format) -> bytes:
        """Return the lines that say what the metric is."""
        name, kind = self.name, self.kind.value[form is Format.OPENMETRICS]
        if form is Format.OPENMETRICS:
            # there the suffix belongs to the sample, not to the family
            if self.kind is Kind.COUNTER:
                name = name.removesuffix("_total")
            elif self.kind is Kind.INFO:
                name = name.removesuffix("_info")
        return f"# HELP {name} {self.about}\n# TYPE {name} {kind}\n".encode()


class Page(msgspec.Struct, frozen=True):
    """A part of an answer in one format.

    Attributes:
        plain: pieces of text.
        deflated: the same as raw deflate that ends on a byte, not finished.
        length: of `plain`.
        crc: CRC-32 of `plain`.
    """

    plain: tuple[bytes, ...] = ()
    deflated: tuple[bytes, ...] = ()
    length: int = 0
    crc: int = 0

    def with_tail(self, tail: bytes, *, gzip: bool) -> tuple[Sequence[bytes], int]:
        """Return the pieces of the whole answer, and its length.

        Args:
            tail: what follows, a few kilobytes that are new in each answer.
            gzip: whether the answer is to be compressed; it is one member, which every client can read.
        """
        if not gzip:
            return (*self.plain, tail), self.length + len(tail)
        packer = zlib.compressobj(GZIP_LEVEL, zlib.DEFLATED, RAW_DEFLATE)
        end = packer.compress(tail) + packer.flush()
        checks = zlib.crc32(tail, self.crc).to_bytes(4, "little")
        checks += ((self.length + len(tail)) & 0xFFFF_FFFF).to_bytes(4, "little")
        pieces = (GZIP_HEAD, *self.deflated, end, checks)
        return pieces, sum(map(len, pieces))


EMPTY_PAGE: Final = Page()


async def make_pages(families: Sequence[Family]) -> dict[Format, Page]:
    """Put families together, in every format; the work is done where it holds neither the loop nor the interpreter."""
    return await asyncio.to_thread(_make_pages, [family for family in families if family.chunks])


def _make_pages(families: Sequence[Family]) -> dict[Format, Page]:
    bodies = [_deflate(family.chunks) for family in families]
    pages = {}
    for form in Format:
        heads = [family.head(form) for family in families]
        plain = [piece for head, family in zip(heads, families, strict=True) for piece in (head, *family.chunks)]
        deflated = [piece for head, body in zip(heads, bodies, strict=True) for piece in (_deflate([head]), body)]
        crc = 0
        for piece in plain:
            crc = zlib.crc32(piece, crc)
        pages[form] = Page(tuple(plain), tuple(deflated), sum(map(len, plain)), crc)
    return pages


def _deflate(pieces: Sequence[bytes]) -> bytes:
    """Compress so that anything may stand before and after: a full flush ends on a byte and forgets what was."""
    packer = zlib.compressobj(GZIP_LEVEL, zlib.DEFLATED, RAW_DEFLATE)
    packed = [packer.compress(piece) for piece in pieces]
    return b"".join((*packed, packer.flush(zlib.Z_FULL_FLUSH)))


def blocks(pieces: Sequence[bytes], size: int) -> Iterator[bytes]:
    """Join small pieces so that each block has at least `size` bytes, but for the last."""
    waiting: list[bytes] = []
    length = 0
    for piece in pieces:
        waiting.append(piece)
        length += len(piece)
        if length >= size:
            yield b"".join(waiting) if len(waiting) > 1 else piece
            waiting, length = [], 0
    if waiting:
        yield b"".join(waiting)

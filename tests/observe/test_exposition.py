"""Text formats: heads of families, pages put together, compression in pieces."""

from __future__ import annotations

import gzip

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shareproxy.observe.exposition import CHUNK_LINES, Family, Format, Kind, Page, blocks, make_pages


@pytest.mark.parametrize(
    ("kind", "name", "text", "openmetrics"),
    [
        (Kind.GAUGE, "a_b", "a_b gauge", "a_b gauge"),
        (Kind.COUNTER, "a_total", "a_total counter", "a counter"),
        (Kind.INFO, "a_info", "a_info gauge", "a info"),
        (Kind.UNTYPED, "a_sum", "a_sum untyped", "a_sum unknown"),
    ],
)
def test_each_format_has_its_own_word_for_a_kind(kind: Kind, name: str, text: str, openmetrics: str) -> None:
    """OpenMetrics takes suffixes for the sample's, not for the family's."""
    family = Family(name, "What it is.", kind)
    assert family.head(Format.TEXT).decode().splitlines()[1] == f"# TYPE {text}"
    assert family.head(Format.OPENMETRICS).decode().splitlines()[1] == f"# TYPE {openmetrics}"


async def test_pages_hold_all_lines_of_all_families_in_order() -> None:
    """However many pieces they were made in."""
    families = [Family("a", "A."), Family("empty", "E."), Family("b", "B.")]
    for number in range(CHUNK_LINES * 2 + 3):
        families[0].add(f'{{n="{number}"}}', number)
    families[2].add("", 1.5)
    for family in families:
        family.end()

    pages = await make_pages(families)

    lines = b"".join(pages[Format.TEXT].plain).decode().splitlines()
    assert lines[:2] == ["# HELP a A.", "# TYPE a gauge"]
    assert lines[2:-3] == [f'a{{n="{number}"}} {number}' for number in range(CHUNK_LINES * 2 + 3)]
    assert lines[-3:] == ["# HELP b B.", "# TYPE b gauge", "b 1.5"]


async def test_compressed_pieces_are_one_valid_stream() -> None:
    """With and without a page before the tail."""
    family = Family("a", "A.")
    for number in range(5_000):
        family.add(f'{{n="{number}"}}', number)
    family.end()
    for page in (Page(), *(await make_pages([family])).values()):
        plain, length = page.with_tail(b"tail\n", gzip=False)
        packed, packed_length = page.with_tail(b"tail\n", gzip=True)
        assert len(b"".join(plain)) == length
        assert len(b"".join(packed)) == packed_length
        assert gzip.decompress(b"".join(packed)) == b"".join(plain)


@given(st.lists(st.binary(max_size=9)), st.integers(1, 20))
def test_blocks_lose_nothing(pieces: list[bytes], size: int) -> None:
    """Each but the last has the wanted size at least."""
    joined = list(blocks(pieces, size))
    assert b"".join(joined) == b"".join(pieces)
    assert all(len(block) >= size for block in joined[:-1])

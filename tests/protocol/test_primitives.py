"""What generated code calls for the rare cases."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from shareproxy.protocol import primitives
from shareproxy.protocol.messages import ListGroupsRequest

VARINTS = [(0, "00"), (1, "01"), (127, "7f"), (128, "8001"), (300, "ac02"), (2**32 - 1, "ffffffff0f")]


@pytest.mark.parametrize(("value", "text"), VARINTS)
def test_varint_both_ways(value: int, text: str) -> None:
    """Seven bits per byte, the low ones first."""
    assert primitives.varint(value).hex() == text
    assert primitives.read_varint(b"\0" + bytes.fromhex(text), 1) == (value, 1 + len(text) // 2)


@pytest.mark.parametrize("text", ["8080808080", "ffffffff1f", "808080808000"])
def test_varint_of_more_than_32_bits_is_refused(text: str) -> None:
    """Neither six bytes nor a fifth byte that is too large."""
    with pytest.raises(ValueError, match=r"^$"):
        primitives.read_varint(bytes.fromhex(text), 0)


@pytest.mark.parametrize(
    ("read", "text", "value"),
    [
        (primitives.read_text, "00", None),
        (primitives.read_text, "8000", None),
        (primitives.read_text, "8300 6162", "ab"),
        (primitives.read_present_text, "03 6162", "ab"),
        (primitives.read_bytes, "00", None),
        (primitives.read_bytes, "03 6162", b"ab"),
        (primitives.read_present_bytes, "01", b""),
        (primitives.read_old_text, "0002 6162", "ab"),
        (primitives.read_old_bytes, "00000002 6162", b"ab"),
    ],
)
def test_texts_and_bytes(read: Callable[[bytes, int], tuple[Any, int]], text: str, value: object) -> None:
    """Both lengths, both types, and null."""
    data = bytes.fromhex(text)
    assert read(data, 0) == (value, len(data))


@pytest.mark.parametrize(
    ("read", "text"),
    [
        (primitives.read_text, "04 6162"),
        (primitives.read_text, "03 c328"),
        (primitives.read_text, "818002" + "61" * 32768),
        (primitives.read_present_text, "00"),
        (primitives.read_present_bytes, "00"),
        (primitives.read_bytes, "04 6162"),
        (primitives.read_old_text, "ffff"),
        (primitives.read_old_text, "0003 6162"),
        (primitives.read_old_bytes, "ffffffff"),
        (primitives.read_old_bytes, "00000003 6162"),
    ],
)
def test_damaged_texts_and_bytes(read: Callable[[bytes, int], tuple[Any, int]], text: str) -> None:
    """Cut short, too long, not UTF-8, or null where that is not possible."""
    with pytest.raises(ValueError):  # noqa: PT011 - it has no words, on purpose
        read(bytes.fromhex(text), 0)


def test_counts_are_held_against_the_bytes_left() -> None:
    """A count is refused before anything is made for it."""
    assert primitives.read_count(bytes.fromhex("8100") + b"", 0) == (1, 2)
    for count, left in ((5, 4), (1_000_001, 2_000_000)):
        with pytest.raises(ValueError, match=r"^$"):
            primitives.check_count(count, left)


def test_each_element_is_read_by_the_given_reader() -> None:
    """Elements follow one another."""
    data = bytes.fromhex("0001 61 0000")
    assert primitives.read_each(primitives.read_old_text, data, 0, 2) == (["a", ""], 5)


def test_uuids() -> None:
    """Sixteen bytes each, which must be there."""
    raw = bytes(range(32))
    assert primitives.read_uuids(b"x" + raw, 1, 2) == [raw[:16], raw[16:]]
    assert primitives.write_uuids([raw[:16], raw[16:]]) == raw
    with pytest.raises(ValueError, match=r"^$"):
        primitives.read_uuids(raw, 1, 2)
    with pytest.raises(ValueError, match=r"^$"):
        primitives.write_uuids([raw])


def test_tag_section_is_read_into_a_struct() -> None:
    """Known tags go to their attributes, the others are kept."""
    message = ListGroupsRequest()
    data = bytes.fromhex("02 00 03 03 6162 05 01 ff")
    known = {0: ("states_filter", lambda raw, p: primitives.read_text(raw, p))}
    assert primitives.read_tags(data, 0, message, known, frozenset()) == len(data)
    assert str(message.states_filter) == "ab"
    assert message.unknown_tags == ((5, b"\xff"),)


@pytest.mark.parametrize(
    "text",
    [
        "05 00 00",  # more tags than bytes
        "02 05 00 05 00",  # one tag twice
        "01 05 03 00",  # size beyond the end
        "01 07 00",  # a tag of another version
        "01 00 04 03 6162 00",  # the known field is shorter than its size
    ],
)
def test_damaged_tag_section(text: str) -> None:
    """Each kind of damage is refused."""
    known = {0: ("states_filter", lambda raw, p: primitives.read_text(raw, p))}
    with pytest.raises((ValueError, IndexError)):
        primitives.read_tags(bytes.fromhex(text), 0, ListGroupsRequest(), known, frozenset([7]))


def test_tag_section_is_stepped_over() -> None:
    """Only the sizes count."""
    data = bytes.fromhex("02 00 03 036162 05 01 ff")
    assert primitives.skip_tags(data, 0) == len(data)
    with pytest.raises(ValueError, match=r"^$"):
        primitives.skip_tags(bytes.fromhex("09 00"), 0)


def test_tag_section_is_written_in_order() -> None:
    """Known and kept tags are merged; defaults are left out."""
    message = ListGroupsRequest(states_filter=["x"], unknown_tags=((9, b""), (5, b"ab")))
    known: dict[int, primitives.TaggedWriter] = {
        7: ("states_filter", lambda value: not value, lambda value: b"S"),
        6: ("types_filter", lambda value: not value, lambda value: b"T"),
    }
    assert primitives.write_tags(message, known, frozenset()).hex() == "03" + "05026162" + "070153" + "0900"


@pytest.mark.parametrize(
    "tags", [((7, b""),), ((8, b""),), ((-1, b""),), ((1, "x"),), ((1, b""), (1, b"")), (("1", b""),)]
)
def test_tags_that_cannot_be_written(tags: Any) -> None:
    """Defined ones, ones of other versions, repeated ones, and what is no tag."""
    known: dict[int, primitives.TaggedWriter] = {7: ("states_filter", lambda value: True, lambda value: b"")}
    with pytest.raises(ValueError, match=r"^$"):
        primitives.write_tags(ListGroupsRequest(unknown_tags=tags), known, frozenset([8]))


@pytest.mark.parametrize(
    ("write", "value"),
    [
        (primitives.text_size, 32_769),
        (primitives.array_size, 1_000_002),
        (primitives.check_array, "text"),
        (primitives.check_array, {1: 2}),
        (primitives.raw_bytes, "text"),
        (primitives.raw_bytes, bytearray(2)),
        (primitives.compact_text, "x" * 32_768),
        (primitives.compact_bytes, "text"),
        (primitives.old_bytes, "text"),
    ],
)
def test_values_that_cannot_be_written(write: Callable[[Any], Any], value: object) -> None:
    """Limits and types are checked where `struct` would not."""
    with pytest.raises(ValueError, match=r"^$"):
        write(value)


def test_texts_are_written_in_both_forms() -> None:
    """With a length of fixed size, and with a varint."""
    assert primitives.compact_text("x" * 127)[:2].hex() == "8001"
    assert primitives.compact_bytes(b"ab").hex() == "036162"
    assert primitives.old_text("ab").hex() == "00026162"
    assert primitives.old_bytes(b"ab").hex() == "000000026162"


def test_array_formats_are_kept_up_to_a_limit() -> None:
    """A peer that sends arrays of many lengths does not fill the memory."""
    formats = primitives.ArrayFormats("i", "pack")
    assert formats[2](1, -1).hex() == "00000001ffffffff"
    assert len(formats[1000](*range(1000))) == 4000
    assert list(formats) == [2]


def test_text_formats_pack_a_text_between_numbers() -> None:
    """The size that is on the wire tells the number of bytes."""
    compact = primitives.TextFormats("hB", "?", compact=True)
    assert compact[3](1, 3, b"ab", True).hex() == "0001" + "03" + "6162" + "01"
    assert compact[0](1, 0, b"", False).hex() == "0001" + "00" + "00"
    old = primitives.TextFormats("h", "", compact=False)
    assert old[2](2, b"ab").hex() == "00026162"
    assert old[-1](-1, b"").hex() == "ffff"

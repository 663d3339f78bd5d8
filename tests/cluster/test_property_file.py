"""The syntax of Java property files."""

from __future__ import annotations

import pytest

from shareproxy.cluster.property_file import PropertySyntaxError, parse_properties, read_property_text


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a=b", [("a", "b")]),
        ("a : b", [("a", "b")]),
        ("a b c", [("a", "b c")]),
        ("  a\t=\t b ", [("a", "b ")]),
        ("a = = b", [("a", "= b")]),
        ("a", [("a", "")]),
        ("a=", [("a", "")]),
        ("# a=b\n! c=d\n\n \ne=f", [("e", "f")]),
        ("a=b\r\nc=d\re=f", [("a", "b"), ("c", "d"), ("e", "f")]),
        ("a=b\\\n   c\\\n d", [("a", "bcd")]),
        ("a=b\\\\\nc=d", [("a", "b\\"), ("c", "d")]),
        ("a=b\\\n# no comment", [("a", "b# no comment")]),
        ("a=b\\", [("a", "b")]),
        (r"a\ b\=c\:d=e", [("a b=c:d", "e")]),
        (r"a=\t\n\r\f\"\q", [("a", '\t\n\r\f"q')]),
        (r"a=\u00e9\u20AC", [("a", "é€")]),
        (r"a=\ud83d\ude00", [("a", "\U0001f600")]),
        ("a=1\na=2", [("a", "1"), ("a", "2")]),
    ],
)
def test_entries_are_read_as_java_reads_them(text: str, expected: list[tuple[str, str]]) -> None:
    """Separators, comments, joined lines and escapes."""
    assert [(entry.key, entry.value) for entry in parse_properties(text)] == expected


def test_an_entry_knows_its_first_line() -> None:
    """Also behind comments and joined lines."""
    assert [entry.line for entry in parse_properties("#\na=b\\\n c\n\nd=e")] == [2, 5]


def test_a_broken_unicode_escape_is_an_error() -> None:
    """A Windows path written with single backslashes is the usual reason."""
    with pytest.raises(PropertySyntaxError, match="four hexadecimal digits") as caught:
        parse_properties("a=b\nc=C:\\users")

    assert caught.value.line == 2


def test_both_encodings_are_read() -> None:
    """UTF-8, with or without a mark at the start, and else Java's ISO-8859-1."""
    assert read_property_text("a=grün".encode()) == "a=grün"
    assert read_property_text("a=grün".encode("utf-8-sig")) == "a=grün"
    assert read_property_text("a=grün".encode("iso-8859-1")) == "a=grün"

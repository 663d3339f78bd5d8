"""Read the syntax of Java property files.

In: the bytes of a file. Out: keys, values and the lines they stand on. Must never: know what a key means.
"""

from __future__ import annotations

import re
from typing import Final, NamedTuple

_UNICODE: Final = re.compile(r"[0-9A-Fa-f]{4}")
_ESCAPES: Final = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}
_BLANK: Final = " \t\f"


class Property(NamedTuple):
    """One entry; `line` is the number of its first line."""

    key: str
    value: str
    line: int


class PropertySyntaxError(ValueError):
    """An entry cannot be read; `line` is its number."""

    def __init__(self, problem: str, line: int) -> None:
        self.line = line
        super().__init__(problem)


def read_property_text(data: bytes) -> str:
    """Decode a file: UTF-8 as people write it, else ISO-8859-1 as Java defines it."""
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError:
        return data.decode("iso-8859-1")


def parse_properties(text: str) -> list[Property]:
    r"""Return all entries in order, repeated keys included.

    Understands comments (`#`, `!`), `=`, `:` or blanks after the key, a backslash at the end of a line,
    and the escapes `\t \n \r \f \uXXXX`.

    Raises:
        PropertySyntaxError: `\u` without four hexadecimal digits.
    """
    return [_entry(line, number) for number, line in _logical_lines(text)]


def _logical_lines(text: str) -> list[tuple[int, str]]:
    lines: list[tuple[int, str]] = []
    pending: list[str] = []
    first = 0
    for number, raw in enumerate(re.split(r"\r\n|\r|\n", text), 1):
        line = raw.lstrip(_BLANK)
        if not pending:
            if not line or line[0] in "#!":
                continue
            first = number
        # an odd number of backslashes at the end joins the next line, without its leading blanks
        if (len(line) - len(line.rstrip("\\"))) % 2:
            pending.append(line[:-1])
            continue
        lines.append((first, "".join(pending) + line))
        pending = []
    if pending:
        lines.append((first, "".join(pending)))
    return lines


def _entry(line: str, number: int) -> Property:
    end = 0
    while end < len(line) and line[end] not in "=:" + _BLANK:
        end += 2 if line[end] == "\\" else 1
    rest = line[end:].lstrip(_BLANK)
    if rest[:1] in ("=", ":"):
        rest = rest[1:].lstrip(_BLANK)
    return Property(_unescape(line[:end], number), _unescape(rest, number), number)


def _unescape(text: str, line: int) -> str:
    if "\\" not in text:
        return text
    parts: list[str] = []
    position = 0
    while (found := text.find("\\", position)) >= 0:
        parts.append(text[position:found])
        letter = text[found + 1 : found + 2]
        position = found + 2
        if letter == "u":
            digits = text[position : position + 4]
            if not _UNICODE.fullmatch(digits):
                raise PropertySyntaxError(r"\u wants four hexadecimal digits; write a single backslash as \\", line)
            parts.append(chr(int(digits, 16)))
            position += 4
        else:
            parts.append(_ESCAPES.get(letter, letter))
    parts.append(text[position:])
    # two \u escapes may be the halves of one character
    return "".join(parts).encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")

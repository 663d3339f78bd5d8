"""Read the login line of a Java client: the value of `sasl.jaas.config`.

In: text. Out: the login module's name and its options. Must never: put an option's value into an error.
"""

from __future__ import annotations

import re
from typing import Final, NamedTuple

_FLAGS: Final = frozenset({"required", "requisite", "sufficient", "optional"})
# a value may stand in double or single quotes, with backslash escapes inside, or bare
_TOKEN: Final = re.compile(r"""\s*(?:"((?:[^"\\]|\\.)*)"|'((?:[^'\\]|\\.)*)'|([;=])|([^\s;="']+))""", re.DOTALL)
_ESCAPE: Final = re.compile(r"\\(.)", re.DOTALL)
_LETTERS: Final = {"n": "\n", "r": "\r", "t": "\t", "f": "\f", "b": "\b"}


class Login(NamedTuple):
    """The first login of the line: `module` without its package, and its options."""

    module: str
    options: dict[str, str]


def parse_jaas(text: str) -> Login:
    """Read `package.Module required name="value" …;`.

    Raises:
        ValueError: says what is missing.
    """
    tokens = _tokens(text)
    if len(tokens) < 2 or tokens[1][0].lower() not in _FLAGS:
        raise ValueError(f"it begins with a module and the word required: {EXAMPLE}")
    module = tokens[0][0].rpartition(".")[2]
    options: dict[str, str] = {}
    position = 2
    while position < len(tokens):
        name, is_sign = tokens[position]
        if is_sign and name == ";":
            return Login(module, options)
        if is_sign or len(tokens) < position + 3 or tokens[position + 1] != ("=", True) or tokens[position + 2][1]:
            raise ValueError(f'option {"" if is_sign else name + " "}is not NAME="VALUE": {EXAMPLE}')
        options[name] = tokens[position + 2][0]
        position += 3
    raise ValueError("a semicolon is missing at the end")


EXAMPLE: Final = 'org.apache.kafka.common.security.plain.PlainLoginModule required username="…" password="…";'


def _tokens(text: str) -> list[tuple[str, bool]]:
    """Return words and signs; the second part tells signs from words."""
    tokens: list[tuple[str, bool]] = []
    position, end = 0, len(text.rstrip())
    while position < end:
        match = _TOKEN.match(text, position)
        if match is None:
            raise ValueError("a quotation mark is not closed")
        double, single, sign, bare = match.groups()
        quoted = double if double is not None else single
        if quoted is not None:
            tokens.append((_ESCAPE.sub(lambda found: _LETTERS.get(found[1], found[1]), quoted), False))
        else:
            tokens.append((sign or bare, sign is not None))
        position = match.end()
    return tokens

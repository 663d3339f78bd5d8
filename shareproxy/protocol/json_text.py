"""Read JSON with comments, as Kafka's schema files are written.

In: text. Out: the value; duplicate keys, trailing commas and anything after the value are errors with line and column.
"""

from __future__ import annotations

import json
import re
from typing import Final, TypeAlias, cast

JsonValue: TypeAlias = "bool | int | float | str | list[JsonValue] | dict[str, JsonValue] | None"

_STRING_OR_COMMENT: Final = re.compile(r'"(?:[^"\\\n]|\\.)*"|//[^\n]*|/\*.*?\*/', re.DOTALL)


class JsonTextError(ValueError):
    """The text is not JSON with comments; says where."""


def parse_json_with_comments(text: str) -> JsonValue:
    """Parse JSON in which `//` and `/* */` comments may stand between values.

    Raises:
        JsonTextError: with line and column.
    """
    plain = _STRING_OR_COMMENT.sub(_blank_comment, text)
    try:
        return cast("JsonValue", json.loads(plain, object_pairs_hook=_object, parse_constant=_refuse))
    except json.JSONDecodeError as error:
        near = plain.splitlines()[error.lineno - 1].strip() if plain.strip() else ""
        raise JsonTextError(
            f"not JSON at line {error.lineno}, column {error.colno}: {error.msg}, in `{near}`"
        ) from None
    except RecursionError:
        raise JsonTextError("nested too deeply") from None


def _blank_comment(match: re.Match[str]) -> str:
    token = match[0]
    if token.startswith('"'):
        return token
    # newlines stay, so that errors name the right line
    return "".join(character if character == "\n" else " " for character in token)


def _object(pairs: list[tuple[str, JsonValue]]) -> dict[str, JsonValue]:
    values = dict(pairs)
    if len(values) != len(pairs):
        keys = [key for key, _ in pairs]
        twice = next(key for key in keys if keys.count(key) > 1)
        raise JsonTextError(f"attribute {twice!r} stands twice in the same object")
    return values


def _refuse(constant: str) -> None:
    raise JsonTextError(f"{constant} is not JSON")

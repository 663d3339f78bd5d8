"""Find and read the schema files that come with the package.

In: a message name. Out: its schema, read once. Must never: read anything at import.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path

from shareproxy.protocol.errors import SchemaError
from shareproxy.protocol.schema import MessageSchema, parse_schema

_PACKAGE = Path(__file__).resolve().parent


def schema_directory() -> Path:
    """Return the folder of the schema files: inside the wheel, or the checkout's top level."""
    packaged = _PACKAGE / "schemas"
    return packaged if packaged.is_dir() else _PACKAGE.parent.parent / "protocol_schemas"


@cache
def load_schema(name: str) -> MessageSchema:
    """Read the schema of one message.

    Raises:
        SchemaError: there is no such file, or it is wrong.
    """
    path = schema_directory() / f"{name}.json"
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise SchemaError(path.name, "", "", f"cannot be read: {error.strerror}") from None
    return parse_schema(text, path.name)


def schema_names() -> list[str]:
    """List the messages that have a schema file, in alphabetical order."""
    return sorted(path.stem for path in schema_directory().glob("*.json"))

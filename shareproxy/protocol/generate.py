"""Write `messages.py` from the schema files (`make generate`).

In: the schemas. Out: the module's text. Must never: depend on anything but the schemas, so that the
checked-in file can be proven current.
"""

from __future__ import annotations

import re
import sys
import textwrap
from pathlib import Path

from shareproxy.protocol.naming import class_name, snake_case
from shareproxy.protocol.schema import ZERO_UUID, FieldSchema, MessageSchema
from shareproxy.protocol.schema_files import load_schema, schema_names

_PYTHON_TYPES = {
    "bool": "bool",
    "float64": "float",
    "string": "str",
    "bytes": "bytes",
    "records": "bytes",
    "uuid": "bytes",
}
_HEADING = '''"""Typed messages, one class per struct for all versions.

Generated from protocol_schemas/ by `make generate`; edit the schemas, not this file.
"""

from __future__ import annotations

from typing import ClassVar

from msgspec import field

from shareproxy.protocol.message import Message, ProtocolStruct, Request, Response, UnknownTags
'''


def render() -> str:
    """Return the text of `messages.py`."""
    blocks = [_HEADING]
    seen: dict[str, str] = {}
    # responses first: a request class names the class of its answer
    schemas = sorted(
        (load_schema(name) for name in schema_names()), key=lambda schema: (schema.kind == "request", schema.name)
    )
    for schema in schemas:
        for struct, fields in schema.structs():
            name = class_name(schema.name, struct)
            if seen.setdefault(name, schema.name) != schema.name:
                raise ValueError(f"class {name} is needed by {seen[name]} and by {schema.name}")
            blocks.append(_render_class(schema, struct, name, fields))
    names = ", ".join(schema.name for schema in schemas)
    blocks.append(
        "MESSAGES: tuple[type[Message], ...] = (\n"
        + textwrap.fill(names, 110, initial_indent="    ", subsequent_indent="    ")
        + ",\n)\n"
    )
    return "\n\n".join(blocks)


def _render_class(schema: MessageSchema, struct: str, name: str, fields: tuple[FieldSchema, ...]) -> str:
    top = struct == schema.name
    lines = [f"class {name}({_base(schema) if top else 'ProtocolStruct'}, gc=False):"]
    lines += [f'    """{_docstring(schema, struct, top)}"""', ""]
    if top:
        lines += _class_variables(schema)
    for item in fields:
        annotation, default = _annotation(schema, item)
        lines.append(f"    {snake_case(item.name)}: {annotation} = {default}")
    lines.append("    unknown_tags: UnknownTags = ()")
    return "\n".join(lines) + "\n"


def _base(schema: MessageSchema) -> str:
    if schema.kind == "request":
        return f"Request[{re.sub('Request$', 'Response', schema.name)}]"
    return "Response" if schema.kind == "response" else "Message"


def _docstring(schema: MessageSchema, struct: str, top: bool) -> str:
    if not top:
        return f"`{struct}` of {schema.name}."
    key = f", API key {schema.api_key}" if schema.api_key is not None else ""
    return f"{schema.name} {schema.valid_versions}{key}."


def _class_variables(schema: MessageSchema) -> list[str]:
    lines = [f'    schema_name: ClassVar[str] = "{schema.name}"']
    if schema.api_key is not None:
        lines.append(f"    api_key: ClassVar[int] = {schema.api_key}")
    if schema.kind == "request":
        lines.append(f"    response_class: ClassVar[type[Response]] = {re.sub('Request$', 'Response', schema.name)}")
    flexible = schema.flexible_versions.lowest if schema.flexible_versions else 32767
    lines.append(f"    min_version: ClassVar[int] = {schema.valid_versions.lowest}")
    lines.append(f"    max_version: ClassVar[int] = {schema.valid_versions.highest}")
    lines.append(f"    first_flexible_version: ClassVar[int] = {flexible}")
    return lines


def _annotation(schema: MessageSchema, item: FieldSchema) -> tuple[str, str]:
    if item.is_struct:
        python = class_name(schema.name, item.element)
    else:
        python = _PYTHON_TYPES.get(item.element, "int")
    nullable = bool(item.nullable_versions) or item.default_null
    if item.is_array:
        python = f"list[{python}]"
    if item.default_null:
        default = "None"
    elif item.is_array:
        default = "field(default_factory=list)"
    elif item.is_struct:
        default = f"field(default_factory={python})"
    elif item.element == "uuid" and item.default == ZERO_UUID:
        default = "bytes(16)"
    else:
        default = _literal(item.default)
    return (f"{python} | None" if nullable else python), default


def _literal(value: object) -> str:
    text = repr(value)
    return '"' + text[1:-1] + '"' if isinstance(value, str) and '"' not in value else text.replace("b''", 'b""')


def main() -> int:
    """Write `messages.py`, or with `--check` only tell whether it is current."""
    path = Path(__file__).with_name("messages.py")
    text = _formatted(render())
    if "--check" not in sys.argv:
        path.write_text(text, encoding="utf-8")
        return 0
    if path.exists() and path.read_text(encoding="utf-8") == text:
        return 0
    print(f"{path.name} is not what the schemas give; run `make generate`", file=sys.stderr)
    return 1


def _formatted(text: str) -> str:
    import subprocess

    command = [sys.executable, "-m", "ruff", "format", "--stdin-filename", "messages.py", "-"]
    return subprocess.run(command, input=text, capture_output=True, text=True, check=True).stdout


if __name__ == "__main__":
    sys.exit(main())

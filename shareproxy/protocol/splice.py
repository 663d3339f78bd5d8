"""Change the broker addresses in an answer without decoding it.

In: a message class, a version and a body. Out: head + new addresses + tail. The way to the addresses comes from the
plan and is compiled once per message and version; what follows the last address is never looked at.
Must never: build objects for what it only steps over, or raise anything but `DecodeError` for damaged bytes.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from functools import cache
from typing import Final, NamedTuple, TypeAlias, cast

from shareproxy.protocol import interpreter, primitives
from shareproxy.protocol.compiler import EXPLAINED_BYTES
from shareproxy.protocol.errors import DecodeError, EncodeError
from shareproxy.protocol.message import Response
from shareproxy.protocol.plan import FIXED, MAX_ARRAY_COUNT, MAX_STRING_BYTES, Step, StructPlan, plan_for
from shareproxy.protocol.source import Source

_I16: Final = struct.Struct(">h")
_I32: Final = struct.Struct(">i")


class Address(NamedTuple):
    """Where a client is told to connect for a node."""

    node_id: int
    host: str
    port: int


Located: TypeAlias = tuple[int, Address, int]
"""Start and stop of the bytes that hold host and port, with the address between them."""

Locator: TypeAlias = Callable[[bytes, int], list[Located]]
AddressMapping: TypeAlias = Callable[[int, str, int], tuple[str, int] | None]
"""(node id, host, port) of a broker to (host, port) for clients; None leaves it."""


def edit_addresses(message: type[Response], version: int, frame: bytes, offset: int, mapping: AddressMapping) -> bytes:
    """Give the addresses in an answer to `mapping` and put its answers in their place.

    Args:
        message: class of the answer; one that holds addresses in this version.
        version: API version of the body.
        frame: header and body.
        offset: where the body starts in `frame`.
        mapping: (node_id, host, port) → new (host, port), or None to leave it. Addresses that stand for
            "nobody" (node −1, host "", port −1) are left without asking.

    Returns:
        The new body, without the `offset` bytes before it.

    Raises:
        DecodeError: the bytes up to the last address are not such a message.
        EncodeError: `mapping` gave a host or a port that cannot be written.
    """
    compact = version >= message.first_flexible_version
    parts: list[bytes] = []
    position = offset
    for start, (node_id, host, port), stop in locate_addresses(message, version, frame, offset):
        if node_id < 0 or not host or port < 0:
            continue
        new = mapping(node_id, host, port)
        if new is not None:
            parts += (frame[position:start], address_bytes(*new, compact))
            position = stop
    parts.append(frame[position:])
    return b"".join(parts)


def locate_addresses(message: type[Response], version: int, frame: bytes, offset: int) -> list[Located]:
    """Find the addresses in an answer.

    Args: as for `edit_addresses`.

    Raises:
        DecodeError: the bytes up to the last address are not such a message.
    """
    try:
        walk = _locator(message, version)
    except ValueError as error:
        raise DecodeError(str(error)) from None
    try:
        return walk(frame, offset)
    except (IndexError, struct.error, ValueError):
        pass
    if len(frame) - offset <= EXPLAINED_BYTES:
        # the interpreter stumbles over the same bytes and knows the field's name
        interpreter.decode(plan_for(message, version), frame, offset)
    raise DecodeError("damaged before the last address", (message.schema_name,))


def tags_start(message: type[Response], version: int, frame: bytes, offset: int) -> int:
    """Find where the tagged fields of an answer begin, behind all others.

    Args:
        message: class of the answer.
        version: a flexible version.
        frame: header and body.
        offset: where the body starts in `frame`.

    Raises:
        DecodeError: the bytes up to there are not such a message.
    """
    try:
        return _tags_finder(message, version)(frame, offset)
    except (IndexError, struct.error, ValueError):
        raise DecodeError("damaged before its tagged fields", (message.schema_name,)) from None


@cache
def _tags_finder(message: type[Response], version: int) -> Callable[[bytes, int], int]:
    source = _new_source()
    with source.block("def find(data, p):"):
        source.line("end = len(data)")
        _Walk(source).fields(plan_for(message, version).steps, None)
        source.line("if p >= end: raise ValueError")
        source.line("return p")
    return cast("Callable[[bytes, int], int]", source.function("find", f"tags of {message.schema_name} {version}"))


@cache
def _locator(message: type[Response], version: int) -> Locator:
    return compile_locator(plan_for(message, version), f"{message.schema_name} version {version}")


def compile_locator(plan: StructPlan, title: str) -> Locator:
    """Return what finds the addresses: (data, offset) → a list, or some exception if the bytes are damaged.

    Raises:
        ValueError: there are none in this version.
    """
    if not _holds_addresses(plan):
        raise ValueError(f"{title} holds no addresses")
    source = _new_source()
    with source.block("def locate(data, p):"):
        source.line("end = len(data)")
        source.line("found = []")
        _Walk(source).struct(plan, to_the_end=False)
        # a step over bytes that are not there left the position behind the end
        source.line("if p > end: raise ValueError")
        source.line("return found")
    return cast("Locator", source.function("locate", f"addresses in {title}"))


def _new_source() -> Source:
    source = Source()
    source.names.update(
        i16=_I16.unpack_from,
        i32=_I32.unpack_from,
        varint=primitives.read_varint,
        skip_tags=primitives.skip_tags,
        Address=Address,
    )
    return source


def _address_steps(plan: StructPlan) -> tuple[Step, Step, Step] | None:
    """Return node id, host and port if the struct has them in a row in this version."""
    present = [step for step in plan.steps if step.present]
    for node, host, port in zip(present, present[1:], present[2:], strict=False):
        if (host.attribute, port.attribute) == ("host", "port") and node.attribute in ("node_id", "broker_id"):
            return node, host, port
    return None


def _holds_addresses(plan: StructPlan) -> bool:
    return _address_steps(plan) is not None or any(_leads_to_addresses(step) for step in plan.steps)


def _leads_to_addresses(step: Step) -> bool:
    return step.present and step.struct is not None and _holds_addresses(step.struct)


class _Walk:
    """Writes the lines that move `p` over fields."""

    def __init__(self, source: Source) -> None:
        self.source = source

    def struct(self, plan: StructPlan, *, to_the_end: bool = True) -> None:
        """Step over a struct; not to the end: stop behind the last address."""
        steps = [step for step in plan.steps if step.present]
        address = _address_steps(plan)
        if not to_the_end:
            last = max(i for i, step in enumerate(steps) if _leads_to_addresses(step) or (address and step in address))
            steps = steps[: last + 1]
        self.fields(steps, address)
        if plan.flexible and to_the_end:
            self.source.line("if data[p]: p = skip_tags(data, p)")
            self.source.line("else: p += 1")

    def fields(self, steps: Sequence[Step], address: tuple[Step, Step, Step] | None) -> None:
        """Step over fields that are present; note the address if they have one."""
        fixed = 0
        for step in steps:
            if not step.present:
                continue
            if address is not None and step in address:
                if step is address[0]:
                    self._move(fixed)
                    self.source.line("node_id, = i32(data, p)")
                    fixed = 4
                elif step is address[2]:
                    self._move(fixed)
                    fixed = 0
                    self._address(*address[1:])
                continue
            if step.element in FIXED and not step.is_array:
                fixed += struct.calcsize(">" + FIXED[step.element])
                continue
            self._move(fixed)
            fixed = 0
            self._field(step)
        self._move(fixed)

    def _move(self, size: int) -> None:
        if size:
            self.source.line(f"p += {size}")

    def _address(self, host: Step, port: Step) -> None:
        line = self.source.line
        line("start = p")
        self._length("n", host, "h")
        with self.source.block("if n < 0:"):
            line("host = ''" if host.nullable else "raise ValueError")
        with self.source.block("else:"):
            line("host = data[p:p + n].decode()")
            line("p += n")
        line("port, = i32(data, p)")
        line("p += 4")
        line("found.append((start, Address(node_id, host, port), p))")

    def _field(self, step: Step) -> None:
        if step.is_array:
            self._array(step)
        elif step.struct is not None:
            self._nested(step, step.struct)
        else:
            self._text(step)

    def _text(self, step: Step) -> None:
        self._length("n", step, "h" if step.element == "string" else "i")
        if step.nullable:
            self.source.line("if n > 0: p += n")
        else:
            self.source.line("if n < 0: raise ValueError")
            self.source.line("p += n")

    def _length(self, name: str, step: Step, code: str) -> None:
        """Set a variable to a length or count, −1 for null, and step over it."""
        line = self.source.line
        if step.compact:
            line(f"{name} = data[p] - 1")
            line("p += 1")
            line(f"if {name} > 126: {name}, p = varint(data, p - 1); {name} -= 1")
        else:
            line(f"{name}, = {'i16' if code == 'h' else 'i32'}(data, p)")
            line(f"p += {2 if code == 'h' else 4}")
        if step.element == "string" and not step.is_array:
            line(f"if {name} > {MAX_STRING_BYTES}: raise ValueError")

    def _array(self, step: Step) -> None:
        line, count = self.source.line, self.source.fresh("count")
        self._length(count, step, "i")
        if not step.nullable:
            line(f"if {count} < 0: raise ValueError")
        line(f"if {count} > end - p or {count} > {MAX_ARRAY_COUNT}: raise ValueError")
        if step.element in FIXED:
            line(f"if {count} > 0: p += {count} * {struct.calcsize('>' + FIXED[step.element])}")
            return
        with self.source.block(f"for _ in range({count}):"):
            if step.struct is not None:
                self.struct(step.struct)
            else:
                self._length("n", step, "h" if step.element == "string" else "i")
                line("if n < 0: raise ValueError")
                line("p += n")

    def _nested(self, step: Step, plan: StructPlan) -> None:
        if not step.nullable:
            self.struct(plan)
            return
        self.source.line("p += 1")
        with self.source.block("if data[p - 1] < 128:"):
            self.struct(plan)


def address_bytes(host: str, port: int, compact: bool) -> bytes:
    """Write host and port as they stand in answers.

    Raises:
        EncodeError: a message cannot hold them.
    """
    raw = host.encode()
    size = len(raw)
    if size > MAX_STRING_BYTES or not 0 <= port < 2**31:
        raise EncodeError(f"{host[:80]!r}, port {port} is not an address that a message can hold")
    length = primitives.varint(size + 1) if compact else _I16.pack(size)
    return length + raw + _I32.pack(port)

"""Read and write arrays of uniform structs at one go.

In: a plan whose fields are of fixed size, save for texts that are mostly null and short arrays of numbers.
Out: functions that handle as many elements as look alike, guessing that texts are null, that there are no tagged
fields, and that the arrays are as long as in the first element. Must never: trust a guess before it is checked.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from itertools import starmap
from typing import Any, Final, Generic, TypeAlias, TypeVar

import msgspec

from shareproxy.protocol.construction import arguments, not_default, unwritable
from shareproxy.protocol.plan import FIXED, Step, StructPlan
from shareproxy.protocol.source import Source

StretchReader: TypeAlias = Callable[[bytes, int, int], tuple[list[Any], int]]
"""(data, position, count) → the first elements, perhaps none and perhaps all, and the position behind them."""

StretchWriter: TypeAlias = Callable[[Sequence[Any], list[bytes]], int]
"""(elements, output) → how many of the first elements were written, perhaps none and perhaps all."""

Shape: TypeAlias = tuple[int, ...]
"""Lengths of the arrays in an element."""

FEW: Final = 8  # up to here there is a function for each count, without a loop
WIDEST: Final = 8  # longer arrays of numbers are read one by one: partitions have few replicas
WORTH: Final = 64  # elements of a shape before a function is compiled for it; it costs as much as reading thousands
ARGUMENTS: Final = 30  # of one call
MOST: Final = 256  # functions kept for one struct: a peer chooses the shapes

F = TypeVar("F")


class Part(msgspec.Struct, frozen=True):
    """One piece of a flat struct.

    Args:
        step: its field; `None` for the tag section.
        kind: "fixed", "null", "numbers" or "tags".
        code: `struct` code of the value, or of one number.
        size_code: code of the length or count that is guessed.
    """

    step: Step | None
    kind: str
    code: str
    size_code: str


class Flat(msgspec.Struct, frozen=True):
    """A struct that can be read in stretches."""

    plan: StructPlan
    parts: tuple[Part, ...]

    @property
    def numbers(self) -> list[Part]:
        """Return the parts that make up the shape."""
        return [part for part in self.parts if part.kind == "numbers"]


def flatten(plan: StructPlan) -> Flat | None:
    """Return the pieces of a struct, or `None` if it cannot be read in stretches."""
    parts = []
    for step in plan.steps:
        if not step.present:
            continue
        part = _part(step)
        if part is None:
            return None
        parts.append(part)
    if plan.flexible:
        parts.append(Part(None, "tags", "", "B"))
    return Flat(plan, tuple(parts)) if any(part.kind == "fixed" for part in parts) else None


def _part(step: Step) -> Part | None:
    if step.struct is not None:
        return None
    code = FIXED.get(step.element)
    if step.is_array:
        return (
            None
            if code is None or code == "16s" or step.nullable
            else Part(step, "numbers", code, "B" if step.compact else "I")
        )
    if code is not None:
        return Part(step, "fixed", code, "")
    if not step.nullable:
        return None
    size_code = "B" if step.compact else "H" if step.element == "string" else "I"
    return Part(step, "null", "", size_code)


class _Layout:
    """Where the pieces of an element of a certain shape lie.

    Args:
        copy: number that sets the variables of several elements apart.

    Attributes:
        codes: `struct` codes with the guessed bytes among them.
        padded: the same with the guessed bytes left out.
        variables: names for the values of `codes`, guesses included.
        values: names for the values of `padded`.
        guesses: name and number that each guess must have.
        guessed_bytes: offset and value of each guessed byte.
        fields: expression of each field by attribute.
    """

    def __init__(self, flat: Flat, shape: Shape, copy: int = 0) -> None:
        self._copy = copy
        self.codes = self.padded = ""
        self.variables: list[str] = []
        self.values: list[str] = []
        self.guesses: list[tuple[str, int]] = []
        self.guessed_bytes: list[tuple[int, int]] = []
        self.fields: dict[str, str] = {}
        self.size = 0
        counts = iter(shape)
        for part in flat.parts:
            count = next(counts) if part.kind == "numbers" else 0
            if part.size_code:
                self._guess(part, count)
            if part.step is None:
                continue
            if part.kind == "fixed":
                self.fields[part.step.attribute] = self._value(part.code)
            elif part.kind == "null":
                self.fields[part.step.attribute] = "None"
            else:
                numbers = [self._value(part.code) for _ in range(count)]
                self.fields[part.step.attribute] = f"[{', '.join(numbers)}]"

    def _guess(self, part: Part, count: int) -> None:
        number, size = guessed_number(part, count), struct.calcsize(">" + part.size_code)
        self.guessed_bytes += [(self.size + i, byte) for i, byte in enumerate(number.to_bytes(size))]
        name = f"g{self._copy}_{len(self.guesses)}"
        self.guesses.append((name, number))
        self.variables.append(name)
        self.codes += part.size_code
        self.padded += "x" * size
        self.size += size

    def _value(self, code: str) -> str:
        name = f"v{self._copy}_{len(self.values)}"
        self.values.append(name)
        self.variables.append(name)
        self.codes += code
        self.padded += code
        self.size += struct.calcsize(">" + code)
        return name


def guessed_number(part: Part, count: int) -> int:
    """Return what the length, count or tag count of a part is on the wire if the guess is right."""
    if part.kind == "numbers":
        return count + 1 if part.size_code == "B" else count
    if part.kind == "tags" or part.size_code == "B":
        return 0
    return 0xFFFF if part.size_code == "H" else 0xFFFFFFFF


class _Shaped(Generic[F]):
    """Functions for the shapes that have come up often enough.

    Args:
        compile_for: makes the function for a count up to `FEW`, or 0 for any above, and a shape.
    """

    def __init__(self, compile_for: Callable[[int, Shape], F]) -> None:
        self._compile_for = compile_for
        self._functions: dict[tuple[int, Shape], F] = {}
        self._elements: dict[tuple[int, Shape], int] = {}

    def get(self, count: int, shape: Shape) -> F | None:
        """Return the function for an array, if there is one."""
        key = (count if count <= FEW else 0, shape)
        function = self._functions.get(key)
        if function is None and max(shape, default=0) <= WIDEST and len(self._functions) < MOST:
            elements = self._elements[key] = self._elements.get(key, 0) + count
            if elements >= WORTH:
                function = self._functions[key] = self._compile_for(*key)
        return function


def stretch_reader(flat: Flat) -> tuple[StretchReader, list[StretchReader]]:
    """Return what reads a stretch of any shape, and the functions that did so lately.

    The latter stand at the index of their count, at 0 for all above `FEW`. To try one of them first saves time,
    as the arrays of a message tend to be alike; if it finds nothing, the general function has to be called.
    """
    shaped = _Shaped(lambda count, shape: _reader(flat, count, shape))
    shape_of = _shape_reader(flat)
    latest: list[StretchReader] = [_read_none] * (FEW + 1)

    def read(data: bytes, p: int, count: int) -> tuple[list[Any], int]:
        reader = shaped.get(count, shape_of(data, p)) if count > 0 else None
        if reader is None:
            return [], p
        latest[count if count <= FEW else 0] = reader
        return reader(data, p, count)

    return read, latest


def _read_none(data: bytes, p: int, count: int) -> tuple[list[Any], int]:
    return [], p


def _shape_reader(flat: Flat) -> Callable[[bytes, int], Shape]:
    """Return what reads the shape of the element at a position."""
    if not flat.numbers:
        return lambda data, p: ()
    source = Source()
    source.names["u32"] = struct.Struct(">I").unpack_from
    offset, moves = 0, ""
    counts: list[str] = []
    with source.block("def shape(data, p):"):
        for part in flat.parts:
            if part.kind != "numbers":
                offset += struct.calcsize(">" + part.code + part.size_code)
                continue
            name = f"c{len(counts)}"
            counts.append(name)
            if part.size_code == "B":
                source.line(f"{name} = data[p + {offset}{moves}] - 1")
            else:
                source.line(f"{name}, = u32(data, p + {offset}{moves})")
            # null, or more than there is a function for
            source.line(f"if not 0 <= {name} <= {WIDEST}: return ({WIDEST + 1},)")
            moves += f" + {name} * {struct.calcsize('>' + part.code)}"
            offset += struct.calcsize(">" + part.size_code)
        source.line(f"return ({', '.join(counts)},)")
    return source.function("shape", f"shape of {flat.plan.struct_class.__name__}")


def _reader(flat: Flat, count: int, shape: Shape) -> StretchReader:
    """Compile what reads `count` elements of a shape, any number above `FEW` for 0."""
    source = Source()
    build = source.name("Struct", flat.plan.struct_class)
    with source.block("def read(data, p, count):"):
        if count:
            _read_few(source, flat, [_Layout(flat, shape, copy) for copy in range(count)], build)
        else:
            _read_many(source, flat, _Layout(flat, shape), build)
    return source.function("read", f"read {count or 'many'} {flat.plan.struct_class.__name__} {shape}")


def _read_few(source: Source, flat: Flat, layouts: list[_Layout], build: str) -> None:
    codes = "".join(layout.codes for layout in layouts)
    size = struct.calcsize(">" + codes)
    source.names["unpack"] = struct.Struct(">" + codes).unpack_from
    source.line(f"if p + {size} > len(data): return [], p")
    source.line(f"{', '.join(name for layout in layouts for name in layout.variables)}, = unpack(data, p)")
    if wrong := [_wrong_guess(*guess) for layout in layouts for guess in layout.guesses]:
        source.line(f"if {' or '.join(wrong)}: return [], p")
    calls = [f"{build}({', '.join(arguments(source, flat.plan, layout.fields))})" for layout in layouts]
    source.line(f"return [{', '.join(calls)}], p + {size}")


def _read_many(source: Source, flat: Flat, layout: _Layout, build: str) -> None:
    call = arguments(source, flat.plan, layout.fields)
    source.names["unpack"] = struct.Struct(">" + layout.codes).unpack_from
    source.names["iterate"] = struct.Struct(">" + layout.padded).iter_unpack
    source.names["starmap"] = starmap
    if call == layout.values:
        whole = f"list(starmap({build}, iterate(data[p:stop])))"
    else:
        values = ", ".join(layout.values)
        whole = f"[{build}({', '.join(call)}) for {values}, in iterate(data[p:stop])]"
    checks = [f"data[p + {offset}:stop:{layout.size}].count({byte}) == count" for offset, byte in layout.guessed_bytes]
    source.line(f"stop = p + count * {layout.size}")
    with source.block(f"if {' and '.join(['stop <= len(data)', *checks])}:"):
        source.line(f"return {whole}, stop")
    # not all alike: take those before the first that is not
    source.line("found = []")
    with source.block(f"for _ in range(min(count, (len(data) - p) // {layout.size})):"):
        source.line(f"{', '.join(layout.variables)}, = unpack(data, p)")
        if layout.guesses:
            source.line(f"if {' or '.join(_wrong_guess(*guess) for guess in layout.guesses)}: break")
        source.line(f"found.append({build}({', '.join(call)}))")
        source.line(f"p += {layout.size}")
    source.line("return found, p")


def _wrong_guess(name: str, number: int) -> str:
    return f"{name} != {number}" if number else name


def stretch_writer(flat: Flat) -> tuple[StretchWriter, list[StretchWriter]]:
    """Return what writes a stretch of any shape, and the functions that did so lately; see `stretch_reader`."""
    shaped = _Shaped(lambda count, shape: _writer(flat, count, shape))
    names = [part.step.attribute for part in flat.numbers if part.step is not None]
    latest: list[StretchWriter] = [_write_none] * (FEW + 1)

    def write(values: Sequence[Any], out: list[bytes]) -> int:
        count = len(values)
        writer = shaped.get(count, tuple([len(getattr(values[0], name)) for name in names])) if count else None
        if writer is None:
            return 0
        latest[count if count <= FEW else 0] = writer
        return writer(values, out)

    return write, latest


def _write_none(values: Sequence[Any], out: list[bytes]) -> int:
    return 0


class _Element:
    """What it takes to write an element.

    Attributes:
        unpacking: statements that raise `ValueError` if arrays have other lengths.
        wrong: conditions, each of which rules the fast way out.
        values: expressions for the codes of the layout.
    """

    def __init__(self, source: Source, flat: Flat, layout: _Layout, shape: Shape, element: str) -> None:
        self.unpacking: list[str] = []
        self.wrong: list[str] = []
        self.values: list[str] = []
        counts, guesses = iter(shape), iter(layout.guesses)
        for part in flat.parts:
            if part.size_code:
                self.values.append(str(next(guesses)[1]))
            if part.step is not None:
                self._part(part, f"{element}.{part.step.attribute}", next(counts) if part.kind == "numbers" else 0)
        self.wrong.append(f"{element}.unknown_tags")
        for step in flat.plan.steps:
            item = f"{element}.{step.attribute}"
            if step.tag is not None:
                self.wrong.append(not_default(source, step, item))
            elif not step.present and (condition := unwritable(source, step, item)):
                self.wrong.append(condition)

    def _part(self, part: Part, item: str, count: int) -> None:
        if part.kind == "fixed":
            self.values.append(item)
            if part.code == "16s":
                self.wrong.append(f"len({item}) != 16")
        elif part.kind == "null":
            self.wrong.append(f"{item} is not None")
        elif count:
            names = [f"{item.replace('.', '_')}_{number}" for number in range(count)]
            self.unpacking.append(f"{', '.join(names)}, = {item}")
            self.values += names
        else:
            self.wrong.append(f"len({item})")


def _writer(flat: Flat, count: int, shape: Shape) -> StretchWriter:
    """Compile what writes `count` elements of a shape, any number above `FEW` for 0."""
    source = Source()
    layout = _Layout(flat, shape)
    names = [f"e{number}" for number in range(count or 1)]
    elements = [_Element(source, flat, layout, shape, name) for name in names]
    wrong = " or ".join(condition for element in elements for condition in element.wrong)
    unpacking = "; ".join(statement for element in elements for statement in element.unpacking)
    # Python passes more arguments than that through a list, which takes as long as packing them
    at_once = min(len(names), max(1, ARGUMENTS // max(1, len(layout.variables))))
    packs = []
    for start in range(0, len(names), at_once):
        group = elements[start : start + at_once]
        pack = source.shared(f"pack {len(group)}", "pack", struct.Struct(">" + layout.codes * len(group)).pack)
        packs.append(f"{pack}({', '.join(value for element in group for value in element.values)})")
    with source.block("def write(values, out):"):
        if count:
            source.line(f"{', '.join(names)}, = values")
            source.line(f"if {wrong}: return 0")
            if unpacking:
                source.line(f"try: {unpacking}")
                source.line("except ValueError: return 0")
            source.line(f"out += ({', '.join(packs)},)")
            source.line(f"return {count}")
        else:
            source.line("before = len(out)")
            source.line("add = out.append")
            with source.block("for e0 in values:"):
                source.line(f"if {wrong}: break")
                if unpacking:
                    source.line(f"try: {unpacking}")
                    source.line("except ValueError: break")
                source.line(f"add({packs[0]})")
            source.line("return len(out) - before")
    return source.function("write", f"write {count or 'many'} {flat.plan.struct_class.__name__} {shape}")

"""Write the function that writes a message in one version.

In: a plan. Out: `encode(message) -> bytes`, flat: structs and loops are written out, fields of fixed size that lie
next to each other are written with one `pack`, and uniform arrays go through `stretch`.
Must never: write what the interpreter refuses; what is wrong raises something, the interpreter finds the words.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from typing import Any, Final

import msgspec

from shareproxy.protocol import primitives
from shareproxy.protocol.construction import not_default, unwritable
from shareproxy.protocol.plan import FIXED, MAX_ARRAY_COUNT, Step, StructPlan
from shareproxy.protocol.source import Source
from shareproxy.protocol.stretch import FEW, flatten, stretch_writer

_WRITERS: Final = {
    (True, True): primitives.compact_text,
    (True, False): primitives.compact_bytes,
    (False, True): primitives.old_text,
    (False, False): primitives.old_bytes,
}
"""What writes an element of an array, by (compact, is a string)."""

_RUNTIME: Final = {
    function.__name__: function
    for function in (
        primitives.array_size,
        primitives.check_array,
        primitives.raw_bytes,
        primitives.text_size,
        primitives.varint,
        primitives.write_tags,
        primitives.write_uuids,
    )
}


def encode_function(plan: StructPlan, title: str) -> Callable[[Any], bytes]:
    """Compile a writer.

    Args:
        plan: of the message.
        title: names the source in tracebacks.
    """
    source = Source()
    source.names.update(_RUNTIME)
    _whole(source, "encode", plan)
    return source.function("encode", title)


def _whole(source: Source, name: str, plan: StructPlan) -> None:
    """Write a function that returns the bytes of one struct."""
    writer = _EncodeWriter(source)
    with source.block(f"def {name}(value):"):
        source.line("out = []")
        writer.struct(plan, "value")
        writer.flush()
        source.line("return b''.join(out)")


class _Piece(msgspec.Struct, frozen=True):
    """Something that is queued to be written.

    Args:
        code: `struct` code; "" for bytes as they are.
        expression: the value.
        long_size: function that writes the value if it is a compact size of more than one byte; else "".
        size: for bytes, the variable that holds their size as it is on the wire.
    """

    code: str
    expression: str
    long_size: str = ""
    size: str = ""


class _EncodeWriter:
    """Writes the lines of one function; `out` is the list of what has been written."""

    def __init__(self, source: Source) -> None:
        self.source = source
        self.queue: list[_Piece] = []

    def add(self, code: str, expression: str) -> None:
        """Queue a value of fixed size."""
        self.queue.append(_Piece(code, expression))

    def add_size(self, compact: bool, code: str, size: str, long_size: str) -> None:
        """Queue a size or count."""
        self.queue.append(_Piece("B", size, long_size) if compact else _Piece(code, size))

    def add_bytes(self, raw: str, size: str) -> None:
        """Queue bytes; there is one format for each length, so more than one piece of them cannot be packed at once."""
        if any(not piece.code for piece in self.queue):
            last = self.queue.pop()  # the size of these bytes
            self.flush()
            self.queue.append(last)
        self.queue.append(_Piece("", raw, size=size))

    def flush(self, *expressions: str) -> None:
        """Write what is queued, and then other bytes."""
        limits = [f"{piece.expression} < 128" for piece in self.queue if piece.long_size]
        limits += [f"{piece.size} < 128" for piece in self.queue if piece.size and f"{piece.size} < 128" not in limits]
        if limits:
            with self.source.block(f"if {' and '.join(limits)}:"):
                self.put([*self.packed(self.queue), *expressions])
            with self.source.block("else:"):
                self.put([*self.pieces(), *expressions])
        else:
            self.put([*self.packed(self.queue), *expressions])
        self.queue.clear()

    def put(self, parts: list[str]) -> None:
        """Append expressions of bytes to the output."""
        if len(parts) == 1 and not parts[0].startswith("*"):
            self.source.line(f"out.append({parts[0]})")
        elif parts:
            self.source.line(f"out += ({', '.join(parts)},)")

    def packed(self, queue: Sequence[_Piece]) -> list[str]:
        """Return a call that packs pieces at one go; nothing if there is nothing."""
        if not queue:
            return []
        values = ", ".join(piece.expression for piece in queue)
        codes = [piece.code for piece in queue]
        if "" not in codes:
            pack = self.source.shared(f"pack {codes}", "pack", struct.Struct(">" + "".join(codes)).pack)
            return [f"{pack}({values})"]
        at = codes.index("")
        before, after = "".join(codes[:at]), "".join(codes[at + 1 :])
        formats = primitives.TextFormats(before, after, compact=before.endswith("B"))
        packs = self.source.shared(f"pack {before}.{after}", "packs", formats)
        return [f"{packs}[{queue[at].size}]({values})"]

    def pieces(self) -> list[str]:
        """Return expressions that write what is queued, with sizes that may be long."""
        parts: list[str] = []
        fixed: list[_Piece] = []
        for piece in self.queue:
            if piece.code and not piece.long_size:
                fixed.append(piece)
                continue
            parts += self.packed(fixed)
            fixed.clear()
            parts.append(f"{piece.long_size}({piece.expression})" if piece.long_size else piece.expression)
        return [*parts, *self.packed(fixed)]

    def struct(self, plan: StructPlan, value: str) -> None:
        """Write a struct; `value` is the variable that holds it."""
        filled = [f"{value}.unknown_tags"]
        for step in plan.steps:
            item = f"{value}.{step.attribute}"
            if step.present:
                self.field(step, item)
            elif step.tag is not None:
                filled.append(not_default(self.source, step, item))
            elif condition := unwritable(self.source, step, item):
                self.source.line(f"if {condition}: raise ValueError")
        if not plan.flexible:
            self.source.line(f"if {value}.unknown_tags: raise ValueError")
            return
        # almost always there are none: their count is packed with what precedes it
        waiting = list(self.queue)
        with self.source.block(f"if {' or '.join(filled)}:"):
            known = self.source.name("known", self.tagged_writers(plan))
            closed = self.source.name("closed", plan.closed_tags)
            self.flush(f"write_tags({value}, {known}, {closed})")
        self.queue = waiting
        with self.source.block("else:"):
            self.add("B", "0")
            self.flush()

    def tagged_writers(self, plan: StructPlan) -> dict[int, primitives.TaggedWriter]:
        """Compile a writer for each tagged field."""
        writers: dict[int, primitives.TaggedWriter] = {}
        for tag, step in plan.tagged.items():
            name = f"{plan.struct_class.__name__}.{step.attribute}"
            writers[tag] = (step.attribute, step.is_default, _tagged_writer(step, f"encode tag {name}"))
        return writers

    def field(self, step: Step, item: str) -> None:
        """Write a field; `item` is an expression for it."""
        if step.is_array:
            self.array(step, item)
        elif step.struct is not None:
            self.nested(step, step.struct, item)
        elif step.element in FIXED:
            if step.element == "uuid":
                # struct pads and cuts byte strings without a word
                self.source.line(f"if len({item}) != 16: raise ValueError")
            self.add(FIXED[step.element], item)
        else:
            self.text(step, item)

    def text(self, step: Step, item: str) -> None:
        """Write a string or bytes."""
        line, raw, size = self.source.line, self.source.fresh("raw"), self.source.fresh("size")
        is_text = step.element == "string"
        plus, null = (" + 1", 0) if step.compact else ("", -1)
        bytes_of = "{}.encode()" if is_text else "raw_bytes({})"
        if step.nullable:
            line(f"{raw} = {item}")
            line(f"if {raw} is None: {raw} = b''; {size} = {null}")
            line(f"else: {raw} = {bytes_of.format(raw)}; {size} = len({raw}){plus}")
        else:
            line(f"{raw} = {bytes_of.format(item)}")
            line(f"{size} = len({raw}){plus}")
        self.add_size(step.compact, "h" if is_text else "i", size, "text_size" if is_text else "varint")
        self.add_bytes(raw, size)

    def nested(self, step: Step, plan: StructPlan, item: str) -> None:
        """Write a struct in place."""
        value = self.source.fresh("struct")
        self.source.line(f"{value} = {item}")
        if not step.nullable:
            self.struct(plan, value)
            return
        self.flush()
        with self.source.block(f"if {value} is None:"):
            self.put([r"b'\xff'"])
        with self.source.block("else:"):
            self.add("b", "1")
            self.struct(plan, value)
            self.flush()

    def array(self, step: Step, item: str) -> None:
        """Write an array."""
        line, array, size = self.source.line, self.source.fresh("array"), self.source.fresh("size")
        null = 0 if step.compact else -1
        count = f"len({array}){' + 1' if step.compact else ''}"
        line(f"{array} = {item}")
        if step.nullable:
            line(f"if {array} is None: {array} = (); {size} = {null}")
            line(f"else: {size} = {count}")
        else:
            line(f"{size} = {count}")
        if step.element not in FIXED:
            line(f"if {array}.__class__ is not list: check_array({array})")
        if not step.compact:
            line(f"if {size} > {MAX_ARRAY_COUNT}: raise ValueError")
        self.add_size(step.compact, "i", size, "array_size")
        self.flush(*self.plain_elements(step, array))
        if step.struct is not None:
            self.structs(step.struct, array)

    def plain_elements(self, step: Step, array: str) -> list[str]:
        """Return expressions of the elements' bytes, none for structs."""
        if step.struct is not None:
            return []
        if step.element == "uuid":
            return [f"write_uuids({array})"]
        if step.element in FIXED:
            code = FIXED[step.element]
            formats = self.source.shared(f"array {code}", "formats", primitives.ArrayFormats(code, "pack"))
            return [f"{formats}[len({array})](*{array})"]
        write = self.source.name("write", _WRITERS[step.compact, step.element == "string"])
        return [f"*map({write}, {array})"]

    def structs(self, plan: StructPlan, array: str) -> None:
        """Write an array of structs: in stretches as far as that goes, the rest one by one."""
        line = self.source.line
        flat = flatten(plan)
        if flat is not None:
            write, latest = stretch_writer(flat)
            stretch, lately = self.source.name("stretch", write), self.source.name("lately", latest)
            count, done = self.source.fresh("count"), self.source.fresh("done")
            line(f"{count} = len({array})")
            line(f"{done} = {lately}[{count} if {count} <= {FEW} else 0]({array}, out) or {stretch}({array}, out)")
            with self.source.block(f"if {done} != {count}:"):
                self.each(plan, f"{array}[{done}:]")
            return
        self.each(plan, array)

    def each(self, plan: StructPlan, array: str) -> None:
        """Write the structs of an array one by one."""
        element = self.source.fresh("element")
        with self.source.block(f"for {element} in {array}:"):
            self.struct(plan, element)
            self.flush()


def _tagged_writer(step: Step, title: str) -> Callable[[Any], bytes]:
    """Compile what writes the value inside a tagged field."""
    source = Source()
    source.names.update(_RUNTIME)
    writer = _EncodeWriter(source)
    with source.block("def encode(value):"):
        source.line("out = []")
        if step.struct is not None and not step.is_array and step.nullable:
            with source.block("if value is not None:"):
                writer.add("B", "1")
                writer.struct(step.struct, "value")
                writer.flush()
            source.line("else: out.append(b'\\0')")
        else:
            writer.field(step, "value")
            writer.flush()
        source.line("return b''.join(out)")
    return source.function("encode", title)

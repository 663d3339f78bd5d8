"""Write the function that reads a message in one version.

In: a plan. Out: `decode(data, p) -> (message, position)`, flat: structs and loops are written out, fields of fixed
size that lie next to each other are read with one `unpack`, and uniform arrays go through `stretch`.
Must never: accept what the interpreter refuses; what is rare may raise, the interpreter is asked then.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any, Final

from shareproxy.protocol import primitives
from shareproxy.protocol.construction import arguments
from shareproxy.protocol.plan import FIXED, Step, StructPlan
from shareproxy.protocol.source import Source
from shareproxy.protocol.stretch import FEW, flatten, stretch_reader

_READERS: Final = {
    (True, True): primitives.read_present_text,
    (True, False): primitives.read_present_bytes,
    (False, True): primitives.read_old_text,
    (False, False): primitives.read_old_bytes,
}
"""What reads an element of an array, by (compact, is a string)."""


_RUNTIME: Final = {
    function.__name__: function
    for function in (
        primitives.check_count,
        primitives.read_bytes,
        primitives.read_count,
        primitives.read_each,
        primitives.read_present_bytes,
        primitives.read_present_text,
        primitives.read_tags,
        primitives.read_text,
        primitives.read_uuids,
        primitives.read_varint,
    )
}


def decode_function(plan: StructPlan, title: str) -> Callable[[bytes, int], tuple[Any, int]]:
    """Compile a reader.

    Args:
        plan: of the message.
        title: names the source in tracebacks.
    """
    source = Source()
    source.names.update(_RUNTIME)
    writer = _DecodeWriter(source)
    with source.block("def decode(data, p):"):
        value = writer.struct(plan)
        # a slice that was cut short left the position behind the end
        source.line("if p > len(data): raise ValueError")
        source.line(f"return {value}, p")
    return source.function("decode", title)


class _DecodeWriter:
    """Writes the lines of one function; `p` is the position in `data`."""

    def __init__(self, source: Source) -> None:
        self.source = source
        self.pending: list[tuple[str, str]] = []  # struct codes not yet read, and variables for them

    def struct(self, plan: StructPlan) -> str:
        """Read a struct; returns the variable that holds it."""
        values = {step.attribute: self.field(step) for step in plan.steps if step.present}
        tags = self.ask("B", "tags") if plan.flexible else ""
        self.flush()
        target = self.source.fresh("value")
        build = self.source.name("Struct", plan.struct_class)
        self.source.line(f"{target} = {build}({', '.join(arguments(self.source, plan, values))})")
        if tags:
            known = self.source.name("known", self.tagged_readers(plan))
            closed = self.source.name("closed", plan.closed_tags)
            self.source.line(f"if {tags}: p = read_tags(data, p - 1, {target}, {known}, {closed})")
        return target

    def tagged_readers(self, plan: StructPlan) -> dict[int, primitives.TaggedReader]:
        """Compile a reader for each tagged field."""
        readers = {}
        for tag, step in plan.tagged.items():
            name = f"{plan.struct_class.__name__}.{step.attribute}"
            readers[tag] = (step.attribute, _tagged_reader(step, f"decode tag {name}"))
        return readers

    def ask(self, code: str, stem: str) -> str:
        """Queue a value of fixed size; returns its variable, which is set by the next `flush`."""
        variable = self.source.fresh(stem)
        self.pending.append((code, variable))
        return variable

    def flush(self) -> None:
        """Read all that is queued with one unpack."""
        if not self.pending:
            return
        codes = "".join(code for code, _ in self.pending)
        names = [name for _, name in self.pending]
        self.pending.clear()
        size = struct.calcsize(">" + codes)
        if codes == "B":
            self.source.line(f"{names[0]} = data[p]")
        else:
            unpack = self.source.shared(f"unpack {codes}", "unpack", struct.Struct(">" + codes).unpack_from)
            self.source.line(f"{', '.join(names)}, = {unpack}(data, p)")
        self.source.line(f"p += {size}")

    def field(self, step: Step) -> str:
        """Read a field; returns its variable, which may be set by the next `flush` only."""
        if step.is_array:
            return self.array(step)
        if step.struct is not None:
            return self.nested(step, step.struct)
        if step.element in FIXED:
            return self.ask(FIXED[step.element], "field")
        return self.text(step) if step.compact else self.old_text(step)

    def text(self, step: Step) -> str:
        """Read a compact string or bytes."""
        line, size, value = self.source.line, self.ask("B", "size"), self.source.fresh("text")
        self.flush()
        is_text = step.element == "string"
        ending = ".decode()" if is_text else ""
        kind = "text" if is_text else "bytes"
        with self.source.block(f"if 0 < {size} < 128:"):
            line(f"stop = p + {size} - 1")
            line(f"{value} = data[p:stop]{ending}")
            line("p = stop")
        if step.nullable:
            line(f"elif not {size}: {value} = None")
            line(f"else: {value}, p = read_{kind}(data, p - 1)")
        else:
            line(f"else: {value}, p = read_present_{kind}(data, p - 1)")
        return value

    def old_text(self, step: Step) -> str:
        """Read a string or bytes with a length of fixed size."""
        line, value = self.source.line, self.source.fresh("text")
        is_text = step.element == "string"
        size = self.ask("h" if is_text else "i", "size")
        self.flush()
        with self.source.block(f"if {size} >= 0:"):
            line(f"stop = p + {size}")
            line(f"{value} = data[p:stop]{'.decode()' if is_text else ''}")
            line("p = stop")
        line(f"else: {value} = None" if step.nullable else "else: raise ValueError")
        return value

    def nested(self, step: Step, plan: StructPlan) -> str:
        """Read a struct in place."""
        if not step.nullable:
            return self.struct(plan)
        marker, value = self.ask("b", "marker"), self.source.fresh("struct")
        self.flush()
        with self.source.block(f"if {marker} >= 0:"):
            self.source.line(f"{value} = {self.struct(plan)}")
        self.source.line(f"else: {value} = None")
        return value

    def array(self, step: Step) -> str:
        """Read an array."""
        line, value = self.source.line, self.source.fresh("array")
        count = self.ask("B" if step.compact else "i", "count")
        self.flush()
        if step.compact:
            line(f"if {count} > 127: {count}, p = read_count(data, p - 1)")
            line(f"{count} -= 1")
        elif _can_be_empty(step.struct):
            line(f"check_count({count}, len(data) - p)")
        else:
            # short ones need no check: each element takes a byte, the end of the data stops them
            line(f"if {count} > 126: check_count({count}, len(data) - p)")
        if step.nullable:
            with self.source.block(f"if {count} < 0:"):
                line(f"{value} = None")
            with self.source.block("else:"):
                self.elements(step, value, count)
        else:
            line(f"if {count} < 0: raise ValueError")
            self.elements(step, value, count)
        return value

    def elements(self, step: Step, value: str, count: str) -> None:
        """Read the elements of an array."""
        line = self.source.line
        if step.struct is not None:
            self.structs(step.struct, value, count)
        elif step.element == "uuid":
            line(f"{value} = read_uuids(data, p, {count})")
            line(f"p += 16 * {count}")
        elif step.element in FIXED:
            code = FIXED[step.element]
            formats = self.source.shared(f"array {code}", "formats", primitives.ArrayFormats(code, "unpack_from"))
            line(f"{value} = list({formats}[{count}](data, p)) if {count} else []")
            line(f"p += {count} * {struct.calcsize('>' + code)}")
        else:
            read = self.source.name("read", _READERS[step.compact, step.element == "string"])
            line(f"{value}, p = read_each({read}, data, p, {count})")

    def structs(self, plan: StructPlan, value: str, count: str) -> None:
        """Read an array of structs: in stretches as far as that goes, the rest one by one."""
        line = self.source.line
        flat = flatten(plan)
        if flat is not None:
            read, latest = stretch_reader(flat)
            stretch, lately = self.source.name("stretch", read), self.source.name("lately", latest)
            line(f"{value}, p = {lately}[{count} if {count} <= {FEW} else 0](data, p, {count})")
            line(f"if not {value} and {count}: {value}, p = {stretch}(data, p, {count})")
            with self.source.block(f"for _ in range({count} - len({value})):"):
                line(f"{value}.append({self.struct(plan)})")
            return
        line(f"{value} = []")
        with self.source.block(f"for _ in range({count}):"):
            line(f"{value}.append({self.struct(plan)})")


def _can_be_empty(plan: StructPlan | None) -> bool:
    """Tell whether a struct may take no bytes at all."""
    return plan is not None and not plan.flexible and not any(_takes_bytes(step) for step in plan.steps)


def _takes_bytes(step: Step) -> bool:
    return step.present and (step.is_array or step.nullable or not _can_be_empty(step.struct))


def _tagged_reader(step: Step, title: str) -> Callable[[bytes, int], tuple[object, int]]:
    """Compile what reads the value inside a tagged field."""
    source = Source()
    source.names.update(_RUNTIME)
    writer = _DecodeWriter(source)
    with source.block("def decode(data, p):"):
        if step.struct is not None and not step.is_array and step.nullable:
            source.line("marker, p = read_varint(data, p)")
            source.line("if marker > 1: raise ValueError")
            with source.block("if marker:"):
                source.line(f"value = {writer.struct(step.struct)}")
            source.line("else: value = None")
        else:
            variable = writer.field(step)
            writer.flush()
            source.line(f"value = {variable}")
        source.line("return value, p")
    return source.function("decode", title)

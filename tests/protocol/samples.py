"""Random messages, made from plans, and bytes damaged at random.

A sample follows from a seed and a size. Hypothesis chooses both and shrinks the size: drawing each value from it
would cost a hundred times as much, and damage is found by numbers here.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any

from hypothesis import strategies as st

from shareproxy.protocol.message import ProtocolStruct
from shareproxy.protocol.messages import MESSAGES
from shareproxy.protocol.plan import Step, StructPlan
from shareproxy.protocol.schema import INTEGERS

EACH_VERSION = [
    (message, version) for message in MESSAGES for version in range(message.min_version, message.max_version + 1)
]
"""Every message class with every version it has."""

TITLES = [f"{message.schema_name}-v{version}" for message, version in EACH_VERSION]

SEEDS = st.integers(0, 2**32)
SIZES = st.integers(0, 4)

HIGHEST_TAG = 2**31 - 2  # Java takes the next one for the end of the tags, and higher ones for negative

_TEXTS = ("", "orders", "größe", "\U0001f980" * 40, "x" * 126, "x" * 127, "x" * 128, "\0", "y" * 300, "a", "b-1")
_BLOBS = (b"", b"\0", bytes(126), bytes(127), bytes(128), b"\xff" * 300, bytes(range(9)))
_FLOATS = (0.0, -0.0, 1.5, -2.25e300, 5e-324, float("inf"), float("-inf"))
_UUIDS = (bytes(16), bytes(range(16)), b"\xff" * 16)
_HOSTILE = (
    b"\x7f\xff\xff\xff",  # counts and sizes of two billion
    b"\xff\xff\xff\xff\x0f",
    b"\xff\xff\xff\xff\xff\x0f",  # varints that are too long
    b"\x81\x80\x80\x80\x10",
    b"\x81\x00",  # longer than necessary, but legal
    b"\x80\x00",
    b"\xff\xff\xff\xff",
    b"\xff\xff",
    b"\x80",
    b"\0",
    b"\x01",
    b"\x02",
    b"\x01\x05\x02ab",  # a tag section
)

_WRONG: tuple[Any, ...] = (
    None,
    "x",
    "\ud800",
    "x" * 32_767,
    "x" * 32_768,
    b"x",
    bytes(15),
    bytes(16),
    bytearray(16),
    "x" * 16,
    2**15,
    2**31,
    2**32,
    2**63,
    -(2**63) - 1,
    -1,
    1.5,
    10**400,
    True,
    object(),
    [],
    (),
    {},
    [None],
    [1, 2],
    (1, 2, 3),
    ["x", None],
    [b"x"],
    [2**40],
    {1: 2, 2: 3},
    "123",
)


class Samples:
    """A source of messages and of damage.

    Args:
        seed: equal seeds give equal samples.
        size: largest number of elements in an array that is not made of equal ones.
    """

    def __init__(self, seed: int, size: int = 3) -> None:
        self.random, self.size = Random(seed), size

    def struct(self, plan: StructPlan) -> Any:
        """Return a struct that the version of the plan can carry."""
        values = {step.attribute: self.field(step) for step in plan.steps}
        if plan.flexible and self.random.random() < 0.2:
            values["unknown_tags"] = self.unknown_tags({*plan.tagged, *plan.closed_tags})
        return plan.struct_class(**values)

    def field(self, step: Step) -> object:
        """Return a value that a field can have in its version."""
        if not step.present and (step.tag is None or self.random.random() < 0.5):
            return step.make_default()
        if step.nullable and self.random.random() < 0.3:
            return None
        if step.is_array:
            return self.array(step)
        return self.primitive(step.element) if step.struct is None else self.struct(step.struct)

    def array(self, step: Step) -> list[object]:
        """Return elements that differ, or that look alike, or some of both."""
        if step.struct is None:
            return [self.primitive(step.element) for _ in range(self.random.randint(0, self.size))]
        elements: list[object] = []
        for _ in range(self.random.choice((1, 1, 1, 2, 3))):
            if self.random.random() < 0.5:
                elements += [self.struct(step.struct) for _ in range(self.random.randint(0, self.size))]
            else:
                elements += self.alike(step.struct)
        return elements

    def alike(self, plan: StructPlan) -> list[ProtocolStruct]:
        """Return structs as in answers without errors: null texts, no tags, arrays of one length."""
        lengths = {step.attribute: self.random.choice((0, 1, 2, 3, 3, 8, 9)) for step in plan.steps}
        count = self.random.choice((0, 1, 2, 3, 8, 9, 20)) if self.size else 0
        return [self._alike(plan, lengths) for _ in range(count)]

    def _alike(self, plan: StructPlan, lengths: dict[str, int]) -> ProtocolStruct:
        values: dict[str, object] = {}
        for step in plan.steps:
            if not step.present:
                values[step.attribute] = step.make_default()
            elif step.is_array and step.struct is None:
                values[step.attribute] = [self.primitive(step.element) for _ in range(lengths[step.attribute])]
            elif step.nullable:
                values[step.attribute] = None
            else:
                values[step.attribute] = [] if step.is_array else self.field(step)
        return plan.struct_class(**values)

    def primitive(self, element: str) -> object:
        """Return a value of a primitive type, often an extreme one."""
        choice = self.random.choice
        if element in INTEGERS:
            lowest, highest = INTEGERS[element]
            if self.random.random() < 0.5:
                return choice((lowest, highest, 0, 1, max(lowest, -1), 127, 100))
            return self.random.randint(lowest, highest)
        if element == "bool":
            return choice((False, True))
        if element == "float64":
            return choice(_FLOATS)
        if element == "uuid":
            return choice(_UUIDS)
        return choice(_TEXTS if element == "string" else _BLOBS)

    def unknown_tags(self, taken: set[int]) -> tuple[tuple[int, bytes], ...]:
        """Return tagged fields that the schema does not know, in the order of the wire."""
        tags = {self.random.choice((0, 1, 2, 3, 7, 127, 128, 300, HIGHEST_TAG)) for _ in range(2)} - taken
        return tuple((tag, self.random.choice(_BLOBS)) for tag in sorted(tags))

    def damaged(self, data: bytes) -> bytes:
        """Return bytes with a few of them changed, taken out or put in."""
        result = bytearray(data)
        for _ in range(self.random.randint(1, 2)):
            at = self.random.randint(0, len(result))
            raw = self.random.choice(_HOSTILE) if self.random.random() < 0.7 else self.random.randbytes(2)
            match self.random.choice(("change", "change", "flip", "take", "put", "cut")):
                case "change":
                    result[at : at + len(raw)] = raw
                case "flip" if at < len(result):
                    result[at] ^= 1 << self.random.randrange(8)
                case "take":
                    del result[at : at + self.random.choice((1, 1, 2, 4, 27))]
                case "put":
                    result[at:at] = raw
                case _:
                    del result[at:]
        return bytes(result)

    def spoil(self, plan: StructPlan, message: Any) -> None:
        """Put a value into some field of a message that does not belong there, most likely."""
        while True:
            step = self.random.choice(plan.steps)
            value = getattr(message, step.attribute)
            inner = value if step.is_array and value else [value]
            element = self.random.choice(inner)
            if step.struct is None or element is None or isinstance(element, list) or self.random.random() < 0.3:
                if step.is_array and value and self.random.random() < 0.5:
                    value[self.random.randrange(len(value))] = self.random.choice(_WRONG)
                else:
                    setattr(message, step.attribute, self.random.choice(_WRONG))
                return
            plan, message = step.struct, element


def outcome(action: Callable[[], Any], error: type[Exception]) -> tuple[bool, Any]:
    """Run an action: whether it succeeded, and its result or the error's text."""
    try:
        return True, action()
    except error as problem:
        return False, str(problem)

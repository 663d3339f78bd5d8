"""Reading and writing arrays of uniform structs at one go."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given, settings

from shareproxy.protocol import interpreter, stretch
from shareproxy.protocol.errors import DecodeError
from shareproxy.protocol.message import Message
from shareproxy.protocol.messages import (
    DescribeShareGroupOffsetsResponse,
    ListOffsetsResponse,
    MetadataResponse,
    MetadataResponsePartition,
    ShareGroupDescribeResponse,
)
from shareproxy.protocol.plan import StructPlan, plan_for
from shareproxy.protocol.stretch import FEW, Flat, flatten, stretch_reader, stretch_writer
from tests.protocol import synthetic
from tests.protocol.samples import SEEDS, Samples, outcome

COUNTS = (1, 2, 3, FEW, FEW + 1, 100)


@pytest.fixture(autouse=True, scope="module")
def _worth_at_once() -> Iterator[None]:
    """Compile for a shape the first time it comes up."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(stretch, "WORTH", 1)
        yield


def innermost(message: type[Message], version: int) -> StructPlan:
    """Return the plan of the struct at the end of a chain of arrays."""
    plan = plan_for(message, version)
    while inner := [step.struct for step in plan.steps if step.struct is not None and step.present]:
        plan = inner[-1]
    return plan


PLANS = {
    "list offsets": innermost(ListOffsetsResponse, 7),
    "list offsets, not flexible": innermost(ListOffsetsResponse, 4),
    "lag": innermost(DescribeShareGroupOffsetsResponse, 1),
    "metadata": innermost(MetadataResponse, 12),
    "metadata, not flexible": innermost(MetadataResponse, 5),
    **{
        f"synthetic {version}": struct_plan
        for version in synthetic.VERSIONS
        for struct_plan in [step.struct for step in synthetic.plan(version).steps if step.name == "Shards"]
        if struct_plan is not None
    },
}


@pytest.fixture(params=list(PLANS.values()), ids=list(PLANS))
def flat(request: pytest.FixtureRequest) -> Flat:
    """Return each struct that comes in stretches."""
    found = flatten(request.param)
    assert found is not None
    return found


def alike(flat: Flat, count: int, length: int = 3) -> list[Any]:
    """Return elements with null texts, no tags, and arrays of one length."""
    samples = Samples(count)
    elements = []
    for _ in range(count):
        element = samples.struct(flat.plan)
        for part in flat.parts:
            if part.step is None:
                element.unknown_tags = ()
            elif part.kind == "null":
                setattr(element, part.step.attribute, None)
            elif part.kind == "numbers":
                setattr(element, part.step.attribute, [samples.primitive(part.step.element) for _ in range(length)])
        for step in flat.plan.steps:
            if step.tag is not None:
                setattr(element, step.attribute, step.make_default())
        elements.append(element)
    return elements


def written(flat: Flat, elements: list[Any]) -> bytes:
    """Encode elements one by one with the interpreter."""
    return b"".join(interpreter.encode(flat.plan, element) for element in elements)


@pytest.mark.parametrize("count", COUNTS)
@pytest.mark.parametrize("length", [0, 1, 3, 8])
def test_equal_elements_are_read_at_one_go(flat: Flat, count: int, length: int) -> None:
    """All of them, and the position is behind the last."""
    elements = alike(flat, count, length)
    data = b"head" + written(flat, elements) + b"tail"
    read, latest = stretch_reader(flat)
    assert read(data, 4, count) == (elements, len(data) - 4)
    assert latest[count if count <= FEW else 0](data, 4, count) == (elements, len(data) - 4)


@pytest.mark.parametrize("count", COUNTS)
@pytest.mark.parametrize("length", [0, 1, 3, 8])
def test_equal_elements_are_written_at_one_go(flat: Flat, count: int, length: int) -> None:
    """The bytes are those of the interpreter."""
    elements = alike(flat, count, length)
    write, latest = stretch_writer(flat)
    out: list[bytes] = []
    assert write(elements, out) == count
    assert latest[count if count <= FEW else 0](elements, out) == count
    assert b"".join(out) == written(flat, elements) * 2


def different(flat: Flat) -> Any:
    """Return an element that is unlike the others."""
    element = alike(flat, 1)[0]
    if flat.plan.flexible:
        element.unknown_tags = ((200, b"unlike"),)
    elif flat.numbers and flat.numbers[0].step is not None:
        setattr(element, flat.numbers[0].step.attribute, [1])
    return element


@pytest.mark.parametrize("at", [0, 1, 5, 19])
def test_reading_stops_before_the_first_element_that_differs(flat: Flat, at: int) -> None:
    """What comes before it is kept; none of it is wrong."""
    elements = alike(flat, 20)
    elements[at] = different(flat)
    found, position = stretch_reader(flat)[0](written(flat, elements), 0, 20)
    assert found == elements[: len(found)]
    assert position == len(written(flat, found))
    if flat.plan.flexible:
        assert len(found) <= at


@pytest.mark.parametrize("at", [0, 1, 5, 19])
def test_writing_stops_before_the_first_element_that_differs(flat: Flat, at: int) -> None:
    """What comes before it is written; none of it is wrong."""
    elements = alike(flat, 20)
    elements[at] = different(flat)
    out: list[bytes] = []
    done = stretch_writer(flat)[0](elements, out)
    assert b"".join(out) == written(flat, elements[:done])
    if flat.plan.flexible:
        assert done <= at


@pytest.mark.parametrize("count", [3, 20])
def test_few_bytes_are_never_overrun(flat: Flat, count: int) -> None:
    """Cut at any point, what is found lies within the bytes, or an exception tells that it does not."""
    data = written(flat, alike(flat, count))
    read, latest = stretch_reader(flat)
    read(data, 0, count)
    for end in range(0, len(data), 3):
        for reader in (read, latest[count if count <= FEW else 0]):
            success, result = outcome(lambda reader=reader, end=end: reader(data[:end], 0, count), Exception)  # type: ignore[misc]
            assert not success or result[1] <= end


@given(SEEDS)
@settings(max_examples=200, deadline=None)
def test_stretch_agrees_with_the_interpreter_on_damaged_elements(seed: int) -> None:
    """Whatever a stretch accepts, the interpreter reads the same way."""
    samples = Samples(seed)
    flat = flatten(samples.random.choice(list(PLANS.values())))
    assert flat is not None
    count = samples.random.choice(COUNTS)
    data = samples.damaged(written(flat, alike(flat, count, samples.random.choice((0, 1, 3)))))
    success, result = outcome(lambda: stretch_reader(flat)[0](data, 0, count), Exception)
    if not success:
        return
    position = 0
    for element in result[0]:
        agreed, expected = outcome(lambda position=position: interpreter.decode(flat.plan, data, position), DecodeError)  # type: ignore[misc]
        assert agreed
        assert repr(element) == repr(expected[0])  # a NaN is not equal to itself
        position = expected[1]
    assert position == result[1]


def test_texts_that_must_be_there_are_not_flat() -> None:
    """Brokers have a host, topics a list of partitions."""
    for step in plan_for(MetadataResponse, 12).steps:
        if step.struct is not None:
            assert flatten(step.struct) is None
    assert flatten(innermost(ShareGroupDescribeResponse, 1)) is None


def test_wide_and_null_arrays_are_left_to_others() -> None:
    """More numbers than there are functions for, and null."""
    flat = flatten(PLANS["metadata"])
    assert flat is not None
    wide = MetadataResponsePartition(replica_nodes=list(range(9)), isr_nodes=list(range(200)))
    assert stretch_reader(flat)[0](written(flat, [wide]), 0, 1) == ([], 0)
    assert stretch_writer(flat)[0]([wide], []) == 0
    null = struct.pack(">hiiiBBBB", 0, 0, 0, 0, 0, 1, 1, 0)
    assert stretch_reader(flat)[0](null, 0, 1) == ([], 0)


def test_nothing_is_read_or_written_for_an_empty_array() -> None:
    """Not even the shape of the first element."""
    flat = flatten(PLANS["metadata"])
    assert flat is not None
    assert stretch_reader(flat)[0](b"", 0, 0) == ([], 0)
    assert stretch_writer(flat)[0]([], []) == 0
    assert stretch_reader(flat)[1][0](b"", 0, 0) == ([], 0)
    assert stretch_writer(flat)[1][0]([], []) == 0


def test_shape_is_compiled_for_when_it_has_come_up_often(monkeypatch: pytest.MonkeyPatch) -> None:
    """Small and rare messages do not pay for a compilation."""
    monkeypatch.setattr(stretch, "WORTH", 10)
    flat = flatten(PLANS["lag"])
    assert flat is not None
    data = written(flat, alike(flat, 4))
    read, _ = stretch_reader(flat)
    assert [len(read(data, 0, 4)[0]) for _ in range(4)] == [0, 0, 4, 4]


def test_number_of_functions_is_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    """A peer that sends ever new shapes does not fill the memory."""
    monkeypatch.setattr(stretch, "MOST", 2)
    flat = flatten(PLANS["metadata"])
    assert flat is not None
    write, _ = stretch_writer(flat)
    shapes = [MetadataResponsePartition(replica_nodes=[0] * size) for size in range(4)]
    assert [write([row], []) for row in shapes] == [1, 1, 0, 0]

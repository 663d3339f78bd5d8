"""Writing the call that builds a struct."""

from __future__ import annotations

from typing import Any

import pytest

from shareproxy.protocol.construction import arguments, default_expression, not_default, same, unwritable
from shareproxy.protocol.message import ProtocolStruct
from shareproxy.protocol.messages import MetadataResponse, ResponseHeader
from shareproxy.protocol.plan import Step, StructPlan, plan_for, plan_schema
from shareproxy.protocol.source import Source
from tests.protocol import synthetic


def step(name: str, version: int = 5) -> Step:
    """Return a step of the synthetic message."""
    return next(item for item in synthetic.plan(version).steps if item.name == name)


def evaluate(source: Source, expression: str, **variables: object) -> Any:
    """Return the value of an expression with the source's names."""
    return eval(expression, {**source.names, **variables})


def test_arguments_at_the_end_are_left_to_the_class() -> None:
    """Version 0 of Metadata has brokers and topics; the error code behind them keeps its default."""
    plan = plan_for(MetadataResponse, 0)
    assert arguments(Source(), plan, {"brokers": "b", "topics": "t"}) == ["0", "b", "None", "-1", "t"]


def test_null_at_the_end_is_left_out_if_the_class_starts_there() -> None:
    """A null error message needs no argument."""
    row = plan_for(MetadataResponse, 1).steps[1].struct
    assert row is not None
    values = {"node_id": "a", "host": "b", "port": "c", "rack": "None"}
    assert arguments(Source(), row, values) == ["a", "b", "c"]
    assert arguments(Source(), row, {**values, "rack": "r"}) == ["a", "b", "c", "r"]


def test_class_with_other_fields_is_refused() -> None:
    """Positional arguments would go to the wrong fields."""
    classes: dict[str, type[ProtocolStruct]] = {**synthetic.CLASSES, "Place": ResponseHeader}
    plan = plan_schema(synthetic.SCHEMA, 5, classes)
    place = next(item.struct for item in plan.steps if item.name == "Where")
    assert isinstance(place, StructPlan)
    with pytest.raises(TypeError, match="ResponseHeader has not the fields of its schema"):
        arguments(Source(), place, {})


@pytest.mark.parametrize("name", ["Flag", "Wide", "Ratio", "Come", "Label", "Raw", "Blob", "Where", "Words", "Sixth"])
def test_default_expressions(name: str) -> None:
    """An expression gives the schema default, whatever its kind."""
    source = Source()
    assert evaluate(source, default_expression(source, step(name))) == step(name).make_default()


@pytest.mark.parametrize(
    ("name", "default", "others"),
    [
        ("Tiny", -1, [0, None]),
        ("Words", [], [["x"], None]),
        ("Blob", None, [b""]),
        ("Where", synthetic.CLASSES["Place"](), [synthetic.CLASSES["Place"](row=1), None]),
    ],
)
def test_conditions_agree_with_the_plan(name: str, default: object, others: list[object]) -> None:
    """The condition is true for whatever the interpreter would have to write."""
    source = Source()
    condition = not_default(source, step(name), "x")
    assert not evaluate(source, condition, x=default)
    assert all(evaluate(source, condition, x=other) for other in others)


def test_ignorable_fields_are_dropped_without_a_question() -> None:
    """No condition is needed."""
    assert unwritable(Source(), step("Id", 0), "x") is None
    assert unwritable(Source(), step("Come", 0), "x") == "x != -9223372036854775808"


def test_zero_is_not_false() -> None:
    """Defaults of two types are two defaults."""
    assert same(0, 0)
    assert not same(0, False)

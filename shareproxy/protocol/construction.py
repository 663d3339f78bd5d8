"""Write the call that builds a struct, for generated code.

In: a plan and the expressions of the fields that were read. Out: arguments in the order of the class's fields,
without those at the end that the class fills in by itself.
"""

from __future__ import annotations

from collections.abc import Mapping

from shareproxy.protocol.plan import Step, StructPlan
from shareproxy.protocol.source import Source


def arguments(source: Source, plan: StructPlan, values: Mapping[str, str]) -> list[str]:
    """Return positional arguments for a struct's class.

    Args:
        source: where objects get their names.
        plan: of the struct.
        values: expression of each field that is on the wire, by attribute; "None" for null.
    """
    fields = plan.struct_class.__struct_fields__
    if fields != (*(step.attribute for step in plan.steps), "unknown_tags"):
        raise TypeError(f"{plan.struct_class.__name__} has not the fields of its schema in their order")
    result: list[str] = []
    blank = plan.struct_class()
    needed = 0
    for step in plan.steps:
        given = values.get(step.attribute)
        result.append(default_expression(source, step) if given is None else given)
        own_default = getattr(blank, step.attribute)
        if given == "None":
            left_out = own_default is None
        else:
            left_out = given is None and same(own_default, step.make_default())
        if not left_out:
            needed = len(result)
    return result[:needed]


def default_expression(source: Source, step: Step) -> str:
    """Return an expression for a field's schema default, fresh where it is mutable."""
    if step.default_null:
        return "None"
    if step.is_array:
        return "[]"
    if step.struct is not None:
        return source.name("Struct", step.struct.struct_class) + "()"
    return literal(source, step.default)


def literal(source: Source, value: object) -> str:
    """Return an expression for a constant."""
    if isinstance(value, bytes):
        return source.name("constant", value)
    return repr(value)


def unwritable(source: Source, step: Step, value: str) -> str | None:
    """Return a condition that holds if a value cannot be left out of a version that lacks the field."""
    if step.ignorable:
        return None
    return not_default(source, step, value)


def not_default(source: Source, step: Step, value: str) -> str:
    """Return a condition that holds if a value differs from the schema default."""
    if step.default_null:
        return f"{value} is not None"
    if step.is_array:
        return f"({value} or {value} is None)"
    return f"{value} != {default_expression(source, step)}"


def same(one: object, other: object) -> bool:
    """Tell whether two defaults are equal and of one type: 0 is not False."""
    return type(one) is type(other) and one == other

"""Lowering schemas to steps."""

import pytest

from shareproxy.protocol.messages import ApiVersionsResponse, DescribeShareGroupOffsetsResponse, RequestHeader
from shareproxy.protocol.plan import Step, StructPlan, plan_for
from tests.protocol import synthetic


def step(plan: StructPlan, name: str) -> Step:
    """Return the step of a field."""
    return next(step for step in plan.steps if step.name == name)


def test_steps_have_the_order_of_the_class() -> None:
    """Positional construction rests on it."""
    for version in synthetic.VERSIONS:
        plan = synthetic.plan(version)
        assert (*(step.attribute for step in plan.steps), "unknown_tags") == plan.struct_class.__struct_fields__


def test_field_outside_its_versions_is_not_present() -> None:
    """Gone lives in 0–1, Come from 3 on."""
    present = [
        [step(synthetic.plan(version), name).present for version in synthetic.VERSIONS] for name in ("Gone", "Come")
    ]
    assert present == [[True, True, False, False, False, False], [False, False, False, True, True, True]]


def test_field_can_become_tagged() -> None:
    """First is an ordinary field in version 1 and a tagged one from 2 on."""
    steps = [step(synthetic.plan(version), "First") for version in (0, 1, 2)]
    assert [(item.present, item.tag) for item in steps] == [(False, None), (True, None), (False, 0)]


def test_tag_of_a_later_version_is_closed() -> None:
    """A tag that the schema defines for other versions must not come up as unknown."""
    assert synthetic.plan(2).closed_tags == {1, 5}
    assert synthetic.plan(4).closed_tags == frozenset()


def test_lengths_are_compact_in_flexible_versions_only() -> None:
    """A field can stay with the old form, as the client id in the request header does."""
    assert [step(synthetic.plan(version), "Label").compact for version in (1, 2)] == [False, True]
    assert not step(synthetic.plan(2), "Plain").compact
    assert not step(plan_for(RequestHeader, 2), "ClientId").compact


def test_null_is_allowed_per_version() -> None:
    """Numbers can be null from version 3 on."""
    assert [step(synthetic.plan(version), "Numbers").nullable for version in (2, 3)] == [False, True]


def test_defaults_are_made_fresh() -> None:
    """What can be changed is not shared."""
    plan = synthetic.plan(5)
    for name, value in (("Words", []), ("Third", None), ("Wide", 2**32 - 1), ("Where", synthetic.CLASSES["Place"]())):
        item = step(plan, name)
        assert item.make_default() == value
        assert item.is_default(item.make_default())
    assert step(plan, "Words").make_default() is not step(plan, "Words").make_default()


@pytest.mark.parametrize(
    ("name", "value"), [("Words", None), ("Words", ["x"]), ("Third", []), ("Wide", 0), ("Where", None), ("Tiny", None)]
)
def test_other_values_are_not_default(name: str, value: object) -> None:
    """Null and empty are different things."""
    assert not step(synthetic.plan(5), name).is_default(value)


def test_plan_is_made_once() -> None:
    """The same plan serves every call."""
    assert plan_for(ApiVersionsResponse, 3) is plan_for(ApiVersionsResponse, 3)


@pytest.mark.parametrize("version", [-1, 2])
def test_unknown_version_is_refused(version: int) -> None:
    """The error says which versions there are."""
    with pytest.raises(ValueError, match=rf"DescribeShareGroupOffsetsResponse has versions 0 to 1, not {version}"):
        plan_for(DescribeShareGroupOffsetsResponse, version)

"""Configuration of groups."""

from __future__ import annotations

from shareproxy.cluster.errors import ConnectionClosed
from shareproxy.lag.brokers import Trouble
from shareproxy.lag.group_configs import GROUPS_PER_REQUEST, GroupConfig, group_configs
from shareproxy.lag.model import Status
from shareproxy.protocol import messages as m
from shareproxy.protocol.ids import GroupId
from tests.lag.logs import LogBrokers
from tests.lag.simulated_brokers import soon, unreachable

A, B = GroupId("a"), GroupId("b")


async def test_settings_by_group_and_name() -> None:
    """One bad group does not hide the other."""
    brokers = LogBrokers()
    brokers.settings = {"a": {"share.isolation.level": "read_committed", "x": "1"}, "b": 30}

    found = await group_configs(brokers, [A, B], deadline=soon())

    assert found[A] == {
        "share.isolation.level": GroupConfig("share.isolation.level", "read_committed", False, 8),
        "x": GroupConfig("x", "1", True, 5),
    }
    refused = found[B]
    assert isinstance(refused, Trouble)
    assert refused.status is Status.NOT_AUTHORIZED
    assert "DESCRIBE_CONFIGS on the group" in refused.message


async def test_many_groups_take_few_requests() -> None:
    """Hundreds fit in one."""
    brokers = LogBrokers()
    groups = [GroupId(f"g{number}") for number in range(GROUPS_PER_REQUEST + 1)]

    found = await group_configs(brokers, groups, deadline=soon())

    assert list(found) == groups
    assert len(brokers.sent(m.DescribeConfigsRequest)) == 2


async def test_failures() -> None:
    """Nobody answers; an answer leaves a group out; another error keeps the broker's words."""
    brokers = LogBrokers()
    for _ in range(2):
        brokers.fail_once(m.DescribeConfigsRequest, unreachable())
    lost = (await group_configs(brokers, [A], deadline=soon()))[A]
    brokers.fail_once(m.DescribeConfigsRequest, m.DescribeConfigsResponse())
    left_out = (await group_configs(brokers, [A], deadline=soon()))[A]
    brokers.settings["a"] = 42
    refused = (await group_configs(brokers, [A], deadline=soon()))[A]

    assert isinstance(lost, Trouble)
    assert isinstance(left_out, Trouble)
    assert isinstance(refused, Trouble)
    assert refused.message == "no (error 42 INVALID_REQUEST)"


async def test_broker_that_has_gone() -> None:
    """Another one is asked before that is a trouble."""
    brokers = LogBrokers()
    brokers.fail_once(m.DescribeConfigsRequest, ConnectionClosed("gone"))

    assert await group_configs(brokers, [A], deadline=soon()) == {A: {}}


def test_document() -> None:
    """A setting as JSON."""
    assert GroupConfig("n", None, True, 5).to_dict() == {"name": "n", "value": None, "is_default": True, "source": 5}

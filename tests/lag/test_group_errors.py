"""Four ways of having no answer, four sentences."""

from __future__ import annotations

import pytest

from shareproxy.lag.brokers import Trouble, trouble_from_code
from shareproxy.lag.group_errors import explain_missing, group_error, missing_topics, nothing_initialized
from shareproxy.lag.groups import NO_SHARE_LAG
from shareproxy.lag.model import Status
from shareproxy.protocol.ids import GroupId
from tests.lag.simulated_brokers import Group, SimulatedBrokers, soon, unreachable

G = GroupId("g")


async def test_an_unknown_group() -> None:
    """It does not exist; the sentence says how to see those that do."""
    described = Trouble(Status.ERROR, 69, "Group g not found.")

    error = await explain_missing(SimulatedBrokers(), G, described, deadline=soon())

    assert (error.code, error.name) == (69, "GROUP_ID_NOT_FOUND")
    assert error.message == (
        "share group 'g' does not exist on this cluster; check its name, or list the groups that there are"
    )


@pytest.mark.parametrize(("kind", "words"), [("classic", "a classic group"), ("streams", "a streams group")])
async def test_a_group_of_another_type(kind: str, words: str) -> None:
    """It exists, but is no share group."""
    brokers = SimulatedBrokers()
    brokers.groups["g"] = Group(kind=kind)
    described = Trouble(Status.ERROR, 69, "Group g is not a share group.")

    error = await explain_missing(brokers, G, described, deadline=soon())

    assert (error.code, error.name) == (69, "NOT_A_SHARE_GROUP")
    assert words in error.message
    assert "`shareproxy lag` shows the lag of consumer groups too, consumer_lag() gives it in Python" in error.message


async def test_a_group_of_another_type_that_no_list_shows() -> None:
    """The broker's own text is enough."""
    brokers = SimulatedBrokers()
    brokers.faults.append(lambda _, message: unreachable())
    described = Trouble(Status.ERROR, 69, "Group g is not a share group.")

    error = await explain_missing(brokers, G, described, deadline=soon(0.05))

    assert error.name == "NOT_A_SHARE_GROUP"
    assert "of another type" in error.message


def test_nothing_initialized() -> None:
    """It exists, but no consumer has made it keep state yet."""
    error = nothing_initialized(G, "Empty")

    assert (error.code, error.name) == (0, "NOTHING_INITIALIZED")
    assert "share group 'g' (Empty) has no initialized partition" in error.message


@pytest.mark.parametrize(
    ("trouble", "code", "words"),
    [
        (trouble_from_code(30), 30, "may not see group 'g'; grant DESCRIBE on the group"),
        (trouble_from_code(29), 29, "topics that this user may not see"),
        (trouble_from_code(69), 69, "does not exist"),
        (trouble_from_code(35), 35, "share.version"),
        (NO_SHARE_LAG, 35, "Kafka 4.1"),
        (Trouble(Status.TIMEOUT, None, "too slow"), 7, "group 'g': too slow"),
        (Trouble(Status.ERROR, None, "strange"), -1, "group 'g': strange"),
    ],
)
def test_other_troubles(trouble: Trouble, code: int, words: str) -> None:
    """Each has a code, its name, and the group's name in the sentence."""
    error = group_error(G, trouble)

    assert error.code == code
    assert words in error.message
    assert "'g'" in error.message


def test_missing_topics() -> None:
    """All of them in one sentence, and no error for none."""
    error = missing_topics(G, ["a", "b"])

    assert error is not None
    assert (error.code, error.message) == (
        3,
        "group 'g': 'a', 'b' cannot be seen; check the name of the topic, or DESCRIBE on it",
    )
    assert missing_topics(G, []) is None

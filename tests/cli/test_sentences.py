"""Numbers, ages and reasons in words."""

from __future__ import annotations

import pytest

from shareproxy.cli.sentences import Bounds, added_up, age, bounded, consumable, lag_sentence, notes, reason, total
from shareproxy.lag.model import GroupLag, PartitionLag, Status
from shareproxy.lag.visible_model import PartitionVisible
from shareproxy.protocol.ids import GroupId, TopicId

TOPIC_ID = TopicId(bytes(16))


def row(number: int, lag: int | None, visible: PartitionVisible | None = None) -> PartitionLag:
    """One partition of `orders`."""
    status = Status.OK if lag is not None else Status.NO_START_OFFSET
    return PartitionLag("orders", TOPIC_ID, number, 0, lag, lag=lag, status=status, visible=visible)


def group(*rows: PartitionLag) -> GroupLag:
    """The group `workers`."""
    return GroupLag(GroupId("workers"), "Stable", None, rows)


@pytest.mark.parametrize(
    ("rows", "sentence"),
    [
        ((row(0, 7), row(1, 0)), "workers: lag 7 in 2 partitions"),
        ((row(0, 7),), "workers: lag 7 in 1 partition"),
        ((row(0, 7), row(1, None)), "workers: lag 7 in 1 of 2 partitions; unknown for 1"),
        ((row(0, None), row(1, None)), "workers: lag is unknown in all 2 partitions"),
        (
            (row(0, None, PartitionVisible(projected_lag=4)),),
            "workers: lag is unknown in its one partition (4 once a first member starts)",
        ),
        (
            (row(0, None, PartitionVisible(projected_lag=4)), row(1, None, PartitionVisible())),
            "workers: lag is unknown in all 2 partitions (4 in 1 of these once a first member starts)",
        ),
        (
            (row(0, 9, PartitionVisible(consumable_lag=5, in_flight=2, phantom_offsets=0)),),
            "workers: lag 9, of which 3 waiting, 2 held by members",
        ),
        (
            (row(0, 9, PartitionVisible(consumable_lag=5, phantom_offsets=0, open_transaction_offsets=4)),),
            "workers: lag 9, of which 5 waiting or held by members, 4 in an open transaction",
        ),
        (
            (row(0, 9, PartitionVisible(consumable_lag=5, phantom_offsets=0, in_flight=0)), row(1, None)),
            "workers: lag 9 in 1 of 2 partitions; unknown for 1; of the known lag 5 waiting",
        ),
    ],
)
def test_what_a_lag_consists_of(rows: tuple[PartitionLag, ...], sentence: str) -> None:
    """One sentence, honest about what is missing."""
    assert lag_sentence(group(*rows)) == sentence


def test_a_range_and_an_unknown_part_stay_what_they_are() -> None:
    """Nothing is guessed."""
    bounds = PartitionVisible(consumable_lag_min=2, consumable_lag_max=6, phantom_offsets_min=3, phantom_offsets_max=7)
    text = lag_sentence(group(row(0, 9, bounds)))
    assert text.startswith("workers: lag 9, of which 2–6 waiting or held by members, 3–7 phantom (")
    text = lag_sentence(group(row(0, 9, bounds), row(1, 1, PartitionVisible())))
    assert "of which at least 2 waiting or held" in text
    assert "at least 3 phantom" in text
    text = lag_sentence(group(row(1, 1, PartitionVisible())))
    assert "of which an unknown number waiting or held by members, an unknown number phantom" in text


def test_sums_say_what_they_leave_out() -> None:
    """A part that is unknown makes a total unknown, and a bounded sum a lower bound."""
    rows = [row(0, 1, PartitionVisible(consumable_lag=1, in_flight=1)), row(1, 1)]
    assert added_up(rows, consumable) == Bounds(1, 1, 1)
    assert not added_up(rows, consumable).exact
    assert total(rows, lambda of: of.in_flight) is None
    assert total(rows[:1], lambda of: of.in_flight) == 1


def test_every_status_has_a_reason() -> None:
    """A sentence of the engine wins; without one there still is one."""
    for status in Status:
        assert len(reason(PartitionLag("orders", TOPIC_ID, 0, status=status)).split()) >= 3
    assert reason(PartitionLag("orders", TOPIC_ID, 0, status=Status.ERROR, message="error 7")) == "error 7"


def test_a_note_is_said_once() -> None:
    """With the partitions it holds for."""
    hidden = PartitionVisible(notes=("grant READ",))
    assert notes([group(row(0, 1, hidden), row(1, 1, hidden))]) == ["orders-0, orders-1: grant READ"]


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(None, ""), (0.4, "<1s"), (59.9, "59s"), (192.4, "3m 12s"), (7260, "2h 1m"), (266_400, "3d 2h")],
)
def test_ages_have_two_units_at_most(seconds: float | None, text: str) -> None:
    """Rounded down."""
    assert age(seconds) == text


@pytest.mark.parametrize(
    ("numbers", "text"), [((5, 5, 5), "5"), ((None, 3, 12), "3–12"), ((None, None, None), ""), ((0, None, None), "0")]
)
def test_a_cell_has_a_number_or_a_range(numbers: tuple[int | None, int | None, int | None], text: str) -> None:
    """Or nothing."""
    assert bounded(*numbers) == text


def test_what_is_said_with_the_lag_is_not_said_again() -> None:
    """The closer look gives the same reason for what it left out."""
    hidden = PartitionVisible(notes=("not looked at: node 2 did not answer", "grant READ on the topic"))
    one = PartitionLag("orders", TOPIC_ID, 0, status=Status.TIMEOUT, message="node 2 did not answer", visible=hidden)

    assert notes([group(one)]) == ["orders-0: grant READ on the topic"]

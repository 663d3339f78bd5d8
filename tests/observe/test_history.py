"""What is remembered between looks ends."""

from __future__ import annotations

from shareproxy.lag.model import GroupLag, PartitionLag
from shareproxy.lag.slices import Slices
from shareproxy.observe.history import KEPT_LOOKS, History, Watched
from shareproxy.observe.snapshot import NameFilter
from shareproxy.protocol.ids import GroupId
from tests.observe.watching import row


async def take(history: History, *rows: PartitionLag, looks: int = 1, group: str = "g") -> Watched:
    """Look some times, and return what was shown at the last."""
    for _ in range(looks):
        history.begin()
        shown = await history.take(GroupLag(GroupId(group), "Stable", None, rows), Slices())
    return shown


def at(start: int, partition: int = 0) -> PartitionLag:
    """Return a partition whose start offset is the only thing that matters."""
    return row(partition=partition, start_offset=start, end_offset=100, delivery_complete_count=0)


async def test_a_partition_that_is_away_for_a_while_keeps_its_counter() -> None:
    """As when its group's coordinator does not answer."""
    history = History(NameFilter(), internal_topics=False)
    await take(history, at(10))
    await take(history, looks=KEPT_LOOKS - 1)
    assert (await take(history, at(4))).completed == (10,)


async def test_a_partition_that_is_gone_is_forgotten() -> None:
    """Its counter begins anew."""
    history = History(NameFilter(), internal_topics=False)
    await take(history, at(10), at(7, partition=1))
    await take(history, at(7, partition=1), looks=KEPT_LOOKS + 1)
    assert (await take(history, at(4), at(7, partition=1))).completed == (4, 7)


async def test_a_group_that_is_gone_is_forgotten() -> None:
    """However many groups come and go."""
    history = History(NameFilter(), internal_topics=False)
    await take(history, at(10))
    await take(history, at(1), looks=KEPT_LOOKS + 1, group="other")
    assert list(history._groups) == ["other"]


async def test_a_report_that_needs_no_change_is_shown_itself() -> None:
    """Nothing is copied where nothing is left out."""
    history = History(NameFilter(), internal_topics=False)
    found = GroupLag(GroupId("g"), "Stable", None, (at(1), at(2, partition=1)))
    history.begin()
    assert (await history.take(found, Slices())).lag is found


async def test_completed_offsets_move_while_records_are_written() -> None:
    """The end offset stands in for a count that is not known, and the count corrects it without going back."""
    history = History(NameFilter(), internal_topics=False)
    seen = []
    for end, lag, count in ((20, 8, None), (40, 10, None), (41, 12, 29), (50, 5, None), (50, None, None)):
        shown = await take(history, row(lag=lag, end_offset=end, delivery_complete_count=count, start_offset=0))
        seen.append(shown.completed[0])
    assert seen == [12, 30, 30, 45, 45]

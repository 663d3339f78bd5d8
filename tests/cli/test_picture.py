"""A share partition drawn as a line."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shareproxy.cli.picture import (
    ASCII,
    BLOCKS,
    GONE,
    MEANINGS,
    OPEN,
    UNTOUCHED,
    Stretch,
    draw,
    legend,
    stretches,
    to_scale,
    totals,
)
from shareproxy.lag.model import PartitionLag
from shareproxy.lag.visible_model import PartitionVisible, StateRun
from shareproxy.protocol.ids import TopicId

KIP_1226 = (
    StateRun(0, 1, "acknowledged", 1),
    StateRun(2, 4, "available", 1),
    StateRun(5, 5, "acknowledged", 1),
    StateRun(6, 6, "archived", 1),
)


def partition(
    start: int | None,
    end: int | None,
    *runs: StateRun,
    log_start: int | None = None,
    stable: int | None = None,
) -> PartitionLag:
    """A partition after a closer look."""
    visible = PartitionVisible(log_start_offset=log_start, last_stable_offset=stable, runs=runs)
    return PartitionLag("orders", TopicId(bytes(16)), 0, start, end, visible=visible)


def test_the_picture_of_kip_1226() -> None:
    """Two accepted, three given back, one accepted, one rejected, four never fetched."""
    pieces = stretches(partition(0, 11, *KIP_1226))
    assert pieces is not None
    assert draw(pieces, 60, ASCII) == "##===#x...."
    assert draw(pieces, 60) == "██▒▒▒█■░░░░"
    assert totals(pieces) == {"acknowledged": 3, "available": 3, UNTOUCHED: 4, "archived": 1}


def test_runs_before_the_start_offset_are_cut_off() -> None:
    """The picture begins where the start offset is."""
    pieces = stretches(partition(3, 8, *KIP_1226))
    assert pieces is not None
    assert draw(pieces, 60, ASCII) == "==#x."


def test_what_retention_deleted_is_gone_unless_it_was_done() -> None:
    """A record that was accepted before is not lost."""
    pieces = stretches(partition(0, 8, *KIP_1226, log_start=4))
    assert pieces is not None
    assert draw(pieces, 60, ASCII) == "##!!=#x."
    assert totals(pieces)[GONE] == 2


def test_an_open_transaction_is_drawn_as_such() -> None:
    """From the last stable offset on nobody may read."""
    pieces = stretches(partition(0, 10, *KIP_1226, stable=8))
    assert pieces is not None
    assert draw(pieces, 60, ASCII) == "##===#x.--"
    assert totals(pieces)[OPEN] == 2


def test_a_state_from_the_future_is_shown_as_unknown() -> None:
    """A newer broker's state is neither hidden nor guessed at."""
    pieces = stretches(partition(0, 2, StateRun(0, 0, "renewing", 1)))
    assert pieces == (Stretch(0, 1, "unknown"), Stretch(1, 2, UNTOUCHED))


@pytest.mark.parametrize(("start", "end"), [(None, 5), (5, None)])
def test_without_offsets_there_is_no_picture(start: int | None, end: int | None) -> None:
    """Unknown is not empty."""
    assert stretches(partition(start, end)) is None


def test_without_states_there_is_no_picture() -> None:
    """A plain lag cannot be drawn."""
    assert stretches(PartitionLag("orders", TopicId(bytes(16)), 0, 0, 5)) is None
    assert stretches(PartitionLag("orders", TopicId(bytes(16)), 0, 0, 5, visible=PartitionVisible())) is None


@pytest.mark.parametrize(("start", "end"), [(5, 5), (9, 5)])
def test_nothing_between_start_and_end(start: int, end: int) -> None:
    """Everything done, or a start offset beyond the end."""
    assert stretches(partition(start, end, *KIP_1226)) == ()


def test_a_long_partition_shows_its_shortest_run() -> None:
    """One held record among thousands keeps its cell."""
    pieces = (Stretch(0, 1, "available"), Stretch(1, 5000, "acknowledged"), Stretch(5000, 9000, UNTOUCHED))
    picture = draw(pieces, 20, ASCII)
    assert picture == "=" + "#" * 11 + "." * 8 or picture == "=" + "#" * 10 + "." * 9
    assert not to_scale(pieces, 20)


def test_more_runs_than_cells_are_summed_up() -> None:
    """Each cell shows what most of its offsets are."""
    pieces = tuple(Stretch(n, n + 1, "acknowledged" if n % 4 else "available") for n in range(100))
    assert draw(pieces, 10, ASCII) == "#" * 10


def test_each_state_has_its_own_sign() -> None:
    """A legend with two meanings for one sign is no legend."""
    for signs in (ASCII, BLOCKS):
        assert len({signs[state] for state in MEANINGS}) == len(MEANINGS)
    assert all(sign.isascii() and len(sign) == 1 for sign in ASCII.values())


def test_the_legend_has_what_was_drawn() -> None:
    """And nothing else, in a fixed order."""
    assert [line[0] for line in legend({"archived", "acknowledged"}, ASCII)] == ["#", "x"]


@st.composite
def partitions(draw: st.DrawFn) -> PartitionLag:
    """A partition with any runs, in order, with gaps, perhaps out of the window."""
    start, length = draw(st.integers(0, 50)), draw(st.integers(1, 300))
    position, runs = start - draw(st.integers(0, 10)), []
    for _ in range(draw(st.integers(0, 30))):
        first = position + draw(st.integers(0, 5))
        last = first + draw(st.integers(0, 40))
        runs.append(StateRun(first, last, draw(st.sampled_from(sorted(MEANINGS))), draw(st.integers(0, 5))))
        position = last + 1
    log_start = draw(st.none() | st.integers(0, 400))
    stable = draw(st.none() | st.integers(start, start + length))
    return partition(start, start + length, *runs, log_start=log_start, stable=stable)


@settings(deadline=None, max_examples=60)
@given(partitions(), st.integers(10, 120))
def test_every_offset_is_drawn_once_and_nothing_is_wider_than_allowed(row: PartitionLag, width: int) -> None:
    """Stretches cover the window without gap or overlap, and neighbours differ; the line has one cell each or fits."""
    pieces = stretches(row)
    assert pieces
    assert (pieces[0].first, pieces[-1].end) == (row.start_offset, row.end_offset)
    for one, other in itertools.pairwise(pieces):
        assert one.end == other.first
        assert one.state != other.state
    line = draw(pieces, width, ASCII)
    assert len(line) == min(width, sum(piece.offsets for piece in pieces))
    if len(pieces) <= width:
        signs = [ASCII[piece.state] for piece in pieces]
        assert [sign for number, sign in enumerate(line) if number == 0 or line[number - 1] != sign] == signs

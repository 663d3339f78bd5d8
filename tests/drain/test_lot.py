"""Acknowledgements of single records and whole batches become as few ranges as they can."""

from __future__ import annotations

import asyncio

import pytest

from shareproxy.drain.acquired import AcquiredRange
from shareproxy.drain.lot import HeldLot
from shareproxy.drain.model import Acknowledgement, AckResult, OffsetRange
from shareproxy.drain.tickets import AckTicket
from tests.drain.scripted_session import Desk, ScriptedSession, records
from tests.support.share_records import until

ACCEPT, RELEASE, REJECT, RENEW, GAP = (
    Acknowledgement.ACCEPT,
    Acknowledgement.RELEASE,
    Acknowledgement.REJECT,
    Acknowledgement.RENEW,
    Acknowledgement.GAP,
)


async def test_nothing_is_given_to_the_session_before_a_request_is_made() -> None:
    """Notes cost next to nothing; ranges are made once."""
    desk = Desk()
    lot = desk.lot((10, 19))

    lot.acknowledge(10, ACCEPT)
    lot.acknowledge(11, ACCEPT)

    assert desk.session.noted == []
    assert desk.noted == 1
    desk.acks.flush()
    assert desk.session.noted == [(10, 11, ACCEPT)]


async def test_neighbours_with_the_same_outcome_are_one_range() -> None:
    """Whatever the order in which they were acknowledged."""
    desk = Desk()
    lot = desk.lot((0, 5))

    for offset, kind in ((3, ACCEPT), (0, ACCEPT), (1, ACCEPT), (2, REJECT), (5, RELEASE), (4, ACCEPT)):
        lot.acknowledge(offset, kind)
    desk.acks.flush()

    assert desk.session.noted == [(0, 1, ACCEPT), (2, 2, REJECT), (3, 4, ACCEPT), (5, 5, RELEASE)]


async def test_a_whole_lot_is_one_range() -> None:
    """Also behind one that was acknowledged by itself: that one keeps its outcome."""
    desk = Desk()
    lot = desk.lot((0, 999))
    lot.acknowledge(0, REJECT)

    lot.acknowledge_all(0, 999, ACCEPT)
    desk.acks.flush()

    assert desk.session.noted == [(0, 0, REJECT), (1, 999, ACCEPT)]
    assert lot.finished


async def test_offsets_between_the_ranges_of_a_lot_are_not_acknowledged() -> None:
    """They are somebody else's."""
    desk = Desk()
    lot = desk.lot((0, 3), (7, 9))

    lot.acknowledge_all(0, 9, ACCEPT)
    desk.acks.flush()

    assert desk.session.noted == [(0, 3, ACCEPT), (7, 9, ACCEPT)]


async def test_the_first_acknowledgement_of_a_record_counts() -> None:
    """The second is answered at once, and not sent."""
    desk = Desk()
    lot = desk.lot((0, 1))
    lot.acknowledge(0, ACCEPT)

    result = await lot.acknowledge(0, REJECT)
    desk.acks.flush()

    assert not result.confirmed
    assert "before" in (result.message or "")
    assert desk.session.noted == [(0, 0, ACCEPT)]


async def test_a_ticket_has_the_answer_to_its_own_offset() -> None:
    """A refused range says nothing of the others."""
    desk = Desk()
    lot = desk.lot((0, 3))
    first, second = lot.acknowledge(0, ACCEPT), lot.acknowledge(2, ACCEPT)
    desk.acks.flush()

    desk.answer((0, 0, ACCEPT))
    assert not first.done()
    desk.answer((2, 2, ACCEPT), code=121)

    assert (await first).confirmed
    assert (await second).error_code == 121


async def test_one_answer_may_join_what_was_noted_apart() -> None:
    """Counting goes by offsets, not by ranges."""
    desk = Desk()
    lot, other = desk.lot((0, 3)), desk.lot((4, 5))
    first, second = lot.acknowledge_all(0, 3, ACCEPT), other.acknowledge_all(4, 5, ACCEPT)
    assert first is not None
    assert second is not None
    desk.acks.flush()

    desk.answer((0, 5, ACCEPT))

    assert first.done
    assert second.done
    assert desk.acks.idle


async def test_awaiting_has_it_sent_and_a_callback_has_not() -> None:
    """A callback is for those who have it sent otherwise."""
    desk = Desk()
    lot = desk.lot((0, 1))
    ticket = lot.acknowledge(0, ACCEPT)
    told: list[bool] = []

    ticket.add_done_callback(lambda result: told.append(result.confirmed))
    assert desk.provoked == 0
    waiting = asyncio.ensure_future(_result(ticket))
    await asyncio.sleep(0)
    assert desk.provoked == 1
    desk.acks.flush()
    desk.answer((0, 0, ACCEPT))

    assert (await waiting).confirmed
    assert told == [True]


async def _result(ticket: AckTicket) -> AckResult:
    return await ticket


async def test_who_gives_up_waiting_takes_nothing_from_the_others() -> None:
    """Two wait for the same answer, one is cancelled."""
    desk = Desk()
    lot = desk.lot((0, 1))
    ticket = lot.acknowledge(0, ACCEPT)
    one, two = asyncio.ensure_future(_result(ticket)), asyncio.ensure_future(_result(ticket))
    await asyncio.sleep(0)

    one.cancel()
    await asyncio.gather(one, return_exceptions=True)
    desk.acks.flush()
    desk.answer((0, 0, ACCEPT))

    assert (await two).confirmed


async def test_what_the_session_does_not_hold_is_answered_at_once() -> None:
    """The lock ran out before the request was made."""
    desk = Desk()
    lot = desk.lot((0, 9))
    desk.session.not_held = [OffsetRange(0, 9)]
    pending = lot.acknowledge_all(0, 9, ACCEPT)
    assert pending is not None

    desk.acks.flush()

    assert pending.done
    assert pending.results[0].error_code == 121


async def test_a_lost_record_is_not_sent() -> None:
    """Acknowledging late gives a result, and raises nothing."""
    desk = Desk()
    lot = desk.lot((0, 9))

    undone = desk.acks.lose([OffsetRange(0, 4)])
    result = await lot.acknowledge(2, ACCEPT)
    lot.acknowledge_all(0, 9, ACCEPT)
    desk.acks.flush()

    assert undone == [OffsetRange(0, 4)]
    assert result.error_code == 121
    assert lot.lock_deadline(2) == 0.0
    assert desk.session.noted == [(5, 9, ACCEPT)]


async def test_what_comes_again_is_lost_to_the_lot_before() -> None:
    """The same offset in two lots is acknowledged by the newer one."""
    desk = Desk()
    old = desk.lot((0, 9))
    new = desk.lot((5, 6))

    old.acknowledge_all(0, 9, ACCEPT)
    new.acknowledge_all(5, 6, REJECT)
    desk.acks.flush()

    assert sorted(desk.session.noted) == [(0, 4, ACCEPT), (5, 6, REJECT), (7, 9, ACCEPT)]


async def test_the_end_of_a_session_answers_everything() -> None:
    """What was sent, what was noted, what waited for its time, and what comes later."""
    desk = Desk()
    lot = desk.lot((0, 9))
    sent = lot.acknowledge(0, ACCEPT)
    desk.acks.flush()
    desk.session.not_held = [OffsetRange(1, 1), OffsetRange(2, 2)]
    noted, delayed = lot.acknowledge(1, ACCEPT), lot.acknowledge(2, RELEASE, 3600.0)

    desk.acks.lose_all("the line broke")
    late = lot.acknowledge(3, ACCEPT)

    assert (await sent).error_code is None
    assert (await sent).message == "the line broke"
    assert [(await each).error_code for each in (noted, delayed, late)] == [121, 121, 121]
    assert desk.acks.idle


async def test_a_release_may_wait() -> None:
    """The record stays locked meanwhile, is nobody's to acknowledge, and does not count as noted."""
    desk = Desk()
    lot = desk.lot((0, 9))

    ticket = lot.acknowledge(0, RELEASE, 0.001)
    again = await lot.acknowledge(0, ACCEPT)
    assert desk.session.noted == []
    assert lot.lock_deadline(0) > 0
    async with asyncio.timeout(10):
        while not desk.session.noted:
            await asyncio.sleep(0)
    desk.answer((0, 0, RELEASE))

    assert not again.confirmed
    assert desk.session.noted == [(0, 0, RELEASE)]
    assert (await ticket).confirmed


async def test_a_release_waits_no_longer_than_the_lock_where_that_cannot_be_renewed() -> None:
    """Kafka 4.1: better early than by the lock running out."""
    session = ScriptedSession(renews=False)
    session.deadline = asyncio.get_running_loop().time()
    desk = Desk(session)
    lot = desk.lot((0, 9))

    lot.acknowledge_all(0, 9, RELEASE, 3600.0)

    async with asyncio.timeout(10):
        while not session.noted:
            await asyncio.sleep(0)
    assert session.noted == [(0, 9, RELEASE)]


async def test_a_renewal_is_sent_at_once_and_leaves_the_record_open() -> None:
    """A lock does not wait for the next fetch."""
    desk = Desk()
    lot = desk.lot((0, 1))

    renewed = lot.acknowledge(0, RENEW)
    assert desk.provoked == 1
    accepted = lot.acknowledge(0, ACCEPT)
    desk.acks.flush()
    desk.answer((0, 0, RENEW))
    desk.answer((0, 0, ACCEPT))

    assert desk.session.noted == [(0, 0, RENEW), (0, 0, ACCEPT)]
    assert (await renewed).confirmed
    assert (await accepted).confirmed


async def test_a_renewal_where_there_is_none() -> None:
    """Kafka 4.1: a result that says so."""
    desk = Desk(ScriptedSession(renews=False))
    lot = desk.lot((0, 1))

    result = await lot.acknowledge(0, RENEW)

    assert "4.2" in (result.message or "")
    assert desk.session.noted == []


async def test_gaps_are_noted_like_records() -> None:
    """Markers close the offsets that they lie on."""
    desk = Desk()
    lot = desk.lot((0, 9))

    lot.set_aside([OffsetRange(9, 9)], GAP)
    lot.acknowledge_all(0, 8, ACCEPT)
    desk.acks.flush()

    assert desk.session.noted == [(0, 8, ACCEPT), (9, 9, GAP)]


@pytest.mark.parametrize("step", [2, 3, 7])
async def test_many_ranges_find_their_answers(step: int) -> None:
    """Mixed outcomes of one fetch: each ticket has its own answer."""
    desk = Desk()
    lot = desk.lot((0, 499))
    tickets = [lot.acknowledge(offset, REJECT if offset % step == 0 else ACCEPT) for offset in range(500)]
    desk.acks.flush()

    desk.answer(*desk.session.noted)

    assert all(ticket.done() for ticket in tickets)
    assert all(ticket.result().confirmed for ticket in tickets)


async def test_outstanding_are_noted_and_sent_ones_without_answer() -> None:
    """What a commit has to wait for."""
    desk = Desk()
    lot = desk.lot((0, 9))
    assert desk.acks.outstanding() == set()

    lot.acknowledge(0, ACCEPT)
    desk.acks.flush()
    lot.acknowledge(1, ACCEPT)
    assert len(desk.acks.outstanding()) == 2
    desk.answer((0, 0, ACCEPT))
    desk.acks.flush()
    desk.answer((1, 1, ACCEPT))

    assert desk.acks.outstanding() == set()


async def test_a_record_reaches_its_lot() -> None:
    """The four things that one can say of a record."""
    desk = Desk()
    lot = desk.lot((0, 9))
    one, two, three, four = records(lot, 0, 1, 2, 3)

    one.accept()
    two.release()
    three.reject()
    four.renew()
    desk.acks.flush()

    assert sorted(desk.session.noted) == [(0, 0, ACCEPT), (1, 1, RELEASE), (2, 2, REJECT), (3, 3, RENEW)]


async def test_each_delayed_release_has_its_own_time() -> None:
    """One record that shall wait for long is not released with the rest of its batch, nor counted as answered."""
    desk = Desk()
    lot = desk.lot((0, 3))

    single = lot.acknowledge(1, RELEASE, 60.0)
    rest = lot.acknowledge_all(0, 3, RELEASE, 0.01)
    assert rest is not None
    await until(lambda: len(desk.session.noted) == 2, "the batch is released")

    assert desk.session.noted == [(0, 0, RELEASE), (2, 3, RELEASE)]
    assert not single.done()


async def test_a_delay_counts_from_the_records_that_wait() -> None:
    """Without renewals a lock's end cuts it short: that of what is released, not of a first record that is done."""
    desk = Desk(ScriptedSession(renews=False))
    lot = desk.lot((0, 3))
    lot.acknowledge(0, ACCEPT)

    rest = lot.acknowledge_all(0, 3, RELEASE, 3600.0)
    for _ in range(3):
        await asyncio.sleep(0)

    assert rest is not None
    assert not rest.done
    assert desk.session.noted == []


def cut(desk: Desk, *lasts: int) -> HeldLot:
    """Return a lot from 0 on that the broker handed over in pieces with these last offsets."""
    firsts = [0, *(last + 1 for last in lasts[:-1])]
    pieces = [AcquiredRange(first, last, 1) for first, last in zip(firsts, lasts, strict=True)]
    return desk.acks.hand_over([AcquiredRange(0, lasts[-1], 1)], pieces)


async def test_a_part_of_a_piece_waits_for_the_rest() -> None:
    """A broker would keep books on each offset of it; whole pieces go."""
    desk = Desk()
    lot = cut(desk, 199, 399)
    lot.acknowledge_all(0, 299, ACCEPT)

    whole = desk.acks.flush(whole=True)
    sent = list(desk.session.noted)
    lot.acknowledge_all(300, 399, ACCEPT)
    rest = desk.acks.flush(whole=True)

    assert (whole, sent) == (False, [(0, 199, ACCEPT)])
    assert (rest, desk.session.noted[1:]) == (True, [(200, 399, ACCEPT)])


async def test_a_part_waits_for_two_moments_only() -> None:
    """Then it goes although others of its piece are open; younger parts wait on."""
    desk = Desk()
    lot = cut(desk, 199, 399)
    lot.acknowledge_all(0, 99, ACCEPT)

    moments = [desk.acks.grow_old()]
    lot.acknowledge_all(200, 299, ACCEPT)
    moments.append(desk.acks.grow_old())
    desk.acks.flush(whole=True)

    assert moments == [False, True]
    assert desk.session.noted == [(0, 99, ACCEPT)]


async def test_who_awaits_a_part_that_waits_has_it_sent() -> None:
    """And its ticket is not answered before."""
    desk = Desk()
    lot = cut(desk, 199, 399)
    ticket = lot.acknowledge(5, REJECT)
    lot.acknowledge_all(200, 399, ACCEPT)
    desk.acks.flush(whole=True)
    desk.answer((200, 399, ACCEPT))
    before = ticket.done()

    waiting = asyncio.ensure_future(_result(ticket))
    await asyncio.sleep(0)
    desk.acks.flush()
    desk.answer((5, 5, REJECT))
    result = await waiting

    assert not before
    assert desk.provoked == 1
    assert [tuple(each) for each, _ in result.ranges] == [(5, 5)]


async def test_a_delayed_release_keeps_its_piece_back() -> None:
    """It is not decided yet."""
    desk = Desk()
    lot = cut(desk, 199)
    lot.acknowledge_all(0, 9, RELEASE, 60.0)
    lot.acknowledge_all(10, 199, ACCEPT)

    assert not desk.acks.flush(whole=True)
    desk.acks.lose_all("the end")

    assert (10, 199, ACCEPT) in desk.session.noted


async def test_small_pieces_are_taken_together() -> None:
    """One for each offset, as Kafka 4.1 has them: looking at each would take longer than it helps."""
    desk = Desk()
    lot = cut(desk, *range(150))
    lot.acknowledge_all(0, 98, ACCEPT)

    assert not desk.acks.flush(whole=True)
    lot.acknowledge(99, ACCEPT)
    desk.acks.flush(whole=True)

    assert desk.session.noted == [(0, 99, ACCEPT)]

"""Who waits for the answer to acknowledgements gets it, and nobody waits for ever."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Coroutine
from typing import Any

import pytest

from shareproxy.drain.model import Acknowledgement, AckResult, OffsetRange, TopicPartition
from shareproxy.drain.tickets import AckTicket, BatchTicket, PendingAcks, by_partition, merged, settled
from tests.support.virtual_time import in_virtual_time, turns

NAME = TopicPartition("orders", 0)
OTHER = TopicPartition("orders", 1)
ACCEPT, RELEASE = Acknowledgement.ACCEPT, Acknowledgement.RELEASE


def result(
    first: int,
    last: int,
    error_code: int | None = 0,
    *,
    kind: Acknowledgement = ACCEPT,
    partition: TopicPartition = NAME,
) -> AckResult:
    """Return what a broker said to some offsets."""
    return AckResult(partition, ((OffsetRange(first, last), kind),), error_code, "no" if error_code else None)


class Pending(PendingAcks):
    """Acknowledgements of so many offsets, with a count of how often they were to be sent."""

    __slots__ = ("sent",)

    def __init__(
        self, offsets: int = 1, unseen: deque[PendingAcks] | None = None, partition: TopicPartition = NAME
    ) -> None:
        super().__init__(partition, self._send, unseen)
        self.sent = 0
        self.unanswered = offsets

    def _send(self) -> None:
        self.sent += 1

    def answered(self, *answers: AckResult) -> Pending:
        """Give all the answers that are due, and let no more offsets come."""
        for answer in answers:
            self.take(answer, sum(last - first + 1 for (first, last), _ in answer.ranges))
        self.close()
        return self


async def while_waiting(waiting: Coroutine[Any, Any, Any], pending: PendingAcks, answer: AckResult) -> Any:
    """Give the answer when somebody waits for it."""
    task = asyncio.ensure_future(waiting)
    await turns()
    assert not task.done()
    pending.take(answer, 1)
    pending.close()
    return await task


async def value_of(ticket: AckTicket | BatchTicket) -> Any:
    """Await a ticket."""
    return await ticket


def test_done_when_each_offset_is_answered_and_no_more_come() -> None:
    """The answer to the last one ends it."""
    pending = Pending(2)
    pending.take(result(0, 0), 1)
    pending.close()
    assert [pending.done] == [False]
    pending.take(result(1, 1), 1)
    assert [pending.done] == [True]


def test_not_done_while_more_offsets_may_come() -> None:
    """Although each that did is answered."""
    pending = Pending(1)
    pending.take(result(0, 0), 1)
    assert not pending.done


def test_await_sends_and_gives_the_answer() -> None:
    """Whoever waits does not wait for the next fetch."""
    pending = Pending()
    answer = result(5, 5)
    assert in_virtual_time(while_waiting(value_of(AckTicket(pending, 5, ACCEPT)), pending, answer)) is answer
    assert pending.sent == 1


def test_await_of_an_answer_that_is_there_sends_nothing() -> None:
    """It returns at once."""
    pending = Pending().answered(result(5, 5))
    assert in_virtual_time(value_of(AckTicket(pending, 5, ACCEPT))) == result(5, 5)
    assert pending.sent == 0


def test_one_who_gives_up_does_not_end_it_for_the_others() -> None:
    """Each has a future of its own."""

    async def scenario() -> AckResult:
        pending = Pending()
        first, second = (asyncio.ensure_future(value_of(AckTicket(pending, 5, ACCEPT))) for _ in range(2))
        await turns()
        first.cancel()
        await turns()
        pending.answered(result(5, 5))
        found: AckResult = await second
        assert first.cancelled()
        return found

    assert in_virtual_time(scenario()) == result(5, 5)


def test_ticket_gives_the_result_of_its_own_offset_and_kind() -> None:
    """Others of the same request may have gone wrong, also those of the offset's earlier renewal."""
    pending = Pending(3)
    renewed = result(5, 5, 121, kind=Acknowledgement.RENEW)
    pending.answered(result(4, 4, 121), renewed, result(5, 5))
    assert AckTicket(pending, 5, ACCEPT).result() == result(5, 5)
    assert AckTicket(pending, 4, ACCEPT).result() == result(4, 4, 121)


def test_ticket_whose_offset_no_result_names_gives_all_of_them() -> None:
    """A refusal of others is better than none at all."""
    pending = Pending(2).answered(result(4, 4, 121), result(6, 6))
    assert AckTicket(pending, 5, ACCEPT).result() == merged(NAME, pending.results)


def test_result_that_is_not_there_is_an_error() -> None:
    """As with futures; the text says what to do."""
    ticket = AckTicket(Pending(), 5, ACCEPT)
    assert not ticket.done()
    with pytest.raises(asyncio.InvalidStateError, match="await it"):
        ticket.result()


def test_callback_comes_with_the_answer_and_sends_nothing() -> None:
    """One that comes late is called at once."""
    pending, told = Pending(), list[AckResult]()
    ticket = AckTicket(pending, 5, ACCEPT)
    ticket.add_done_callback(told.append)
    assert (told, pending.sent) == ([], 0)
    pending.answered(result(5, 5))
    assert (told, ticket.done()) == ([result(5, 5)], True)
    ticket.add_done_callback(told.append)
    assert told == [result(5, 5)] * 2


def test_batch_is_sent_before_it_is_waited_for() -> None:
    """All partitions at once: brokers work side by side."""

    async def scenario() -> None:
        first, second = Pending(), Pending(partition=OTHER)
        waiting = asyncio.ensure_future(value_of(BatchTicket([first, second])))
        await turns()
        assert min(first.sent, second.sent) >= 1
        first.answered(result(1, 1))
        await turns()
        assert not waiting.done()
        second.answered(result(2, 2, partition=OTHER))
        assert await waiting == {NAME: result(1, 1), OTHER: result(2, 2, partition=OTHER)}

    in_virtual_time(scenario())


def test_batch_is_done_when_each_partition_is() -> None:
    """Nothing is sent by asking."""
    first, second = Pending().answered(result(1, 1)), Pending(partition=OTHER)
    assert not BatchTicket([first, second]).done()
    second.answered(result(2, 2, partition=OTHER))
    assert BatchTicket([first, second]).done()
    assert second.sent == 0


def test_answer_that_nobody_looked_at_is_put_aside() -> None:
    """The consumer tells of it otherwise."""
    unseen = deque[PendingAcks]()
    pending = Pending(unseen=unseen).answered(result(5, 5))
    assert list(unseen) == [pending]


@pytest.mark.parametrize("look", ["await", "callback"])
def test_answer_that_somebody_looked_at_is_not(look: str) -> None:
    """Nobody is told twice."""
    unseen = deque[PendingAcks]()
    pending = Pending(unseen=unseen)
    ticket = AckTicket(pending, 5, ACCEPT)
    if look == "await":
        in_virtual_time(while_waiting(value_of(ticket), pending, result(5, 5)))
    else:
        ticket.add_done_callback(lambda _: None)
        pending.answered(result(5, 5))
    assert (pending.done, list(unseen)) == (True, [])


def test_what_is_done_is_not_sent_again() -> None:
    """Also when more is wished for."""
    pending = Pending().answered(result(5, 5))
    pending.provoke()
    assert pending.sent == 0


def test_settled_is_done_from_the_start() -> None:
    """For what cannot be asked any more."""
    pending = settled(NAME, result(5, 5, None))
    assert in_virtual_time(value_of(AckTicket(pending, 5, ACCEPT))) == result(5, 5, None)


def test_one_result_is_kept_as_it_is() -> None:
    """Answers to several offsets are often one object."""
    answer = result(1, 2)
    pending = Pending(2)
    pending.take(answer, 1)
    pending.take(answer, 1)
    assert pending.results == [answer]
    assert merged(NAME, pending.results) is answer


def test_confirmed_results_become_one() -> None:
    """With all their ranges."""
    one = merged(NAME, [result(1, 1), result(2, 2, kind=RELEASE)])
    assert one.confirmed
    assert one.ranges == ((OffsetRange(1, 1), ACCEPT), (OffsetRange(2, 2), RELEASE))


def test_refusal_goes_before_what_was_taken() -> None:
    """Which stands beside it, together with what the broker took of a refused request."""
    partly = AckResult(NAME, ((OffsetRange(3, 3), ACCEPT),), 121, "lock lost", ((OffsetRange(4, 4), ACCEPT),))
    one = merged(NAME, [result(1, 1), partly, result(5, 5, None)])
    assert (one.error_code, one.message) == (121, "lock lost")
    assert one.ranges == ((OffsetRange(3, 3), ACCEPT), (OffsetRange(5, 5), ACCEPT))
    assert one.taken == ((OffsetRange(1, 1), ACCEPT), (OffsetRange(4, 4), ACCEPT))


def test_results_of_one_partition_are_one_row() -> None:
    """Each counted once; partitions without an answer have none."""
    same = result(1, 1)
    pending = [Pending().answered(same), Pending().answered(same), Pending(2).answered(result(2, 3)), Pending()]
    found = by_partition(pending)
    assert found == {NAME: merged(NAME, [same, result(2, 3)])}

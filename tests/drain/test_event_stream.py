"""Events go to a callback and to iterators, none of which can hold up the others."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

from structlog.testing import capture_logs

from shareproxy.drain.event_stream import MOST_WAITING, EventStream
from shareproxy.drain.events import BrokerLost, ConsumerEvent, LeaderMoved
from shareproxy.drain.model import TopicPartition
from tests.support.virtual_time import in_virtual_time, turns


def moved(number: int) -> ConsumerEvent:
    """Return an event that can be told from others."""
    return LeaderMoved(TopicPartition("orders", 0), number, None)


async def all_of(events: AsyncIterator[ConsumerEvent]) -> list[ConsumerEvent]:
    """Return the events until the iterator ends."""
    return [event async for event in events]


def test_callback_gets_each_event() -> None:
    """In order."""
    told: list[ConsumerEvent] = []
    stream = EventStream(told.append)
    stream.tell(moved(1))
    stream.tell(moved(2))
    assert told == [moved(1), moved(2)]


def test_callback_that_fails_is_logged_and_holds_up_nothing() -> None:
    """Iterators get the event all the same; the line names it."""

    def fail(event: ConsumerEvent) -> None:
        raise ZeroDivisionError

    async def scenario() -> list[ConsumerEvent]:
        stream = EventStream(fail)
        events = stream.listen()
        stream.tell(moved(1))
        stream.end()
        return await all_of(events)

    with capture_logs() as lines:
        assert in_virtual_time(scenario()) == [moved(1)]
    assert [(line["event"], line["consumer_event"]) for line in lines] == [("on_event failed", "LeaderMoved")]


def test_iterator_sees_what_came_after_its_start() -> None:
    """Also before anybody asks it for the first event, and nothing from before."""

    async def scenario() -> list[ConsumerEvent]:
        stream = EventStream(None)
        stream.tell(moved(1))
        events = stream.listen()
        stream.tell(moved(2))
        stream.end()
        return await all_of(events)

    assert in_virtual_time(scenario()) == [moved(2)]


def test_iterator_waits_for_what_comes() -> None:
    """It ends only with the consumer."""

    async def scenario() -> list[ConsumerEvent]:
        stream = EventStream(None)
        reading = asyncio.create_task(all_of(stream.listen()))
        for number in (1, 2):
            await turns()
            assert not reading.done()
            stream.tell(moved(number))
        stream.end()
        return await reading

    assert in_virtual_time(scenario()) == [moved(1), moved(2)]


def test_each_iterator_sees_every_event() -> None:
    """They do not share them."""

    async def scenario() -> list[list[ConsumerEvent]]:
        stream = EventStream(None)
        iterators = [stream.listen(), stream.listen()]
        stream.tell(moved(1))
        stream.end()
        return [await all_of(events) for events in iterators]

    assert in_virtual_time(scenario()) == [[moved(1)], [moved(1)]]


def test_iterator_that_does_not_keep_up_loses_the_oldest() -> None:
    """Memory is bounded."""

    async def scenario() -> list[ConsumerEvent]:
        stream = EventStream(None)
        events = stream.listen()
        for number in range(MOST_WAITING + 2):
            stream.tell(moved(number))
        stream.end()
        return await all_of(events)

    found = in_virtual_time(scenario())
    assert (len(found), found[0], found[-1]) == (MOST_WAITING, moved(2), moved(MOST_WAITING + 1))


def test_iterator_that_is_left_costs_nothing_more() -> None:
    """Nothing is kept for it."""

    async def scenario() -> int:
        stream = EventStream(None)
        events = stream.listen()
        stream.tell(moved(1))
        assert await anext(events) == moved(1)
        await events.aclose()  # type: ignore[attr-defined]
        return len(stream._listeners)

    assert in_virtual_time(scenario()) == 0


def test_iterator_of_an_ended_stream_ends_at_once() -> None:
    """Who comes late does not wait for ever."""

    async def scenario() -> list[ConsumerEvent]:
        stream = EventStream(None)
        stream.tell(BrokerLost(1, "gone"))
        stream.end()
        return await all_of(stream.listen())

    assert in_virtual_time(scenario()) == []

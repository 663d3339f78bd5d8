"""Hand events to whoever wants them.

In: events. Out: calls, and iterators that each see every event from their start on.
Must never: let a slow or failing listener hold up the consumer.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable
from typing import Final

import structlog

from shareproxy.drain.events import ConsumerEvent

# of one iterator that does not keep up; the oldest go first
MOST_WAITING: Final = 1_000


class EventStream:
    """Events of one consumer.

    Args:
        on_event: called with each; what it raises is logged.
    """

    def __init__(self, on_event: Callable[[ConsumerEvent], None] | None) -> None:
        self._on_event = on_event
        self._listeners: list[tuple[deque[ConsumerEvent], asyncio.Event]] = []
        self._ended = False

    def tell(self, event: ConsumerEvent) -> None:
        """Hand on an event."""
        if self._on_event is not None:
            try:
                self._on_event(event)
            except Exception:
                structlog.get_logger().exception("on_event failed", consumer_event=type(event).__name__)
        for waiting, news in self._listeners:
            waiting.append(event)
            news.set()

    def end(self) -> None:
        """Let all iterators end when they have given what is there."""
        self._ended = True
        for _, news in self._listeners:
            news.set()

    def listen(self) -> AsyncIterator[ConsumerEvent]:
        """Give each event from now on, until the consumer is closed."""
        listener = (deque[ConsumerEvent](maxlen=MOST_WAITING), asyncio.Event())
        self._listeners.append(listener)
        return self._iterate(listener)

    async def _iterate(self, listener: tuple[deque[ConsumerEvent], asyncio.Event]) -> AsyncIterator[ConsumerEvent]:
        waiting, news = listener
        try:
            while True:
                while waiting:
                    yield waiting.popleft()
                if self._ended:
                    return
                news.clear()
                await news.wait()
        finally:
            self._listeners.remove(listener)

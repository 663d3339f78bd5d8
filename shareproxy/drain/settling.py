"""Have acknowledgements sent soon, and count what the brokers say to them.

In: tickets of acknowledgements. Out: counts. Must never: count one as done before a broker said so, or send a request
for each.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from typing import Final

from shareproxy.admin.errors import AdminError
from shareproxy.drain.errors import DrainError
from shareproxy.drain.handler_log import HandlerLog
from shareproxy.drain.handler_metrics import HandlerCounts
from shareproxy.drain.handler_parts import HandlerConsumer
from shareproxy.drain.model import AckResult

# acknowledgements travel with fetches; those that none took along by then are sent by themselves
SETTLE_SECONDS: Final = 0.1


class Settling:
    """Sends and counts for one worker.

    Args:
        consumer: sends them.
        counts: where answers are counted.
        log: where it logs.
    """

    def __init__(self, consumer: HandlerConsumer, counts: HandlerCounts, log: HandlerLog) -> None:
        self._consumer, self._counts, self._log = consumer, counts, log
        self._tickets: list[tuple[Awaitable[AckResult], str]] = []
        self._rounds: set[asyncio.Task[None]] = set()
        self._noted = asyncio.Event()
        self._sending: asyncio.Task[None] | None = None

    def note(self, ticket: Awaitable[AckResult], outcome: str) -> None:
        """Take an acknowledgement.

        Args:
            ticket: gives the answer.
            outcome: what was asked for, as it is counted.
        """
        self._tickets.append((ticket, outcome))
        self._noted.set()
        if self._sending is None:
            self._sending = asyncio.create_task(self._keep_sending())

    async def settle(self) -> None:
        """Send what was noted, and wait until all of it is answered."""
        await self._round()
        await asyncio.gather(*self._rounds)

    async def stop(self) -> None:
        """Wait for no more answers."""
        tasks = self._rounds if self._sending is None else {self._sending, *self._rounds}
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _keep_sending(self) -> None:
        while True:
            await self._noted.wait()
            await asyncio.sleep(SETTLE_SECONDS)
            self._noted.clear()
            # in a task of its own: one slow broker shall not hold up what others have to answer
            task = asyncio.create_task(self._round())
            self._rounds.add(task)
            task.add_done_callback(self._rounds.discard)

    async def _round(self) -> None:
        tickets, self._tickets = self._tickets, []
        if not tickets:
            return
        try:
            await self._consumer.commit()
        except (DrainError, AdminError) as error:
            self._log.warning("acknowledgements could not be sent", why=str(error))
        for ticket, outcome in tickets:
            result = await ticket
            if result.confirmed:
                self._counts.outcomes[outcome] += 1
            else:
                self._counts.refused[result.error_code] += 1

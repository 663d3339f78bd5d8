"""Print records of a share group and acknowledge them.

In: a consumer, a way to print, when to end. Out: records on stdout, how many, and why it ended.
Must never: accept or reject a record that was not written to stdout as a whole.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from enum import Enum
from typing import Any, Final, Protocol

from shareproxy.cli.failures import say
from shareproxy.cli.record_format import Render, ShownRecord
from shareproxy.cli.record_output import PIECE_BYTES

BATCH: Final = 500
# how long to wait for records before looking around: whether to end, and whether anything is left
LOOK_SECONDS: Final = 0.5
# how long a reader that does not read may keep us after we were told to stop
READER_SECONDS: Final = 0.5
# sentences on records that cannot be read; after these only their number is told
MOST_SENTENCES: Final = 10


class Action(Enum):
    """What becomes of records that were printed."""

    ACCEPT = "accept"
    PEEK = "peek"
    REJECT = "reject"


class End(Enum):
    """Why no more records are printed."""

    COUNT = "as many as were asked for"
    NOTHING_LEFT = "nothing is left"
    TIME = "time is over"
    FULL = "no more can be held"
    STOPPED = "stopped"


class HeldRecord(ShownRecord, Protocol):
    """A record that can be acknowledged; `commit` waits for the answers, so that nobody does here."""

    @property
    def error(self) -> Exception | None:
        """What a deserialiser raised."""

    def accept(self) -> object:
        """Say that it is done."""

    def reject(self) -> object:
        """Say that it shall not come again."""


class HeldBatch(Protocol):
    """Records that can be acknowledged together."""

    def __len__(self) -> int: ...

    def __iter__(self) -> Iterator[Any]: ...

    def accept(self) -> object:
        """Accept all."""

    def reject(self) -> object:
        """Reject all."""


class Source(Protocol):
    """Where records come from, such as a `ShareConsumer`; what is not acknowledged it gives back when it closes."""

    async def get_batch(self, max_records: int | None = None, timeout: float | None = None) -> HeldBatch:
        """Wait for records; none at the timeout."""

    async def commit(self) -> Mapping[Any, Any]:
        """Send what was noted and wait for the answers, an `AckResult` per partition."""


class Output(Protocol):
    """Where records go."""

    async def write(self, data: bytes) -> None:
        """Return when all of it is written."""


class ConsumeLoop:
    """Prints records until one of the reasons of `End`.

    Args:
        source: where they come from.
        render: makes bytes of a record.
        output: where they go.
        action: what becomes of those that were written.
        count: end after so many.
        seconds: end after so long.
        anything_left: tells whether records are left besides so many that are held here; asked when none come.
        capacity: how many records `source` holds at most.

    Attributes:
        written: how many records were.
        unreadable: how many were not, because a deserialiser could not read them; they are held till the end.
        unconfirmed: whether brokers did not confirm an acknowledgement.
    """

    def __init__(
        self,
        source: Source,
        render: Render,
        output: Output,
        *,
        action: Action = Action.ACCEPT,
        count: int | None = None,
        seconds: float | None = None,
        anything_left: Callable[[int], Awaitable[bool]] | None = None,
        capacity: int,
    ) -> None:
        self._source, self._render, self._output, self._action = source, render, output, action
        self._count, self._seconds, self._anything_left = count, seconds, anything_left
        self._capacity = capacity
        self.written = self.unreadable = 0
        self.unconfirmed = False

    @property
    def _held(self) -> int:
        """How many records are kept from coming again until the end."""
        return self.unreadable + (self.written if self._action is Action.PEEK else 0)

    async def run(self, stop: asyncio.Event) -> End:
        """Print records until there is a reason to end.

        Args:
            stop: set when to end.

        Raises:
            OSError: a record could not be written; it is not acknowledged, nor is any after it.
            AdminError, DrainError: there is no use in going on.
        """
        now = asyncio.get_running_loop().time
        deadline = None if self._seconds is None else now() + self._seconds
        while (end := self._reason_to_end(stop, deadline, now())) is None:
            most = BATCH if self._count is None else min(BATCH, self._count - self.written)
            wait = LOOK_SECONDS if deadline is None else min(LOOK_SECONDS, deadline - now())
            batch = await self._source.get_batch(most, wait)
            if len(batch):
                await self._print(batch, stop)
            elif self._anything_left is not None:
                await self._commit()
                if not await self._anything_left(self._held):
                    end = End.NOTHING_LEFT
                    break
        await self._commit()
        return end

    def _reason_to_end(self, stop: asyncio.Event, deadline: float | None, now: float) -> End | None:
        if stop.is_set():
            return End.STOPPED
        if self._count is not None and self.written >= self._count:
            return End.COUNT
        if deadline is not None and now >= deadline:
            return End.TIME
        return End.FULL if self._held >= self._capacity else None

    async def _print(self, batch: HeldBatch, stop: asyncio.Event) -> None:
        """Write a batch, in pieces of which each is written as a whole before its records are acknowledged."""
        whole = True
        records: list[HeldRecord] = []
        pieces: list[bytes] = []
        size = 0
        for record in batch:
            if record.error is not None:
                self._tell_unreadable(record)
                whole = False
                continue
            records.append(record)
            piece = self._render(record)
            pieces.append(piece)
            size += len(piece)
            if size >= PIECE_BYTES:
                if not await self._write(b"".join(pieces), stop):
                    return
                whole = False
                self._done(records)
                records, pieces, size = [], [], 0
        if records and await self._write(b"".join(pieces), stop):
            self._done(records, batch if whole else None)

    async def _write(self, data: bytes, stop: asyncio.Event) -> bool:
        """Return whether it was written; a reader that does not read cannot keep us from stopping."""
        writing = asyncio.ensure_future(self._output.write(data))
        stopping = asyncio.ensure_future(stop.wait())
        try:
            await asyncio.wait({writing, stopping}, return_when=asyncio.FIRST_COMPLETED)
            if not writing.done():
                await asyncio.wait({writing}, timeout=READER_SECONDS)
            if not writing.done():
                say("nobody reads what is written; the records that are on their way are given back")
                return False
            writing.result()
            return True
        finally:
            stopping.cancel()
            writing.cancel()

    def _done(self, records: Sequence[HeldRecord], batch: HeldBatch | None = None) -> None:
        """Acknowledge records that were written; as a batch if they are all of one."""
        self.written += len(records)
        if self._action is Action.PEEK:
            return
        accept = self._action is Action.ACCEPT
        for each in records if batch is None else (batch,):
            if accept:
                each.accept()
            else:
                each.reject()

    def _tell_unreadable(self, record: HeldRecord) -> None:
        self.unreadable += 1
        if self.unreadable <= MOST_SENTENCES:
            say(f"{record.topic}-{record.partition}, offset {record.offset}: cannot be read: {record.error}")

    async def _commit(self) -> None:
        if not all(result.confirmed for result in (await self._source.commit()).values()):
            self.unconfirmed = True

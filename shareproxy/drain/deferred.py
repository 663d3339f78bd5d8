"""Convert records with converters that have to ask somebody first, such as a schema registry.

In: records that a converter put off. Out: the same with key and value, and those that have to wait still.
Must never: block the event loop, or take what could not be asked for as the fault of a record.
"""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, cast

import msgspec

from shareproxy.drain.deserializers import Deserializer
from shareproxy.drain.model import Headers
from shareproxy.drain.source import SourceRecord


class NotYet(Exception):  # noqa: N818 - it says what happened
    """Raised by a converter that has to ask somebody before it can read this, or needs the record's headers."""


class DeferringConverter(ABC):
    """A converter that asks somebody else; a source of records waits for it, a `ShareConsumer` by itself does not."""

    def __call__(self, data: bytes) -> Any:
        """Put the record off, whose headers are not at hand here."""
        raise NotYet("this converter works within a sink worker only")

    @abstractmethod
    async def start(self) -> None:
        """Get ready.

        Raises:
            DrainError: whoever has to be asked does not answer, or refuses the login.
        """

    @abstractmethod
    def read(self, data: bytes, headers: Headers, *, key: bool) -> Any:
        """Return what the bytes say, without waiting.

        Args:
            data: of a key or value that is there.
            headers: the record's.
            key: whether it is the key.

        Raises:
            NotYet: that is being asked for.
            Exception: the record is at fault.
        """

    @abstractmethod
    async def wait(self, timeout: float) -> None:
        """Return when something that was asked for has been answered, or after so many seconds."""

    @property
    @abstractmethod
    def trouble(self) -> str | None:
        """Why nothing is answered, in a sentence; `None` if all is well."""

    @abstractmethod
    async def close(self) -> None:
        """Let go of everything; may be called twice, or before `start`."""


class Converting:
    """The converters of one source.

    Args:
        key: of keys; `None` leaves them as they are.
        value: of values.

    Attributes:
        needed: whether one of them has to ask; else there is nothing to do here.
    """

    def __init__(self, key: Deserializer | None, value: Deserializer | None) -> None:
        self._key, self._value = key, value
        self._deferring = [each for each in (key, value) if isinstance(each, DeferringConverter)]
        self.needed = bool(self._deferring)

    @property
    def trouble(self) -> str | None:
        """Why records wait, in a sentence; `None` if nothing is wrong."""
        return next((each.trouble for each in self._deferring if each.trouble is not None), None)

    async def start(self) -> None:
        """Get all of them ready.

        Raises:
            DrainError: one of them cannot be; nothing is left behind.
        """
        try:
            for each in self._deferring:
                await each.start()
        except BaseException:
            await self.close()
            raise

    async def close(self) -> None:
        """Let go of everything; may be called twice."""
        for each in self._deferring:
            await each.close()

    def convert(self, records: Sequence[SourceRecord], most: int) -> tuple[list[SourceRecord], list[SourceRecord]]:
        """Return records that can be handed on, no more than `most`, and the rest; both in their order."""
        ready: list[SourceRecord] = []
        rest: list[SourceRecord] = []
        for at, record in enumerate(records):
            if len(ready) == most:
                rest += records[at:]
                break
            if not isinstance(record.error, NotYet):
                ready.append(record)
                continue
            try:
                ready.append(self._converted(record))
            except NotYet:
                rest.append(record)
        return ready, rest

    async def convert_soon(
        self, records: Sequence[SourceRecord], most: int, timeout: float
    ) -> tuple[list[SourceRecord], list[SourceRecord]]:
        """Do the same, and wait for the first record that can be handed on.

        Args:
            records: any.
            most: at most this many are ready.
            timeout: seconds.
        """
        loop = asyncio.get_running_loop()
        deadline = loop.time() + timeout
        ready, rest = self.convert(records, most)
        while rest and not ready and (left := deadline - loop.time()) > 0:
            await self._wait(left)
            ready, rest = self.convert(rest, most)
        return ready, rest

    async def _wait(self, timeout: float) -> None:
        waiting = [asyncio.ensure_future(each.wait(timeout)) for each in self._deferring]
        try:
            await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for each in waiting:
                each.cancel()
            await asyncio.gather(*waiting, return_exceptions=True)

    def _converted(self, record: SourceRecord) -> SourceRecord:
        key: Any = None
        value: Any = None
        error: Exception | None = None
        not_yet: NotYet | None = None
        try:
            key = _read(self._key, record.raw_key, record.headers, key=True)
        except NotYet as later:
            not_yet = later  # the value's schema is asked for meanwhile
        except Exception as problem:
            error = problem
        try:
            value = _read(self._value, record.raw_value, record.headers, key=False)
        except NotYet as later:
            not_yet = later
        except Exception as problem:
            error = problem
        if error is not None:
            # the collector does not look at records: a circle of theirs would stay for ever
            error.__traceback__ = error.__context__ = error.__cause__ = None
            key = value = None
        elif not_yet is not None:
            raise not_yet
        struct: Any = record
        return cast("SourceRecord", msgspec.structs.replace(struct, key=key, value=value, error=error))


def _read(converter: Deserializer | None, data: bytes | None, headers: Headers, *, key: bool) -> Any:
    if data is None or converter is None:
        return data
    if isinstance(converter, DeferringConverter):
        return converter.read(data, headers, key=key)
    return converter(data)

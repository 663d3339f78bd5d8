"""Look at the cluster for `top`, in a thread of its own.

In: how to open the cluster, which groups, how close a look. Out: one `Look` after the other.
Must never: keep the keyboard waiting, however many partitions an answer has.
"""

from __future__ import annotations

import asyncio
import contextlib
import re
import threading
from collections.abc import Callable, Coroutine, Sequence
from datetime import UTC, datetime
from types import TracebackType
from typing import Any, Final, Protocol, Self, TypeVar

import msgspec

from shareproxy.admin.errors import AdminError
from shareproxy.cli.top_history import Look
from shareproxy.lag.descriptions import GroupDescription
from shareproxy.lag.listings import GroupListing
from shareproxy.lag.model import LagReport
from shareproxy.lag.rates import rates
from shareproxy.lag.visible_model import Want

T = TypeVar("T")

CLOSE_SECONDS: Final = 2.0  # a cluster that hangs must not keep a person from the shell


class Asked(Protocol):
    """The part of `ShareAdmin` that is used here."""

    async def __aenter__(self) -> Asked:
        """Connect."""

    async def close(self) -> None:
        """Disconnect."""

    async def list_groups(self) -> GroupListing:
        """Name the share groups."""

    async def lag(self, groups: Sequence[str] | None, *, want: Want | None) -> LagReport:
        """Tell the lag of some groups, or of all."""

    async def describe_groups(self, groups: Sequence[str]) -> dict[str, GroupDescription]:
        """Tell the members of some groups."""


class ClusterLooks:
    """Look at groups again and again.

    Args:
        open_admin: makes an admin client that is not connected yet.
        pattern: only groups in whose names it is found; `None` for all.
        want: what a closer look should find; `None` for none.
    """

    def __init__(self, open_admin: Callable[[], Asked], pattern: re.Pattern[str] | None, want: Want | None) -> None:
        self._open_admin, self._pattern, self._want = open_admin, pattern, want
        self._admin: Asked | None = None
        self._last: LagReport | None = None

    async def look(self) -> Look:
        """Look once.

        Raises:
            AdminError: nothing could be found out; the next look may succeed.
        """
        if self._admin is None:
            self._admin = await self._open_admin().__aenter__()
        report = await self._report(self._admin)
        since_then = {} if self._last is None else rates(self._last, report)
        self._last = report
        names = [group.group for group in report.groups]
        try:
            described = await self._admin.describe_groups(names) if names else {}
        except AdminError:
            described = {}  # how many members there are is worth less than the lag that is known already
        members = {name.group: len(name.members) for name in described.values() if name.error is None}
        return Look(report, since_then, members)

    async def close(self) -> None:
        """Leave the cluster."""
        if self._admin is not None:
            await self._admin.close()

    async def _report(self, admin: Asked) -> LagReport:
        if self._pattern is None:
            return await admin.lag(None, want=self._want)
        listing = await admin.list_groups()
        names = [found.group for found in listing.groups if self._pattern.search(found.group)]
        if not names:
            cluster_id = "" if self._last is None else self._last.cluster_id
            return LagReport(cluster_id, datetime.now(UTC), problems=listing.problems)
        report = await admin.lag(names, want=self._want)
        return msgspec.structs.replace(report, problems=(*listing.problems, *report.problems))


class InThread:
    """Run an event loop in a thread, for work that would keep this one busy."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="looks", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with contextlib.suppress(TimeoutError):
            asyncio.run_coroutine_threadsafe(_cancel_others(), self._loop).result(CLOSE_SECONDS)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(CLOSE_SECONDS)
        if not self._thread.is_alive():
            self._loop.close()

    async def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Return what the work gives; cancelling this cancels the work."""
        return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(work, self._loop))

    def finish(self, work: Coroutine[Any, Any, object]) -> None:
        """Wait for some last work, for a moment only."""
        with contextlib.suppress(TimeoutError, AdminError, OSError):
            asyncio.run_coroutine_threadsafe(work, self._loop).result(CLOSE_SECONDS)


async def _cancel_others() -> None:
    others = asyncio.all_tasks() - {asyncio.current_task()}
    for task in others:
        task.cancel()
    await asyncio.gather(*others, return_exceptions=True)

"""The admin client for share groups without asyncio: the same methods, blocking.

In: calls from any thread. Out: what `shareproxy.ShareAdmin` answers. Must never: leave a call waiting that Ctrl-C or
`close` ended, or keep the interpreter from exiting.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextlib
import os
import threading
import weakref
from collections.abc import AsyncIterator, Collection, Coroutine, Iterator, Mapping, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Self, TypeVar

from shareproxy.admin import share_admin
from shareproxy.admin.errors import AdminError
from shareproxy.admin.results import AlterResult, DeleteResult, GroupListing, OffsetPlan, ShareOffset, Snapshot
from shareproxy.admin.targets import Selection, Target
from shareproxy.cluster.security import Security
from shareproxy.lag.descriptions import GroupDescription
from shareproxy.lag.model import GroupError, LagReport, SourceChoice
from shareproxy.lag.visible_model import Want

if TYPE_CHECKING:
    from shareproxy.lag.consumer_model import ConsumerLagReport
    from shareproxy.lag.group_configs import GroupConfig

__all__ = ["ShareAdmin"]

T = TypeVar("T")

# closing cuts connections; a loop that takes longer than this is left to itself
CLOSE_SECONDS: Final = 5.0
WAIT_SECONDS: Final = 0.5


class ShareAdmin:
    """A blocking admin client for share groups; use it in a `with` block, or close it.

    Its connections live in a thread of its own, so any number of threads may use it. All methods, arguments, results
    and exceptions are those of `shareproxy.ShareAdmin`. Not for use inside a running event loop: it would stand still.

    Args:
        bootstrap_servers: `"host:port[,host:port…]"`, or several `"host:port"`.
        command_config: path of a Java client property file with `security.protocol` and so on.
        security: the same as a value; not together with `command_config`.
        client_id: our name in the brokers' logs and quotas.
        timeout: seconds for one call.
        lag_source: where lag is taken from: `auto`, `broker`, `summary` or `batches`.

    Attributes:
        notes: sentences on what the property file says and is not used here.

    Raises:
        WrongArgument: an argument or the property file cannot be used.
    """

    def __init__(
        self,
        bootstrap_servers: str | Sequence[str],
        *,
        command_config: str | os.PathLike[str] | None = None,
        security: Security | None = None,
        client_id: str = "shareproxy",
        timeout: float = 3.0,
        lag_source: SourceChoice | str = SourceChoice.AUTO,
    ) -> None:
        self._admin = share_admin.ShareAdmin(
            bootstrap_servers,
            command_config=command_config,
            security=security,
            client_id=client_id,
            timeout=timeout,
            lag_source=lag_source,
        )
        self.notes = self._admin.notes
        self._loop = _LoopThread(self._admin)
        # also when the last reference goes, or the interpreter ends, without a call of `close`
        self._end = weakref.finalize(self, self._loop.stop)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """End what is under way in any thread and close the connections; more than once is harmless."""
        self._end()

    def list_groups(
        self,
        *,
        types: str | Collection[str] = ("share",),
        states: str | Collection[str] = (),
        timeout: float | None = None,
    ) -> GroupListing:
        """See `shareproxy.ShareAdmin.list_groups`."""
        return self._loop.run(self._admin.list_groups(types=types, states=states, timeout=timeout))

    def describe_groups(
        self, groups: str | Sequence[str], *, timeout: float | None = None
    ) -> dict[str, GroupDescription]:
        """See `shareproxy.ShareAdmin.describe_groups`."""
        return self._loop.run(self._admin.describe_groups(groups, timeout=timeout))

    def lag(
        self,
        groups: str | Sequence[str] | None = None,
        *,
        topics: str | Collection[str] | None = None,
        want: Want | None = None,
        timeout: float | None = None,
    ) -> LagReport:
        """See `shareproxy.ShareAdmin.lag`."""
        return self._loop.run(self._admin.lag(groups, topics=topics, want=want, timeout=timeout))

    def consumer_lag(
        self,
        groups: str | Sequence[str] | None = None,
        *,
        topics: str | Collection[str] | None = None,
        look_closer: bool = False,
        timeout: float | None = None,
    ) -> ConsumerLagReport:
        """See `shareproxy.ShareAdmin.consumer_lag`."""
        return self._loop.run(self._admin.consumer_lag(groups, topics=topics, look_closer=look_closer, timeout=timeout))

    def offsets(
        self, group: str, *, topics: str | Collection[str] | None = None, timeout: float | None = None
    ) -> tuple[ShareOffset, ...]:
        """See `shareproxy.ShareAdmin.offsets`."""
        return self._loop.run(self._admin.offsets(group, topics=topics, timeout=timeout))

    def plan_offsets(
        self, group: str, target: Target, *, topics: str | Selection | None = None, timeout: float | None = None
    ) -> OffsetPlan:
        """See `shareproxy.ShareAdmin.plan_offsets`."""
        return self._loop.run(self._admin.plan_offsets(group, target, topics=topics, timeout=timeout))

    def alter_offsets(
        self, group: str, offsets: Mapping[tuple[str, int], int], *, timeout: float | None = None
    ) -> AlterResult:
        """See `shareproxy.ShareAdmin.alter_offsets`."""
        return self._loop.run(self._admin.alter_offsets(group, offsets, timeout=timeout))

    def delete_offsets(self, group: str, topics: str | Sequence[str], *, timeout: float | None = None) -> DeleteResult:
        """See `shareproxy.ShareAdmin.delete_offsets`."""
        return self._loop.run(self._admin.delete_offsets(group, topics, timeout=timeout))

    def delete_groups(
        self, groups: str | Sequence[str], *, timeout: float | None = None
    ) -> dict[str, GroupError | None]:
        """See `shareproxy.ShareAdmin.delete_groups`."""
        return self._loop.run(self._admin.delete_groups(groups, timeout=timeout))

    def group_configs(self, group: str, *, timeout: float | None = None) -> Mapping[str, GroupConfig]:
        """See `shareproxy.ShareAdmin.group_configs`."""
        return self._loop.run(self._admin.group_configs(group, timeout=timeout))

    def watch(
        self,
        groups: str | Sequence[str] | None = None,
        *,
        topics: str | Collection[str] | None = None,
        interval: float = 5.0,
        want: Want | None = None,
    ) -> Iterator[Snapshot]:
        """Return an iterator of snapshots without an end; see `shareproxy.ShareAdmin.watch`.

        Leave it with `break`; or close the client in another thread, which raises `AdminError` here.
        """
        # what is wrong with the arguments is said now, not at the first snapshot
        return self._each(self._admin.watch(groups, topics=topics, interval=interval, want=want))

    def _each(self, snapshots: AsyncIterator[Snapshot]) -> Iterator[Snapshot]:
        try:
            while True:
                yield self._loop.run(_next(snapshots))
        finally:
            with contextlib.suppress(AdminError):  # closed meanwhile: then it has ended already
                self._loop.run(_end(snapshots))


async def _next(snapshots: AsyncIterator[Snapshot]) -> Snapshot:
    return await anext(snapshots)


async def _end(snapshots: AsyncIterator[Snapshot]) -> None:
    end = getattr(snapshots, "aclose", None)
    if end is not None:
        await end()


class _LoopThread:
    """A thread with an event loop in which one asynchronous client lives."""

    def __init__(self, admin: share_admin.ShareAdmin) -> None:
        self._admin = admin
        self._loop = asyncio.new_event_loop()
        self._stopping = threading.Lock()
        self._stopped = False
        # daemon: the interpreter would wait for the end of any other before it lets us say that it may end
        self._thread = threading.Thread(target=self._run, name="shareproxy-admin", daemon=True)
        self._thread.start()

    def run(self, call: Coroutine[Any, Any, T]) -> T:
        """Return what a coroutine returns, wherever this is called; Ctrl-C ends the coroutine too.

        Raises:
            AdminError: the client is closed, or was while this waited.
        """
        with self._stopping:
            if self._stopped:
                call.close()
                raise AdminError("the client is closed; open another one")
            future = asyncio.run_coroutine_threadsafe(call, self._loop)
        try:
            # in slices, as not every system lets Ctrl-C end a wait without an end
            while not future.done():
                concurrent.futures.wait([future], WAIT_SECONDS)
            return future.result()
        except concurrent.futures.CancelledError:
            raise AdminError("the client was closed before the answer came") from None
        finally:
            # does nothing to one that is done; after KeyboardInterrupt nobody waits for it any more
            future.cancel()

    def stop(self) -> None:
        """End all calls, close the client, and wait for the thread unless this is it."""
        with self._stopping:
            if self._stopped:
                return
            self._stopped = True
            self._loop.call_soon_threadsafe(self._loop.stop)
        if threading.current_thread() is not self._thread:
            self._thread.join(CLOSE_SECONDS)

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        try:
            self._loop.run_forever()
            tasks = asyncio.all_tasks(self._loop)
            for task in tasks:
                task.cancel()
            self._loop.run_until_complete(asyncio.gather(*tasks, return_exceptions=True))
            self._loop.run_until_complete(self._admin.close())
            self._loop.run_until_complete(self._loop.shutdown_asyncgens())
        finally:
            self._loop.close()

"""The admin client for share groups.

In: questions and changes, each with a time-out. Out: frozen results, or one of a few exceptions.
Must never: change anything that the caller did not ask to change, or wait longer than the time given.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Collection, Mapping, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Final, Self

from shareproxy.admin import arguments
from shareproxy.admin.failures import DESCRIBE_CONFIGS, group_exception, translated
from shareproxy.admin.targets import Selection, Target
from shareproxy.cluster.cluster import Cluster
from shareproxy.cluster.security import Security
from shareproxy.lag.brokers import Trouble
from shareproxy.lag.engine import LagEngine
from shareproxy.lag.group_errors import group_error
from shareproxy.lag.model import GroupError, LagReport, SourceChoice
from shareproxy.lag.visible_model import Want
from shareproxy.protocol.ids import GroupId

if TYPE_CHECKING:
    from shareproxy.admin.results import AlterResult, DeleteResult, GroupListing, OffsetPlan, ShareOffset, Snapshot
    from shareproxy.lag.consumer_model import ConsumerLagReport
    from shareproxy.lag.descriptions import GroupDescription
    from shareproxy.lag.group_configs import GroupConfig
    from shareproxy.lag.visible import VisibleReader

# What only some methods need is imported there: a command that shows lag starts without the rest.

# where a closer look follows, the lag itself leaves it this part of the time
LAG_SHARE: Final = 0.6


class ShareAdmin:
    """An asyncio admin client for share groups; use it as a context manager, or close it.

    Every method raises only `AdminError`s, and takes `timeout`: seconds for the whole call, by default those given
    here. It may be used by any number of tasks of one event loop.

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

    Source: KIP-932, KIP-1226.
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
        way = arguments.connection(command_config, security, client_id)
        cluster = Cluster(arguments.addresses(bootstrap_servers), way.security, client_id=way.client_id)
        self._set_up(cluster, timeout, lag_source, owned=True, notes=way.notes)

    @classmethod
    def over(
        cls, cluster: Cluster, *, timeout: float = 3.0, lag_source: SourceChoice | str = SourceChoice.AUTO
    ) -> Self:
        """Return an admin client over a cluster that somebody else opened and will close."""
        admin = cls.__new__(cls)
        admin._set_up(cluster, timeout, lag_source, owned=False, notes=())
        return admin

    def _set_up(
        self,
        cluster: Cluster,
        timeout: float,
        lag_source: SourceChoice | str,
        *,
        owned: bool,
        notes: tuple[str, ...],
    ) -> None:
        self._cluster, self._owned, self.notes = cluster, owned, notes
        self._timeout = arguments.seconds(timeout)
        self._engine = LagEngine(cluster, source=arguments.source(lag_source), timeout=self._timeout)
        self._reader: VisibleReader | None = None

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """End what is under way and close the connections; more than once is harmless."""
        if self._owned:
            await self._cluster.close()

    async def list_groups(
        self,
        *,
        types: str | Collection[str] = ("share",),
        states: str | Collection[str] = (),
        timeout: float | None = None,
    ) -> GroupListing:
        """List groups; a broker that does not answer is named in `problems`.

        Args:
            types: such as `share`, `consumer`, `classic`, in any case; empty for all.
            states: such as `Stable` or `Empty`, in any case; empty for all.
            timeout: seconds.

        Returns:
            `groups` by name, each with type, state and coordinator. Without the right to DESCRIBE the cluster Kafka
            shows only groups that the user may DESCRIBE.

        Raises:
            CannotReach: no broker answered.
        """
        kinds, kept = arguments.names("types", types), arguments.names("states", states)
        from shareproxy.lag.listings import list_groups

        with translated():
            return await list_groups(self._cluster, types=kinds, states=kept, deadline=self._deadline(timeout))

    async def describe_groups(
        self, groups: str | Sequence[str], *, timeout: float | None = None
    ) -> dict[str, GroupDescription]:
        """Describe share groups: state, members, and the partitions that each serves.

        Args:
            groups: names.
            timeout: seconds.

        Returns:
            A description for every name; one that cannot be described has an `error`, and hides no other.

        Source: KIP-932, ShareGroupDescribe (API 77).
        """
        names = [GroupId(name) for name in arguments.names("groups", groups)]
        from shareproxy.lag.descriptions import describe_groups

        with translated():
            found = await describe_groups(self._cluster, names, deadline=self._deadline(timeout))
        return {str(group): description for group, description in found.items()}

    async def lag(
        self,
        groups: str | Sequence[str] | None = None,
        *,
        topics: str | Collection[str] | None = None,
        want: Want | None = None,
        timeout: float | None = None,
    ) -> LagReport:
        """Return the lag of share groups, partition by partition.

        Lag is offsets from the start offset to the high watermark that are not delivery-complete. An unknown one is
        `None` with a status, never a number. A group without an answer has an `error`, and hides no other.

        Args:
            groups: names; `None` is every share group that can be seen.
            topics: only these.
            want: look closer at each partition, at the cost of more requests: see `Want`. Without, a broker's own lag
                is all that is asked for, and end offsets are read only where the lag needs them.
            timeout: seconds; what is not known then has the status `timeout`.

        Raises:
            CannotReach: no broker answered.
            AccessDenied: no broker accepted our credentials.

        Source: KIP-1226.
        """
        names = None if groups is None else arguments.names("groups", groups)
        chosen = None if topics is None else arguments.names("topics", topics)
        seconds = self._seconds(timeout)
        deadline = asyncio.get_running_loop().time() + seconds
        with translated():
            closer = None if want is None else want & ~Want.LOG_END
            report = await self._engine.report(
                names, topics=chosen, ends=bool(want), timeout=seconds * LAG_SHARE if closer else seconds
            )
            return await self._visible().look(report, closer, deadline=deadline) if closer else report

    async def consumer_lag(
        self,
        groups: str | Sequence[str] | None = None,
        *,
        topics: str | Collection[str] | None = None,
        look_closer: bool = False,
        timeout: float | None = None,
    ) -> ConsumerLagReport:
        """Return the lag of classic and consumer groups, partition by partition.

        Lag is the high watermark − committed offset, in offsets. A partition without a committed offset is unknown,
        not 0. A group without an answer has an `error`, and hides no other.

        Args:
            groups: names; `None` is every classic and consumer group that can be seen.
            topics: only these.
            look_closer: count the records that a consumer can still be given: transaction markers, aborted and
                compacted records are offsets that never go away by consuming. Needs READ on the topics.
            timeout: seconds.

        Raises:
            CannotReach: no broker answered.
            AccessDenied: no broker accepted our credentials.
        """
        from shareproxy.lag.consumer_groups import consumer_lag

        names = None if groups is None else [GroupId(name) for name in arguments.names("groups", groups)]
        chosen = None if topics is None else arguments.names("topics", topics)
        with translated():
            return await consumer_lag(
                self._cluster, names, topics=chosen, look_closer=look_closer, deadline=self._deadline(timeout)
            )

    async def offsets(
        self, group: str, *, topics: str | Collection[str] | None = None, timeout: float | None = None
    ) -> tuple[ShareOffset, ...]:
        """Return the start offsets of a share group, by topic and partition.

        Args:
            group: its name.
            topics: only these.
            timeout: seconds.

        Raises:
            GroupNotFound: there is none of that name.
            NotAShareGroup: it is of another type.
            UnknownTopic: one of `topics` does not exist.
            AccessDenied: DESCRIBE on the group is missing.

        Source: KIP-932, DescribeShareGroupOffsets (API 90).
        """
        name = arguments.group_name(group)
        chosen = None if topics is None else arguments.names("topics", topics)
        from shareproxy.admin.start_offsets import start_offsets

        with translated(group):
            return await start_offsets(self._engine, name, chosen, timeout=self._seconds(timeout))

    async def plan_offsets(
        self,
        group: str,
        target: Target,
        *,
        topics: str | Selection | None = None,
        timeout: float | None = None,
    ) -> OffsetPlan:
        """Say what putting start offsets to a target would do; nothing is changed.

        Args:
            group: its name; Kafka makes one that does not exist, the plan says so.
            target: `Earliest()`, `Latest()`, `ToOffset(n)`, `ToTime(time)` or `Shift(n)`.
            topics: topic names, or partitions by topic name; `None` is all that the group has state of.
            timeout: seconds.

        Returns:
            A row per partition, and why it cannot be done: members in the group, offsets outside of the log.
            Its `offsets` go into `alter_offsets`.

        Raises:
            WrongArgument: no topic is named for a group that has none.
            NotAShareGroup: the group is of another type.
            UnknownTopic: a topic or partition does not exist.
            AccessDenied: DESCRIBE on the group or a topic is missing.
        """
        name, wanted, chosen = arguments.group_name(group), arguments.target(target), arguments.selection(topics)
        from shareproxy.admin import offset_plans

        with translated(group):
            return await offset_plans.plan(
                self._cluster, self._engine, name, wanted, chosen, deadline=self._deadline(timeout)
            )

    async def alter_offsets(
        self, group: str, offsets: Mapping[tuple[str, int], int], *, timeout: float | None = None
    ) -> AlterResult:
        """Set start offsets of a share group without members.

        All of it is checked before anything is sent, as `plan_offsets` does. Kafka makes a group that does not exist.
        Where nothing was changed an exception says why; else the result says what was.

        Args:
            group: its name.
            offsets: new start offset by topic and partition, such as `{("orders", 0): 42}`.
            timeout: seconds.

        Raises:
            GroupNotEmpty: the group has members.
            OffsetRefused: an offset lies beyond the end or below the log start, or the broker took none.
            UnknownTopic: a topic or partition does not exist.
            AccessDenied: READ on the group or on a topic is missing, or DESCRIBE.
            NotSupported: Kafka 4.1, which answers as if all were well and does nothing.
            CannotReach: the answer got lost; the change may have been made.

        Source: KIP-932, AlterShareGroupOffsets (API 91).
        """
        name, wanted = arguments.group_name(group), arguments.offsets(offsets)
        from shareproxy.admin import changes, offset_plans

        with translated(group):
            deadline = self._deadline(timeout)
            until = offset_plans.part_of(deadline)
            plan = await offset_plans.plan_exactly(self._cluster, self._engine, name, wanted, deadline=until)
            return await changes.alter_offsets(self._cluster, plan, deadline=deadline)

    async def delete_offsets(
        self, group: str, topics: str | Sequence[str], *, timeout: float | None = None
    ) -> DeleteResult:
        """Make a share group without members forget topics.

        Where nothing was deleted an exception says why; else the result says what was.

        Args:
            group: its name.
            topics: names.
            timeout: seconds.

        Raises:
            GroupNotEmpty: the group has members.
            GroupNotFound: there is none of that name.
            NotAShareGroup: it is of another type.
            UnknownTopic: none of the topics exists.
            AccessDenied: DELETE on the group or READ on a topic is missing.
            CannotReach: the answer got lost; the offsets may be gone.

        Source: KIP-932, DeleteShareGroupOffsets (API 92).
        """
        name, chosen = arguments.group_name(group), arguments.some_names("topics", topics)
        from shareproxy.admin import changes

        with translated(group):
            return await changes.delete_offsets(self._cluster, name, chosen, deadline=self._deadline(timeout))

    async def delete_groups(
        self, groups: str | Sequence[str], *, timeout: float | None = None
    ) -> dict[str, GroupError | None]:
        """Delete share groups without members; a group of another type is left alone.

        Args:
            groups: names.
            timeout: seconds.

        Returns:
            `None` for each group that is gone, else why it stays: 68 it has members, 69 there is none, 30 DELETE on
            the group is missing.

        Source: KIP-932, DeleteGroups (API 42).
        """
        names = [GroupId(name) for name in arguments.some_names("groups", groups)]
        from shareproxy.admin import changes

        with translated():
            found = await changes.delete_groups(self._cluster, names, deadline=self._deadline(timeout))
        return {str(group): error for group, error in found.items()}

    async def group_configs(self, group: str, *, timeout: float | None = None) -> Mapping[str, GroupConfig]:
        """Return the configuration of a group by name, defaults included; the group need not exist.

        Args:
            group: its name.
            timeout: seconds.

        Raises:
            AccessDenied: DESCRIBE_CONFIGS on the group is missing.

        Source: KIP-932, DescribeConfigs (API 32, resource type 32).
        """
        from shareproxy.lag.group_configs import group_configs

        name = arguments.group_name(group)
        with translated(group):
            found = (await group_configs(self._cluster, [name], deadline=self._deadline(timeout)))[name]
        if isinstance(found, Trouble):
            raise group_exception(group_error(name, found), group, operation=DESCRIBE_CONFIGS)
        return found

    def watch(
        self,
        groups: str | Sequence[str] | None = None,
        *,
        topics: str | Collection[str] | None = None,
        interval: float = 5.0,
        want: Want | None = None,
    ) -> AsyncIterator[Snapshot]:
        """Return an asynchronous iterator of snapshots of `lag`, at a steady pace and without an end.

        A look that fails gives the last good report again: `fresh` is false, and `problems` say why.

        Args:
            groups: names; `None` is every share group that can be seen, found anew each time.
            topics: only these.
            interval: seconds from the beginning of one look to that of the next.
            want: look closer, as for `lag`; `LOG_END` always comes along, as the rates need it.

        Raises:
            AccessDenied: from the iterator, where the first look is refused.
        """
        from shareproxy.admin.watch import watch

        arguments.seconds(interval, "interval")
        names = None if groups is None else arguments.names("groups", groups)
        chosen = None if topics is None else arguments.names("topics", topics)
        closer = Want.LOG_END if want is None else Want.LOG_END | want
        return watch(lambda: self.lag(names, topics=chosen, want=closer), interval)

    def _seconds(self, timeout: float | None) -> float:
        return self._timeout if timeout is None else arguments.seconds(timeout)

    def _deadline(self, timeout: float | None) -> float:
        return asyncio.get_running_loop().time() + self._seconds(timeout)

    def _visible(self) -> VisibleReader:
        # one for all calls: it remembers what it scanned
        if self._reader is None:
            from shareproxy.lag.visible import VisibleReader

            self._reader = VisibleReader(self._cluster)
        return self._reader

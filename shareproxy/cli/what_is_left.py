"""Tell whether a group has anything left besides what we hold, for `shareproxy consume -e`.

In: lag as the brokers tell it, and our assignment. Out: yes or no. Must never: say no while a lag is unknown, but for
partitions of which no state was ever written: there the broker has nothing to tell, and what we were given does.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Sequence
from typing import TYPE_CHECKING, Final

from shareproxy.admin.errors import AccessDenied, CannotReach, NotSupported
from shareproxy.cli.failures import is_denied, say
from shareproxy.lag.model import PartitionLag, Status

if TYPE_CHECKING:
    from shareproxy.admin import ShareAdmin
    from shareproxy.lag.brokers import Brokers
    from shareproxy.lag.model import GroupLag

# how long a partition without state has to be ours without a record before it counts as empty: brokers tell their
# first fetch only after they have found out where it starts
SETTLING_SECONDS: Final = 3.0


class WhatIsLeft:
    """Looks at the lag of a group.

    Args:
        admin: whom to ask.
        cluster: knows how many partitions there are.
        group: its name.
        topics: by name.
        assignment: returns the (topic, partition)s that we are given records of.
        timeout: seconds for one look.
    """

    def __init__(
        self,
        admin: ShareAdmin,
        cluster: Brokers,
        group: str,
        topics: Sequence[str],
        assignment: Callable[[], Collection[tuple[str, int]]],
        *,
        timeout: float,
    ) -> None:
        self._admin, self._cluster, self._group, self._topics = admin, cluster, group, topics
        self._assignment, self._timeout = assignment, timeout
        self._ours_since: dict[tuple[str, int], float] = {}
        self._said: set[str] = set()

    async def anything(self, held: int) -> bool:
        """Return whether there is anything besides so many records that are held here; called while none come.

        Raises:
            AccessDenied: the lag may not be seen, so that nobody can tell.
            NotSupported: these brokers cannot tell it.
        """
        now = asyncio.get_running_loop().time()
        ours = set(self._assignment())
        self._ours_since = {each: self._ours_since.get(each, now) for each in ours}
        try:
            wanted = await self._partitions(now + self._timeout)
            report = await self._admin.lag([self._group], topics=self._topics, timeout=self._timeout)
        except CannotReach as error:
            self._say(str(error))
            return True
        [group] = report.groups
        self._check(group)
        rows = {(row.topic, row.partition): row for row in group.partitions}
        settled = {each for each, since in self._ours_since.items() if now - since >= SETTLING_SECONDS}
        lag = 0
        for each in wanted:
            row = rows.get(each)
            known = None if row is None else row.lag
            if known is not None:
                lag += known
            elif each not in settled or (row is not None and row.status is not Status.NO_START_OFFSET):
                return True
        if lag > held and any(row.exact is False for row in group.partitions):
            return await self._anything_to_consume(held)
        return lag > held

    async def _anything_to_consume(self, held: int) -> bool:
        """Count records: on Kafka 4.1 the lag of a group that reads committed records counts aborted ones, too."""
        from shareproxy.cli.sentences import added_up, consumable
        from shareproxy.lag.visible_model import Want

        want = Want.LOG_START | Want.OPEN | Want.PHANTOM | Want.STATES | Want.CONFIGS
        try:
            report = await self._admin.lag([self._group], topics=self._topics, want=want, timeout=self._timeout)
        except CannotReach as error:
            self._say(str(error))
            return True
        [group] = report.groups
        found = added_up(group.partitions, consumable)
        return group.error is not None or bool(found.unknown) or found.high > held

    async def _partitions(self, deadline: float) -> set[tuple[str, int]]:
        metadata = await self._cluster.metadata(self._topics, deadline=deadline)
        return {(topic, partition) for topic, found in metadata.topics.items() for partition in found.partitions}

    def _check(self, group: GroupLag) -> None:
        """Give up where waiting cannot help."""
        if group.error is not None and is_denied(group.error.code):
            raise AccessDenied(f"-e has to know what is left: {group.error.message}", group.error.code)
        for row in group.partitions:
            if row.lag is None and row.status in (Status.NOT_AUTHORIZED, Status.UNSUPPORTED):
                raise self._never_known(row)

    @staticmethod
    def _never_known(row: PartitionLag) -> AccessDenied | NotSupported:
        sentence = f"-e has to know what is left of {row.topic}-{row.partition}: {row.message or row.status.value}"
        kind = AccessDenied if row.status is Status.NOT_AUTHORIZED else NotSupported
        return kind(sentence, row.error_code)

    def _say(self, sentence: str) -> None:
        if sentence not in self._said:
            self._said.add(sentence)
            say(sentence)

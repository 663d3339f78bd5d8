"""Find the watched groups and who serves them.

In: the way to the brokers. Out: names, descriptions, and sentences on brokers that did not tell.
Must never: ask a broker once per group.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from shareproxy.lag.brokers import Brokers
from shareproxy.lag.descriptions import GroupDescription, describe_groups
from shareproxy.lag.groups import find_share_groups
from shareproxy.protocol.ids import GroupId


class Directory(Protocol):
    """What the collector asks before it asks for lag; deadlines are `loop.time()` seconds."""

    async def groups(self, deadline: float) -> tuple[Sequence[GroupId], Sequence[str]]:
        """Return the share groups, and a sentence for each broker that did not list its own.

        Raises:
            ClusterError: no broker told.
        """
        ...

    async def describe(self, groups: Sequence[GroupId], deadline: float) -> Mapping[GroupId, GroupDescription]:
        """Return state and members of groups."""
        ...


class BrokerDirectory:
    """The `Directory` that the brokers keep.

    Args:
        brokers: where to ask.
    """

    def __init__(self, brokers: Brokers) -> None:
        self._brokers = brokers

    async def groups(self, deadline: float) -> tuple[Sequence[GroupId], Sequence[str]]:
        """Ask every broker for its share groups."""
        found, problems = await find_share_groups(self._brokers, deadline=deadline)
        return [row.group for row in found], problems

    async def describe(self, groups: Sequence[GroupId], deadline: float) -> Mapping[GroupId, GroupDescription]:
        """Ask each coordinator for its groups."""
        return await describe_groups(self._brokers, groups, deadline=deadline)

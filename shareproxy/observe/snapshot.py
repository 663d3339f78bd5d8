"""Hold what one look at the watched groups found: dated, frozen, the same for everybody who asks.

In: a report, descriptions, progress. Out: values that the metrics, the JSON API and later a page and a scaler show.
Must never: change after it was made, or hold a number for something unknown.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import datetime
from typing import Final, NamedTuple

import msgspec

from shareproxy.lag.descriptions import GroupDescription
from shareproxy.lag.model import GroupLag, LagReport, Status
from shareproxy.protocol.ids import GroupId

INTERNAL_TOPICS: Final = frozenset({"__consumer_offsets", "__share_group_state", "__transaction_state"})


class NameFilter(NamedTuple):
    """Names to watch; both patterns are matched against the whole name.

    Attributes:
        include: `None` for all names.
        exclude: `None` for no name; stronger than `include`.
    """

    include: re.Pattern[str] | None = None
    exclude: re.Pattern[str] | None = None

    def matches(self, name: str) -> bool:
        """Tell whether a name is watched."""
        if self.include is not None and not self.include.fullmatch(name):
            return False
        return self.exclude is None or not self.exclude.fullmatch(name)


class CollectError(msgspec.Struct, frozen=True):
    """Something that a look could not find out.

    Attributes:
        reason: a status label such as `timeout`, or Kafka's error name in small letters.
        api: name of the Kafka API that was to tell.
        message: one sentence for a person.
    """

    reason: str
    api: str
    message: str


class GroupView(msgspec.Struct, frozen=True):
    """One group of a snapshot.

    Attributes:
        lag: watched partitions only, each once.
        description: state and members, `None` if the coordinator did not tell.
        completed: offsets completed so far by partition, beside `lag.partitions`; `None` where not known. It grows
            only, except that a recreated topic begins anew.
        resets: how often the start offset of a partition was seen to move back.
    """

    lag: GroupLag
    description: GroupDescription | None = None
    completed: tuple[int | None, ...] = ()
    resets: int = 0

    @property
    def state(self) -> str | None:
        """Kafka's word for the group's state, `None` if nobody told."""
        return self.lag.state or (None if self.description is None else self.description.state)

    @property
    def members(self) -> int | None:
        """Number of members, `None` if nobody told."""
        return None if self.description is None or self.description.error else len(self.description.members)

    def subscribed(self) -> frozenset[str] | None:
        """Return the topics that members subscribe to; `None` where there are no members to tell."""
        if self.description is None or not self.description.members:
            return None
        return frozenset(topic for member in self.description.members for topic in member.subscribed_topics)


class Snapshot(msgspec.Struct, frozen=True):
    """What one look found.

    Attributes:
        time: when the lags were read, UTC.
        monotonic: the same moment in the event loop's time.
        duration: seconds that the look took.
        report: lag of the watched groups and topics.
        groups: the same by group, with what else is known about them.
        errors: what could not be found out.
    """

    time: datetime
    monotonic: float
    duration: float
    report: LagReport
    groups: Mapping[GroupId, GroupView]
    errors: tuple[CollectError, ...] = ()

    @property
    def partial(self) -> bool:
        """Whether something could not be found out."""
        return bool(self.errors)

    @property
    def descriptions(self) -> Mapping[GroupId, GroupDescription]:
        """State and members of the groups whose coordinator told."""
        return {
            name: view.description
            for name, view in self.groups.items()
            if view.description is not None and view.description.error is None
        }


# a partition in one of these states is not news but trouble on our way to it
TROUBLE: Final = frozenset({Status.TIMEOUT, Status.NOT_AUTHORIZED, Status.NO_LEADER, Status.ERROR, Status.UNSUPPORTED})

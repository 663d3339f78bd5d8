"""Find out before joining whether a share group can be drained as asked (R3 to R6).

In: a cluster, the group, its topics; durations. Out: what was found, or an exception whose sentence says what to do.
Must never: join, create or change anything, or refuse because of what it could not see.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Final

import msgspec

from shareproxy.admin.errors import NotAShareGroup, NotSupported, WrongArgument
from shareproxy.cluster.errors import Unreachable
from shareproxy.drain.consumer_keys import REFUSED_IN_SHARE, belongs_to_group
from shareproxy.lag.brokers import Brokers, Offered, Trouble
from shareproxy.lag.doctor import FEATURE
from shareproxy.lag.listings import ListedGroup, list_groups
from shareproxy.lag.rounds import all_versions, share_of_time
from shareproxy.protocol.errors import ErrorCode
from shareproxy.protocol.ids import GroupId, NodeId
from shareproxy.protocol.message import Request
from shareproxy.protocol.messages import ShareAcknowledgeRequest, ShareFetchRequest, ShareGroupHeartbeatRequest

SHARE: Final = "share"
APIS: Final[tuple[type[Request], ...]] = (  # type: ignore[type-arg] # answers of any kind
    ShareGroupHeartbeatRequest,
    ShareFetchRequest,
    ShareAcknowledgeRequest,
)
NEEDED: Final = "ShareGroupHeartbeat, ShareFetch and ShareAcknowledge (API 76, 78, 79) version 1"
# from this version of ShareFetch on brokers count records exactly, and prolong locks (Kafka 4.2)
BY_RECORD: Final = 2


class Standing(msgspec.Struct, frozen=True):
    """How things stand before a group is joined.

    Attributes:
        exists: whether the share group is there already; `None` if not all brokers told.
        can_count_records: whether every broker that answered can hand out a number of records exactly, and renew locks
            (Kafka 4.2).
        notes: sentences on what will not work, none of them a reason not to begin.
    """

    exists: bool | None
    can_count_records: bool
    notes: tuple[str, ...] = ()


async def check_share_group(brokers: Brokers, group: str, topics: Collection[str], *, deadline: float) -> Standing:
    """Check that the brokers have share groups, and that no group of another type has the name.

    Args:
        brokers: where to ask; all of them are.
        group: its name.
        topics: by name; those that are not there are noted, as they may come later.
        deadline: `loop.time()` seconds.

    Raises:
        NotSupported: the brokers are older than Kafka 4.1, or share groups are switched off.
        NotAShareGroup: there is a group of that name that is of another type, with members or without.
        ClusterError: nobody answered, or the brokers refused us.

    Source: KIP-932; issue 6, R4 and R6.
    """
    metadata = await brokers.metadata(sorted(topics), deadline=deadline)
    # a broker that hangs must leave time for the questions to the others
    answers = await all_versions(brokers, list(metadata.nodes), deadline=share_of_time(deadline, 0.5))
    offered = {node_id: answer for node_id, answer in answers.items() if not isinstance(answer, Trouble)}
    if answers and not offered:
        raise Unreachable(next(answer.message for answer in answers.values() if isinstance(answer, Trouble)))
    notes = [*_share_groups_work(offered)]
    listed: ListedGroup | None = None
    all_told = False
    try:
        listing = await list_groups(brokers, deadline=deadline)
    except Unreachable:
        pass  # the answer to the first heartbeat tells, too
    else:
        listed = next((found for found in listing.groups if found.group == group), None)
        all_told = not listing.problems
    if listed is not None and listed.type != SHARE and listed.state != "Dead":
        raise NotAShareGroup(collision(GroupId(group), listed), ErrorCode.GROUP_ID_NOT_FOUND)
    notes += [
        f"topic {topic!r} does not exist, or this user may not see it; its records come once it is there"
        for topic in sorted(topics)
        if topic not in metadata.topics or metadata.topics[topic].error_code
    ]
    exists = True if listed is not None else False if all_told else None
    counts = all((answer.highest(ShareFetchRequest) or 0) >= BY_RECORD for answer in offered.values())
    return Standing(exists, counts, tuple(notes))


def refuse_keys(keys: Collection[str], where: str) -> None:
    """Refuse keys of a Java property file that a share consumer does not have: they belong to the group.

    Args:
        keys: as the file has them.
        where: its path, for the error.

    Raises:
        WrongArgument: names the key, and the config of the group to set instead.

    Source: KIP-932 (what Java's share consumer refuses); issue 6, R3.
    """
    for key in keys:
        if (advice := REFUSED_IN_SHARE.get(key)) is not None:
            raise WrongArgument(f"{where}: {key} is not for a share group; {advice}")
        if (reason := belongs_to_group(key)) is not None:
            raise WrongArgument(f"{where}: {key}: {reason}")


def collision(group: GroupId, listed: ListedGroup) -> str:
    """Return the sentence for a name that a group of another type has."""
    kind = f"{listed.type} group" if listed.type != "classic" else "consumer group (type classic)"
    state = "" if listed.state is None else f", state {listed.state}"
    return (
        f"the name {group!r} is taken: it is a {kind}{state}, and a share group of that name cannot be while it "
        f"exists, even without members; choose another name, such as 'share-{group}', or delete the old group if "
        "nobody needs its offsets"
    )


def lock_too_short(lock: float, put: float, *, can_renew: bool) -> str | None:
    """Return a warning if work on a batch may take longer than its locks last; `None` if all is well.

    Args:
        lock: seconds, as the brokers answered.
        put: seconds that the slowest batch took, or is expected to take.
        can_renew: whether locks can be prolonged (Kafka 4.2).

    Source: issue 6, R5.
    """
    if put < lock:
        return None
    advice = "take smaller batches, or set the group config share.record.lock.duration.ms higher"
    if can_renew:
        return (
            f"a batch takes {put:.1f} s and its locks last {lock:.1f} s: they have to be renewed meanwhile, and a "
            f"stall of this process costs duplicates; {advice}"
        )
    return (
        f"a batch takes {put:.1f} s, its locks last {lock:.1f} s, and these brokers cannot renew them (Kafka 4.2 can): "
        f"others get its records meanwhile; {advice}"
    )


def _share_groups_work(offered: Mapping[NodeId, Offered]) -> Sequence[str]:
    """Return notes on brokers that are older than the others.

    Raises:
        NotSupported: none of the brokers has share groups.
    """
    unable = sorted(node_id for node_id, answer in offered.items() if not all(map(answer.highest, APIS)))
    if offered and len(unable) == len(offered):
        raise NotSupported(
            f"these brokers have no share groups: none offers {NEEDED}; that takes Kafka 4.1 with the feature "
            f"{FEATURE} at 1, or Kafka 4.2 (what Kafka 4.0 had was a preview of another form)",
            ErrorCode.UNSUPPORTED_VERSION,
        )
    levels = [answer.features.get(FEATURE, 0) for answer in offered.values()]
    if offered and not max(levels):
        raise NotSupported(
            f"share groups are switched off on this cluster: the feature {FEATURE} is at 0; run "
            f"kafka-features.sh --bootstrap-server HOST:PORT upgrade --feature {FEATURE}=1",
            ErrorCode.UNSUPPORTED_VERSION,
        )
    if not unable:
        return ()
    return (f"brokers {', '.join(map(str, unable))} do not offer {NEEDED}: what they lead gives no records",)

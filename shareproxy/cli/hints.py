"""Point out what in a share group deserves a look.

In: a description and a closer look. Out: sentences. Must never: blame a member for what one look cannot show.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from shareproxy.cli.sentences import NAMED, count
from shareproxy.lag.balance import Balance, Partition, Serving
from shareproxy.lag.descriptions import GroupDescription, Member
from shareproxy.lag.model import GroupLag, PartitionLag

UNEVEN: Final = 1.5  # heaviest share ÷ mean share from which a person should know


def member_names(members: Sequence[Member]) -> dict[str, str]:
    """Return a short name by member id: the client id, and where that is shared the beginning of the member id."""
    clients = [member.client_id for member in members]
    return {
        member.member_id: member.client_id
        if member.client_id and clients.count(member.client_id) == 1
        else f"{member.client_id}/{member.member_id[:8]}"
        for member in members
    }


def backlog(row: PartitionLag) -> int | None:
    """Return what members can still be given: the consumable lag where it is known, else the lag."""
    if row.visible is not None and row.visible.consumable_lag is not None:
        return row.visible.consumable_lag
    return row.lag


def serving(members: Sequence[Member]) -> list[Serving]:
    """Return who serves what, as `balance` wants it."""
    return [
        Serving(
            member.member_id,
            frozenset(member.subscribed_topics),
            frozenset((topic.topic, partition) for topic in member.assignment for partition in topic.partitions),
        )
        for member in members
    ]


def hints(description: GroupDescription, group: GroupLag, balance: Balance) -> list[str]:
    """Return one sentence for each thing that deserves a look, the most urgent first."""
    return [
        *_tried_often(group),
        *_held_back(group),
        *_lost(group),
        *_left_alone(description, balance),
        *_late_members(description),
        *_uneven(description, balance),
    ]


def _tried_often(group: GroupLag) -> Iterator[str]:
    """Records whose next failure is their last: what is wrong is often in the record."""
    limit = None if group.visible is None else group.visible.delivery_count_limit
    for row in group.partitions:
        counts = () if row.visible is None else row.visible.delivery_counts or ()
        often = sum(of.offsets for of in counts if of.count > 1 and limit is not None and of.count >= limit - 1)
        if not often:
            continue
        yield (
            f"{_name(row)}: {count(often, 'offset')} delivered {(limit or 0) - 1} times or more of {limit}"
            f"{_first_often(row, (limit or 0) - 1)}; the next failure archives {'it' if often == 1 else 'them'}"
        )


def _first_often(row: PartitionLag, least: int) -> str:
    runs = () if row.visible is None else row.visible.runs or ()
    waiting = ("available", "acquired", "archiving")
    first = [run.first_offset for run in runs if run.delivery_count >= least and run.state in waiting]
    return f" (from {min(first)} on)" if first else ""


def _held_back(group: GroupLag) -> Iterator[str]:
    """One record at the start that was tried before keeps the start offset while later ones are done."""
    for row in group.partitions:
        runs = sorted((row.visible.runs or ()) if row.visible is not None else (), key=lambda run: run.first_offset)
        if not runs or row.start_offset != runs[0].first_offset or runs[0].state in ("acknowledged", "archived"):
            continue
        done = sum(
            run.last_offset - run.first_offset + 1 for run in runs[1:] if run.state in ("acknowledged", "archived")
        )
        if runs[0].delivery_count > 1 and done:
            yield (
                f"{_name(row)}: offset {runs[0].first_offset} was delivered {runs[0].delivery_count} times and holds "
                f"the start offset back; {count(done, 'later offset')} {'is' if done == 1 else 'are'} done"
            )


def _lost(group: GroupLag) -> Iterator[str]:
    gone = [row for row in group.partitions if row.visible is not None and row.visible.unavailable_offsets]
    if gone:
        total = sum(row.visible.unavailable_offsets or 0 for row in gone if row.visible is not None)
        where = _names([_name(row) for row in gone])
        yield f"{where}: retention deleted {count(total, 'offset')} before they were done"


def _left_alone(description: GroupDescription, balance: Balance) -> Iterator[str]:
    if not description.members:
        if waiting := len(balance.unserved):
            have = "has" if waiting == 1 else "have"
            yield f"nobody is in the group, and {count(waiting, 'partition')} {have} a backlog"
        return
    nobody = set(balance.unreachable)
    for partition in balance.unserved:
        who = "no member subscribes to its topic" if partition in nobody else "no member serves it"
        yield f"{partition[0]}-{partition[1]}: has a backlog, but {who}"
    names = member_names(description.members)
    idle = [names[load.member] for load in balance.before if not load.partitions]
    if idle:
        yield f"{_names(idle)}: in the group, but {'serves' if len(idle) == 1 else 'serve'} no partition"


def _late_members(description: GroupDescription) -> Iterator[str]:
    epoch = description.assignment_epoch
    names = member_names(description.members)
    late = [names[m.member_id] for m in description.members if epoch is not None and m.member_epoch < epoch]
    if late:
        yield (
            f"{_names(late)}: not at the newest assignment (epoch {epoch}) yet; if it stays so, the process is stuck "
            "or does not poll"
        )


def _uneven(description: GroupDescription, balance: Balance) -> Iterator[str]:
    if balance.ratio_before is None or balance.ratio_before < UNEVEN or len(description.members) < 2:
        return
    heaviest = max(balance.before, key=lambda load: load.share)
    name = member_names(description.members)[heaviest.member]
    yield (
        f"{name} has {balance.ratio_before:.1f} times the mean share of the backlog; --balance shows what would even "
        "it out"
    )


def backlogs(group: GroupLag) -> Mapping[Partition, int | None]:
    """Return the backlog of each partition, as `balance` wants it."""
    return {(row.topic, row.partition): backlog(row) for row in group.partitions}


def _name(row: PartitionLag) -> str:
    return f"{row.topic}-{row.partition}"


def _names(names: Sequence[str]) -> str:
    more = len(names) - NAMED
    return ", ".join(names[:NAMED]) + (f" and {more} more" if more > 0 else "")

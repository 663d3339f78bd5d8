"""Write a share group down for a person: header, members, a picture of each partition, balance.

In: a description, a closer look, a balance. Out: lines. Must never: ask anyone, or print.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from shareproxy.cli import picture
from shareproxy.cli.hints import backlog, member_names
from shareproxy.cli.sentences import age, bounded, consumable, count, lag_sentence, phantom
from shareproxy.cli.tables import Column, layout, printable, shorten
from shareproxy.lag.balance import Balance, Move, MoveKind
from shareproxy.lag.descriptions import GroupDescription, Member
from shareproxy.lag.model import GroupLag, PartitionLag
from shareproxy.lag.visible_model import DeliveryCount

CELLS_PIPED: Final = 60  # cells of a picture where nobody says how wide the terminal is
CELLS_LEAST: Final = 10
CELLS_MOST: Final = 100
LONGEST_NAME: Final = 40


def header(description: GroupDescription, group: GroupLag) -> list[str]:
    """Return state, epochs, coordinator and the settings that decide what is delivered."""
    lines = [
        f"share group {description.group}: {description.state or 'state unknown'}, "
        f"{count(len(description.members), 'member')}"
    ]
    if group.partitions:
        lines.append(lag_sentence(group).removeprefix(f"{description.group}: "))
    if description.coordinator is not None:
        lines.append(f"coordinator   broker {description.coordinator}")
    epochs = f"group epoch {description.group_epoch}, assignment epoch {description.assignment_epoch}"
    lines.append(f"assignment    {description.assignor or 'none yet'}, {epochs}")
    return lines + _settings(group)


def _settings(group: GroupLag) -> list[str]:
    of = group.visible
    if of is None:
        return []
    lines = []
    begin = [of.isolation_level, None if of.auto_offset_reset is None else f"new ones from {of.auto_offset_reset}"]
    if any(begin):
        lines.append(f"reads         {', '.join(filter(None, begin))}")
    locks = [
        None if of.record_lock_duration_ms is None else f"held for {of.record_lock_duration_ms / 1000:g} s",
        None if of.max_record_locks is None else f"{of.max_record_locks} at a time in a partition",
        None if of.delivery_count_limit is None else f"{count(of.delivery_count_limit, 'delivery attempt')}",
    ]
    if any(locks):
        lines.append(f"records       {', '.join(filter(None, locks))}")
    if of.dead_letter is not None:
        depth = "depth unknown" if of.dead_letter.depth is None else f"holds {count(of.dead_letter.depth, 'offset')}"
        lines.append(f"dead letters  {of.dead_letter.topic}, {depth}")
    return lines


def members(description: GroupDescription, balance: Balance, width: int | None, ellipsis: str) -> list[str]:
    """Return the table of members: what each serves, and the backlog that it can draw from."""
    if not description.members:
        return []
    loads = {load.member: load for load in balance.before}
    names = member_names(description.members)
    columns = (
        Column("MEMBER", shrinks=True),
        Column("HOST", shrinks=True, rank=2),
        Column("EPOCH", right=True, rank=4),
        Column("SUBSCRIBED", shrinks=True, rank=3),
        Column("PARTITIONS", shrinks=True),
        Column("BACKLOG", right=True),
        Column("SHARE", right=True, rank=1),
    )
    rows = []
    for member in description.members:
        load = loads[member.member_id]
        some = "+" if load.unknown else ""
        rows.append(
            [
                *(names[member.member_id], member.client_host.removeprefix("/"), str(member.member_epoch)),
                *(",".join(member.subscribed_topics) or "-", assigned(member) or "-"),
                *(f"{load.reach}{some}", f"{load.share:.0f}{some}"),
            ]
        )
    return layout(columns, rows, width, ellipsis)


def assigned(member: Member) -> str:
    """Return such as `orders:0-3,7 payments:0`."""
    return " ".join(f"{topic.topic}:{_ranges(topic.partitions)}" for topic in member.assignment if topic.partitions)


def _ranges(numbers: Sequence[int]) -> str:
    parts: list[str] = []
    first = last = numbers[0]
    for number in (*numbers[1:], None):
        if number is not None and number == last + 1:
            last = number
            continue
        parts.append(str(first) if first == last else f"{first}-{last}")
        if number is not None:
            first = last = number
    return ",".join(parts)


def partitions(group: GroupLag, width: int | None, signs: Mapping[str, str], ellipsis: str) -> list[str]:
    """Return two lines per partition, a picture and its numbers, and below all of them what the signs mean."""
    rows = group.partitions
    names = [shorten(printable(f"{row.topic}-{row.partition}"), LONGEST_NAME, ellipsis) for row in rows]
    starts = [_offset(row.start_offset) for row in rows]
    ends = [_offset(row.end_offset) for row in rows]
    name_width, start_width, end_width = (max(map(len, cells), default=0) for cells in (names, starts, ends))
    around = name_width + start_width + end_width + 4
    cells = CELLS_PIPED if width is None else min(max(width - around, CELLS_LEAST), CELLS_MOST)
    lines: list[str] = []
    drawn: set[str] = set()
    scaled = False
    for row, name, start, end in zip(rows, names, starts, ends, strict=True):
        pieces = picture.stretches(row)
        if pieces:
            drawn.update(piece.state for piece in pieces)
            scaled = scaled or not picture.to_scale(pieces, cells)
            between = picture.draw(pieces, cells, signs)
        else:  # nothing to draw, or nothing known
            between = ".." if pieces is None else "|"
        line = f"{start.rjust(start_width)} {between} {end}"
        lines.append(f"{name.ljust(name_width)}  {line}")
        lines += [_fitting(f"  {text}", width, ellipsis) for text in _numbers(row, pieces)]
    if drawn:
        lines += ["", *(_fitting(text, width, ellipsis) for text in picture.legend(drawn, signs))]
        if scaled:
            lines.append("long stretches are drawn shorter than they are; no stretch is left out")
    return lines


def _fitting(text: str, width: int | None, ellipsis: str) -> str:
    return text if width is None else shorten(text, width, ellipsis, tail=0)


def _offset(value: int | None) -> str:
    return "-" if value is None else str(value)


def _numbers(row: PartitionLag, pieces: Sequence[picture.Stretch] | None) -> Iterator[str]:
    """Yield what the picture comes to: lag, states, deliveries."""
    parts = [f"lag {row.lag}" if row.lag is not None else f"lag unknown ({row.status.value})"]
    of = row.visible
    if of is not None:
        if row.lag is not None and (text := bounded(*consumable(of))):
            parts.append(f"{text} to consume")
        if (text := bounded(*phantom(of))) not in ("", "0"):
            parts.append(f"{text} phantom")
        if of.in_flight:
            parts.append(f"{of.in_flight} held")
        if of.open_transaction_offsets:
            parts.append(f"{of.open_transaction_offsets} in an open transaction")
        if of.unavailable_offsets:
            parts.append(f"{of.unavailable_offsets} deleted by retention")
        if row.lag is None and of.projected_lag is not None:
            parts.append(f"{of.projected_lag} once a first member starts")
        if of.oldest_record_age_seconds is not None:
            parts.append(f"oldest {age(of.oldest_record_age_seconds)}")
    yield ", ".join(parts)
    if pieces:
        words = {"available": "given back", picture.UNTOUCHED: "without stored state", "acquired": "held"}
        words |= {picture.GONE: "deleted", picture.OPEN: "in an open transaction", "archiving": "being archived"}
        yield ", ".join(f"{number} {words.get(state, state)}" for state, number in picture.totals(pieces).items())
    if of is not None and of.delivery_counts and any(each.count for each in of.delivery_counts):
        yield "deliveries: " + ", ".join(_delivered(each) for each in of.delivery_counts if each.count)


def _delivered(each: DeliveryCount) -> str:
    times = {1: "once", 2: "twice"}.get(each.count, f"{each.count} times")
    return f"{count(each.offsets, 'offset')} {times}"


def balance_lines(
    description: GroupDescription, group: GroupLag, balance: Balance, width: int | None, ellipsis: str
) -> list[str]:
    """Return how even the load is, the moves that would even it out, and the loads after them."""
    names = member_names(description.members)
    if balance.ratio_before is None:
        why = "nobody is in the group" if not description.members else "no member serves a partition with a backlog"
        lines = [f"balance: nothing to compare, {why}"]
    else:
        lines = [f"balance: the heaviest share is {balance.ratio_before:.2f} times the mean (1 is even)"]
    if balance.unknown:
        lines.append(f"{count(len(balance.unknown), 'partition')} with an unknown backlog left out")
    for topic, partition in balance.unreachable if description.members else ():
        lines.append(f"no member subscribes to {topic}, so nobody can serve {topic}-{partition}")
    if not balance.moves:
        if description.members:
            lines.append("no move would make it clearly more even")
        return lines
    lines.append("what an assignor that knows the backlog would change (advice only, Kafka assigns):")
    lines += [f"  {_move(move, names)}" for move in balance.moves]
    after = {load.member: load for load in balance.after}
    columns = (
        Column("MEMBER", shrinks=True),
        Column("PARTITIONS", right=True, rank=1),
        Column("SHARE", right=True),
        Column("PARTITIONS-AFTER", right=True, rank=1),
        Column("SHARE-AFTER", right=True),
    )
    rows = [
        [
            *(names[load.member], str(load.partitions), f"{load.share:.0f}"),
            *(str(after[load.member].partitions), f"{after[load.member].share:.0f}"),
        ]
        for load in balance.before
    ]
    lines += ["", *layout(columns, rows, width, ellipsis), ""]
    lines.append(
        "a share is the backlog of a partition divided by the members that serve it; in a share group each of them "
        "takes what it can, so a fast member gets more"
    )
    return lines


def _move(move: Move, names: Mapping[str, str]) -> str:
    what = f"{move.topic}-{move.partition}"
    who = names[move.member]
    if move.kind is MoveKind.TAKE_OVER and move.instead_of is not None:
        return f"{who} serves {what} instead of {names[move.instead_of]}"
    if move.kind is MoveKind.HELP:
        return f"{who} serves {what} too"
    return f"{who} serves {what}, which nobody does now"


__all__ = ["assigned", "backlog", "balance_lines", "header", "members", "partitions"]

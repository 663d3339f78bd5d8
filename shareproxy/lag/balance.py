"""Say how evenly a group's backlog is shared among its members, and which moves would even it out.

In: who serves which partitions, and the backlog of each. Out: loads before and after, and moves: advice only.
Must never: treat an unknown backlog as 0, or take the last member away from a partition. KIP-1226 looks ahead to an
assignor that uses backlog; in a share group several members may serve one partition, so a move may also be "help".
"""

from __future__ import annotations

import enum
from collections.abc import Mapping, Sequence
from typing import Final

import msgspec

# member's and partition's names, as (topic, partition)
Partition = tuple[str, int]

EVEN_ENOUGH: Final = 1.1  # heaviest load ÷ mean load: the ten per cent that autoscalers also tolerate
MOST_MOVES: Final = 100  # more than this nobody reads, and the search ends in bounded time


class MoveKind(enum.StrEnum):
    """What a member would do."""

    SERVE = "serve"
    """Serve a partition with a backlog that nobody serves."""
    TAKE_OVER = "take_over"
    """Serve a partition instead of another member."""
    HELP = "help"
    """Serve a partition beside those that do already."""


class Serving(msgspec.Struct, frozen=True):
    """One member as it is now.

    Attributes:
        topics: those it subscribes to; it can serve no others.
        partitions: those it serves.
    """

    member: str
    topics: frozenset[str]
    partitions: frozenset[Partition]


class Load(msgspec.Struct, frozen=True):
    """What one member has before it.

    Attributes:
        partitions: how many it serves.
        reach: backlog of all of them, which it could be given if it were alone.
        share: the same, each partition's backlog divided by the members that serve it.
        unknown: how many of them have an unknown backlog; `reach` and `share` leave them out.
    """

    member: str
    partitions: int
    reach: int
    share: float
    unknown: int


class Move(msgspec.Struct, frozen=True):
    """One change of the assignment.

    Attributes:
        member: who would serve the partition.
        instead_of: who would stop serving it, for `take_over`.
    """

    kind: MoveKind
    member: str
    topic: str
    partition: int
    instead_of: str | None = None


class Balance(msgspec.Struct, frozen=True):
    """How even the load is, and how even it could be.

    Attributes:
        before: loads now, in the order given.
        after: loads after all moves.
        ratio_before: heaviest share ÷ mean share, 1 is even; `None` without members or without backlog.
        unserved: partitions with a backlog that no member serves now.
        unreachable: those of them whose topic no member subscribes to.
        unknown: partitions whose backlog is not known; they are not moved.
    """

    before: tuple[Load, ...]
    after: tuple[Load, ...]
    moves: tuple[Move, ...]
    ratio_before: float | None
    ratio_after: float | None
    unserved: tuple[Partition, ...] = ()
    unreachable: tuple[Partition, ...] = ()
    unknown: tuple[Partition, ...] = ()


def balance(members: Sequence[Serving], backlog: Mapping[Partition, int | None]) -> Balance:
    """Return the loads and the moves that a backlog-aware assignor would make.

    Args:
        members: each once.
        backlog: offsets waiting per partition, `None` where it is not known; a partition that is missing is unknown.
    """
    table = _Assignment(members, backlog)
    before = table.loads()
    served = {partition for member in members for partition in member.partitions}
    unserved = tuple(sorted(p for p, waiting in backlog.items() if waiting and p not in served))
    unknown = tuple(sorted({p for p in served | set(backlog) if backlog.get(p) is None}))
    ratio_before = table.ratio()
    moves: list[Move] = []
    unreachable = []
    for partition in sorted(unserved, key=lambda p: -(backlog[p] or 0)):
        move = table.serve(partition)
        if move is None:
            unreachable.append(partition)
        else:
            moves.append(move)
    while len(moves) < MOST_MOVES and (table.ratio() or 0.0) > EVEN_ENOUGH:
        move = table.best_move()
        if move is None:
            break
        moves.append(move)
    return Balance(
        before, table.loads(), tuple(moves), ratio_before, table.ratio(), unserved, tuple(sorted(unreachable)), unknown
    )


class _Assignment:
    """The assignment while moves are tried."""

    def __init__(self, members: Sequence[Serving], backlog: Mapping[Partition, int | None]) -> None:
        self._topics = {member.member: member.topics for member in members}
        self._serves: dict[str, set[Partition]] = {member.member: set(member.partitions) for member in members}
        self._backlog = backlog
        self._servers: dict[Partition, set[str]] = {}
        for member in members:
            for partition in member.partitions:
                self._servers.setdefault(partition, set()).add(member.member)

    def _part(self, partition: Partition, servers: int) -> float:
        return (self._backlog.get(partition) or 0) / servers

    def _share(self, member: str) -> float:
        # sorted: the sum of floats must not depend on the order of a set
        return sum(self._part(p, len(self._servers[p])) for p in sorted(self._serves[member]))

    def loads(self) -> tuple[Load, ...]:
        return tuple(
            Load(
                member,
                len(partitions),
                sum(self._backlog.get(p) or 0 for p in partitions),
                self._share(member),
                sum(self._backlog.get(p) is None for p in partitions),
            )
            for member, partitions in self._serves.items()
        )

    def ratio(self) -> float | None:
        shares = [self._share(member) for member in self._serves]
        total = sum(shares)
        return max(shares) * len(shares) / total if total > 0 else None

    def serve(self, partition: Partition) -> Move | None:
        """Give a partition that nobody serves to the least loaded member that may."""
        able = [member for member, topics in self._topics.items() if partition[0] in topics]
        if not able:
            return None
        member = min(able, key=self._share)
        self._do(Move(MoveKind.SERVE, member, *partition))
        return Move(MoveKind.SERVE, member, *partition)

    def best_move(self) -> Move | None:
        """Make the move that relieves the most loaded member best, and return it; `None` if none helps."""
        shares = {member: self._share(member) for member in self._serves}
        heaviest = max(shares, key=lambda member: shares[member])
        best: tuple[float, Move] | None = None
        for partition in sorted(self._serves[heaviest]):
            waiting, servers = self._backlog.get(partition), self._servers[partition]
            able = [
                member for member, topics in self._topics.items() if partition[0] in topics and member not in servers
            ]
            if not waiting or not able:
                continue
            lightest = min(able, key=lambda member: shares[member])
            now, then = self._part(partition, len(servers)), self._part(partition, len(servers) + 1)
            # the higher of the two loads that change is what a move is judged by; squares tell ties apart
            taken = shares[lightest] + now, shares[heaviest] - now
            helped = shares[lightest] + then, shares[heaviest] - now + then
            options = (
                (taken, Move(MoveKind.TAKE_OVER, lightest, *partition, instead_of=heaviest)),
                (helped, Move(MoveKind.HELP, lightest, *partition)),
            )
            for (one, other), move in options:
                result = max(one, other)
                # a move for less than a hundredth of the load is not worth a rebalance
                if result < shares[heaviest] * 0.99 and (best is None or result < best[0]):
                    best = (result, move)
        if best is None:
            return None
        self._do(best[1])
        return best[1]

    def _do(self, move: Move) -> None:
        partition = (move.topic, move.partition)
        self._serves[move.member].add(partition)
        servers = self._servers.setdefault(partition, set())
        servers.add(move.member)
        if move.instead_of is not None:
            servers.discard(move.instead_of)
            self._serves[move.instead_of].discard(partition)

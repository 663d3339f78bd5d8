"""Share sessions of one node (KIP-932): which member fetches which partitions, on which connection, at which epoch.

In: epochs and partitions of requests, connections that end. Out: sessions, or why there is none.
Must never: release records; who ends a session does that with what it held.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from shareproxy.protocol.ids import TopicId
from shareproxy.testing.simulation.steps import FIRST_EPOCH, LAST_EPOCH

SESSION_NOT_FOUND: Final = 122
INVALID_EPOCH: Final = 123
LIMIT_REACHED: Final = 133
MOST_SESSIONS: Final = 2000
HIGHEST_EPOCH: Final = 2**31 - 1

Place = tuple[TopicId, int]
"""Topic id and partition."""


class ShareSession:
    """One member's session at one node.

    Attributes:
        connection: where it was opened.
        epoch: of the next request.
        partitions: in the order in which they were added; whether their topic existed then.
    """

    __slots__ = ("connection", "epoch", "group", "member", "partitions")

    def __init__(self, group: str, member: str, connection: object) -> None:
        self.group, self.member, self.connection = group, member, connection
        self.epoch = FIRST_EPOCH
        self.partitions: dict[Place, bool] = {}

    def advance(self) -> int:
        """Count a request and return the epoch of the next one."""
        self.epoch = 1 if self.epoch == HIGHEST_EPOCH else self.epoch + 1
        return self.epoch

    def in_turn(self) -> list[Place]:
        """Return the partitions, each time another one first."""
        places = list(self.partitions)
        turn = self.epoch % len(places) if places else 0
        return places[turn:] + places[:turn]


class ShareSessions:
    """All sessions of one node."""

    def __init__(self, most: int = MOST_SESSIONS) -> None:
        self.most = most
        self._sessions: dict[tuple[str, str], ShareSession] = {}
        self._opened: dict[object, set[tuple[str, str]]] = {}

    def open(self, group: str, member: str, connection: object) -> ShareSession | int:
        """Return a new session in the place of the member's old one, or the error code of a node that is full."""
        if (group, member) not in self._sessions and len(self._sessions) >= self.most:
            return LIMIT_REACHED
        session = self._sessions[group, member] = ShareSession(group, member, connection)
        self._opened.setdefault(connection, set()).add((group, member))
        return session

    def find(self, group: str, member: str, epoch: int) -> ShareSession | int:
        """Return the session that a request belongs to, or an error code."""
        session = self._sessions.get((group, member))
        if session is None:
            return SESSION_NOT_FOUND
        if epoch not in (LAST_EPOCH, session.epoch):
            return INVALID_EPOCH
        return session

    def end(self, session: ShareSession) -> None:
        """Forget a session."""
        if self._sessions.get((session.group, session.member)) is session:
            del self._sessions[session.group, session.member]

    def left_by(self, connection: object, *, for_good: bool) -> list[ShareSession]:
        """Return the sessions that end with a connection.

        Args:
            connection: it has ended.
            for_good: also sessions that the same members have opened again on another connection (Kafka 4.1).
        """
        keys = self._opened.pop(connection, set())
        found = [self._sessions[key] for key in keys if key in self._sessions]
        return [session for session in found if for_good or session.connection is connection]

    def of_member(self, group: str, member: str) -> ShareSession | None:
        """Return a member's session."""
        return self._sessions.get((group, member))

    def clear(self) -> None:
        """Forget all, as a node does that starts again."""
        self._sessions.clear()
        self._opened.clear()

    def __iter__(self) -> Iterator[ShareSession]:
        return iter(tuple(self._sessions.values()))

    def __len__(self) -> int:
        return len(self._sessions)

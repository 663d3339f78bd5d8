"""Which session a request belongs to."""

from __future__ import annotations

from shareproxy.protocol.ids import TopicId
from shareproxy.testing.simulation.share_sessions import HIGHEST_EPOCH, ShareSession, ShareSessions

TOPIC = TopicId(b"a topic's own id")
HERE, THERE = object(), object()


def opened(sessions: ShareSessions, member: str = "m", connection: object = HERE) -> ShareSession:
    """Open a session and count its first request."""
    session = sessions.open("g", member, connection)
    assert isinstance(session, ShareSession)
    session.advance()
    return session


def test_each_request_has_its_epoch() -> None:
    """The next one, or −1 to close; without a session none is right."""
    sessions = ShareSessions()
    assert sessions.find("g", "m", 1) == 122
    session = opened(sessions)
    assert [sessions.find("g", "m", epoch) for epoch in (1, -1)] == [session, session]
    assert [sessions.find("g", "m", epoch) for epoch in (0, 2)] == [123, 123]
    sessions.end(session)
    assert sessions.find("g", "m", 1) == 122


def test_epochs_begin_again_after_the_highest() -> None:
    """At 1, as 0 opens a session."""
    session = ShareSession("g", "m", HERE)
    session.epoch = HIGHEST_EPOCH
    assert session.advance() == 1


def test_a_full_node_takes_no_new_member() -> None:
    """But a member that has a session already opens it again."""
    sessions = ShareSessions(most=1)
    opened(sessions)
    assert sessions.open("g", "other", HERE) == 133
    assert isinstance(sessions.open("g", "m", THERE), ShareSession)


def test_sessions_end_with_their_connection() -> None:
    """Those that were opened again elsewhere only in 4.1."""
    sessions = ShareSessions()
    first, second = opened(sessions, "first"), opened(sessions, "second")
    again = opened(sessions, "second", THERE)
    assert again is not second
    assert sessions.left_by(HERE, for_good=False) == [first]
    assert sessions.left_by(HERE, for_good=True) == []
    assert sessions.left_by(THERE, for_good=True) == [again]
    opened(sessions, "third")
    elsewhere = opened(sessions, "third", THERE)
    assert sessions.left_by(HERE, for_good=True) == [elsewhere]


def test_partitions_take_turns() -> None:
    """Each request begins with another one."""
    session = ShareSession("g", "m", HERE)
    assert session.in_turn() == []
    session.partitions = {(TOPIC, 0): True, (TOPIC, 1): True, (TOPIC, 2): True}
    assert [session.advance() and session.in_turn()[0][1] for _ in range(3)] == [1, 2, 0]

"""Every error of drain.md §3.3 at every step of a share session."""

from __future__ import annotations

import pytest

from shareproxy.drain.model import Acknowledgement, OffsetRange
from shareproxy.drain.session import EndReason, LeaderHint, Remedy, SessionOutcome, ShareSession
from shareproxy.protocol.ids import NodeId
from shareproxy.protocol.messages import ShareAcknowledgeRequest
from tests.drain.share_answers import (
    BILLS,
    LOCK,
    ORDERS,
    acknowledge_answer,
    acknowledged,
    acks_in,
    fetch,
    fetch_answer,
    fetched,
    forgotten_in,
    key,
    listed_in,
    open_session,
)

GAP, ACCEPT, RELEASE, REJECT, RENEW = Acknowledgement

TOP = [
    (122, EndReason.NOT_FOUND),
    (123, EndReason.EPOCH),
    (133, EndReason.LIMIT),
    (42, EndReason.INVALID),
    (-1, EndReason.BROKER_ERROR),
    (29, EndReason.DENIED),
    (30, EndReason.DENIED),
    (7, EndReason.BROKER_ERROR),
    (9999, EndReason.BROKER_ERROR),
]
GONE = [
    (6, Remedy.MOVE),
    (74, Remedy.MOVE),
    (124, Remedy.MOVE),
    (3, Remedy.REFRESH),
    (100, Remedy.REFRESH),
    (29, Remedy.STOP),
    (30, Remedy.STOP),
]
WAITED = [-1, 56, 2, 9999]


def results(outcome: SessionOutcome) -> list[tuple[int, int, Acknowledgement, int | None]]:
    """Return every acknowledged range with its code."""
    return [(r.first, r.last, kind, each.error_code) for each in outcome.results for r, kind in each.ranges]


@pytest.mark.parametrize(("code", "reason"), TOP)
def test_top_level_error_when_opening(code: int, reason: EndReason) -> None:
    """Nothing was held; only what asking again cannot change is final."""
    session = ShareSession("group", "member", version=2)
    session.set_wanted([ORDERS])
    fetch(session)

    outcome = session.on_answer(fetch_answer(error=code), 0.0)

    assert outcome.end is not None
    assert (outcome.end.reason, outcome.end.error_code, outcome.end.message) == (reason, code, "as asked")
    assert outcome.end.final is (reason in (EndReason.DENIED, EndReason.INVALID))
    again = fetch(session)
    assert again.share_session_epoch == 0
    assert listed_in(again) == {key(ORDERS)}


@pytest.mark.parametrize(("code", "reason"), TOP)
@pytest.mark.parametrize("step", ["fetch", "acknowledge", "renew", "close"])
def test_top_level_error_later(code: int, reason: EndReason, step: str) -> None:
    """§3.10: everything without an answer is lost, never done, and the next session begins at 0 with everything."""
    session = open_session(ORDERS, BILLS)
    session.acknowledge(ORDERS, 0, 1, ACCEPT)
    if step == "renew":
        session.acknowledge(ORDERS, 8, 9, RENEW)
    if step == "close":
        session.begin_close()
    request = session.next_request(1.0, capacity=100 if step == "fetch" else 0)
    assert request is not None
    session.acknowledge(ORDERS, 2, 3, RELEASE)  # noted while the request was under way

    answer = fetch_answer(error=code) if step == "fetch" else acknowledge_answer(error=code)
    outcome = session.on_answer(answer, 1.0)

    assert outcome.end is not None
    assert outcome.end.reason is reason
    assert outcome.end.final is (reason is EndReason.DENIED)
    sent = [(8, 9, RENEW, code)] if step == "renew" else [(0, 1, ACCEPT, code)]
    unsent = [(0, 1, ACCEPT, None)] if step == "renew" else []
    assert results(outcome) == [*sent, *unsent, (2, 3, RELEASE, None)]
    assert not any(each.confirmed for each in outcome.results)
    assert [(each.partition, each.ranges) for each in outcome.locks_lost] == [(ORDERS, (OffsetRange(4, 9),))]
    assert not session.is_open
    assert session.held_count == session.unconfirmed_count == 0
    if step == "close":
        assert session.is_closed
    else:
        again = fetch(session)
        assert again.share_session_epoch == 0
        assert listed_in(again) == {key(ORDERS), key(BILLS)}
        assert acks_in(again) == {}


@pytest.mark.parametrize("in_flight", [True, False])
def test_c4_the_line_is_lost(in_flight: bool) -> None:
    """C1, C4: what was sent is not known to count, what was not sent does not; both are lost, and held records too."""
    session = open_session()
    session.acknowledge(ORDERS, 0, 1, ACCEPT)
    if in_flight:
        fetch(session)
    session.acknowledge(ORDERS, 2, 2, REJECT)

    outcome = session.on_lost(1.0, "the connection was cut")

    assert outcome.end is not None
    assert outcome.end.reason is EndReason.LINE_LOST
    assert {each.error_code for each in outcome.results} == {None}
    assert {r for each in outcome.results for r, _ in each.ranges} == {OffsetRange(0, 1), OffsetRange(2, 2)}
    assert all("the connection was cut" in (each.message or "") for each in outcome.results)
    assert outcome.locks_lost[0].ranges == (OffsetRange(3, 9),)
    assert fetch(session).share_session_epoch == 0


def test_retries_take_longer_while_they_fail() -> None:
    """§4: storms after a broker's restart; a second good answer starts over."""
    session = open_session(acquired=[])
    waits = []
    for _ in range(12):
        outcome = session.on_lost(0.0, "cut")
        assert outcome.end is not None
        waits.append(outcome.end.retry_after)
        fetch(session)
        session.on_answer(fetch_answer(), 0.0)  # it opens, and breaks again
    fetch(session)
    session.on_answer(fetch_answer(), 0.0)
    outcome = session.on_lost(0.0, "cut")

    assert waits[:4] == [0.1, 0.2, 0.4, 0.8]
    assert waits[-1] == 10.0
    assert outcome.end is not None
    assert outcome.end.retry_after == 0.1


def test_133_waits_longer() -> None:
    """A place comes free only when another member goes."""
    session = ShareSession("group", "member", version=2)
    session.set_wanted([ORDERS])
    fetch(session)

    outcome = session.on_answer(fetch_answer(error=133), 0.0)

    assert outcome.end is not None
    assert outcome.end.retry_after == 1.0


@pytest.mark.parametrize(("code", "remedy"), GONE)
@pytest.mark.parametrize("opening", [True, False])
def test_row_error_that_sends_a_partition_away(code: int, remedy: Remedy, opening: bool) -> None:
    """C7: what is held of it is lost with that code, it is forgotten, and the other partition goes on."""
    if opening:
        session = ShareSession("group", "member", version=2)
        session.set_wanted([ORDERS, BILLS])
        fetch(session)
    else:
        session = open_session(ORDERS, BILLS)
        fetch(session)
        session.acknowledge(ORDERS, 0, 4, ACCEPT)

    outcome = session.on_answer(fetch_answer(fetched(error=code, leader=(7, 3)), fetched(BILLS, [(0, 0)])), 1.0)

    assert outcome.end is None
    (trouble,) = outcome.troubles
    assert (trouble.partition, trouble.error_code, trouble.remedy) == (ORDERS, code, remedy)
    hint = LeaderHint(NodeId(7), 3, "seven", 9007) if remedy is Remedy.MOVE else None
    assert trouble.leader == hint
    assert results(outcome) == ([] if opening else [(0, 4, ACCEPT, code)])
    lost = [] if opening else [(ORDERS, (OffsetRange(5, 9),), code)]
    assert [(each.partition, each.ranges, each.error_code) for each in outcome.locks_lost] == lost
    assert outcome.acquired[0].partition == BILLS
    request = fetch(session, 1.0)
    assert forgotten_in(request) == {key(ORDERS)}
    assert listed_in(request) == set()


def test_6_without_a_hint() -> None:
    """A broker that does not know the new leader says −1 or nothing; metadata will tell."""
    for leader in ((-1, -1), (0, 0)):
        session = open_session()
        fetch(session)

        outcome = session.on_answer(fetch_answer(fetched(error=6, leader=leader)), 1.0)

        assert outcome.troubles[0].leader is None


def test_a_partition_that_came_back_is_added_again() -> None:
    """The leader moved away and back."""
    session = open_session(ORDERS, BILLS)
    fetch(session)
    session.on_answer(fetch_answer(fetched(error=6)), 1.0)
    fetch(session, 1.0)
    session.on_answer(fetch_answer(), 1.0)
    session.set_wanted([ORDERS, BILLS])

    assert listed_in(fetch(session, 2.0)) == {key(ORDERS)}


@pytest.mark.parametrize("code", WAITED)
def test_row_error_that_passes(code: int) -> None:
    """With nothing held the partition leaves the session for a while: its error would end every fetch at once."""
    session = open_session(ORDERS, BILLS, acquired=[])
    fetch(session)

    outcome = session.on_answer(fetch_answer(fetched(error=code)), 1.0)

    assert outcome.troubles[0].remedy is Remedy.WAIT
    assert forgotten_in(fetch(session, 1.0)) == {key(ORDERS)}
    session.on_answer(fetch_answer(), 1.0)
    assert listed_in(fetch(session, 1.1)) == set()
    session.on_answer(fetch_answer(), 1.1)
    assert session.wake_at == 1.5
    assert listed_in(fetch(session, 1.5)) == {key(ORDERS)}


@pytest.mark.parametrize("code", WAITED)
def test_row_error_that_passes_while_records_are_held(code: int) -> None:
    """It must not be forgotten then; all fetches pause instead, acknowledgements do not."""
    session = open_session(ORDERS, BILLS)
    fetch(session)

    outcome = session.on_answer(fetch_answer(fetched(error=code)), 1.0)

    assert not outcome.locks_lost
    assert session.next_request(1.0, capacity=100) is None
    assert session.wake_at == 1.5
    session.acknowledge(ORDERS, 0, 4, ACCEPT)
    assert isinstance(session.next_request(1.1, capacity=100), ShareAcknowledgeRequest)
    session.on_answer(acknowledge_answer(acknowledged()), 1.1)
    assert forgotten_in(fetch(session, 1.5)) == set()


def test_row_error_pauses_grow() -> None:
    """A partition that keeps failing is asked ever less often, and at once again when it is well."""
    session = open_session(acquired=[])
    now, pauses = 0.0, []
    for _ in range(6):
        fetch(session, now)
        session.on_answer(fetch_answer(fetched(error=-1)), now)
        request = fetch(session, now)  # forgets it
        assert forgotten_in(request) == {key(ORDERS)}
        session.on_answer(fetch_answer(), now)
        assert session.next_request(now, capacity=100) is None
        assert session.wake_at is not None
        pauses.append(session.wake_at - now)
        now = session.wake_at

    assert pauses == [0.5, 1.0, 2.0, 4.0, 5.0, 5.0]


# acknowledgements


def acknowledge_once(session: ShareSession, piggybacked: bool, code: int) -> SessionOutcome:
    """Send what is noted, and answer all of it with one code."""
    request = session.next_request(1.0, capacity=100, waiting=not piggybacked)
    assert isinstance(request, ShareAcknowledgeRequest) is not piggybacked
    if piggybacked:
        return session.on_answer(fetch_answer(fetched(ack_error=code)), 1.0)
    return session.on_answer(acknowledge_answer(acknowledged(error=code)), 1.0)


@pytest.mark.parametrize("piggybacked", [True, False])
@pytest.mark.parametrize("code", [121, 42])
def test_0_11_refused_ranges_are_sent_again_in_parts(code: int, piggybacked: bool) -> None:
    """All or nothing per partition: one bad range does not cost the others, and each has one result."""
    session = open_session()
    for offset in (0, 2, 4, 6):
        session.acknowledge(ORDERS, offset, offset, ACCEPT)

    outcome = acknowledge_once(session, piggybacked, code)
    assert not outcome.results
    assert session.unconfirmed_count == 4

    seen = []
    sent = []
    while (request := session.next_request(1.0, capacity=100)) is not None:
        if not acks_in(request):
            break
        assert isinstance(request, ShareAcknowledgeRequest)  # a parked fetch would keep the parts waiting
        ranges = acks_in(request)[key(ORDERS)]
        sent.append([first for first, _, _ in ranges])
        bad = any(first == 4 for first, _, _ in ranges)
        seen += results(session.on_answer(acknowledge_answer(acknowledged(error=code if bad else 0)), 1.0))

    assert sent == [[0, 2], [4, 6], [4], [6]]
    assert sorted(seen, key=lambda row: row[0]) == [
        (0, 0, ACCEPT, 0),
        (2, 2, ACCEPT, 0),
        (4, 4, ACCEPT, code),
        (6, 6, ACCEPT, 0),
    ]
    assert session.unconfirmed_count == 0


@pytest.mark.parametrize("piggybacked", [True, False])
@pytest.mark.parametrize("code", [121, 42, -1, 56, 7, 9999])
def test_a_refused_range_is_given_up(code: int, piggybacked: bool) -> None:
    """A single range that is refused does not count; the partition goes on."""
    session = open_session()
    session.acknowledge(ORDERS, 0, 4, ACCEPT)

    outcome = acknowledge_once(session, piggybacked, code)

    assert results(outcome) == [(0, 4, ACCEPT, code)]
    assert not outcome.troubles
    assert session.held(ORDERS) == [OffsetRange(5, 9)]
    assert acks_in(fetch(session, 1.0)) == {}


@pytest.mark.parametrize("piggybacked", [True, False])
@pytest.mark.parametrize(("code", "remedy"), GONE)
def test_acknowledgements_at_a_broker_that_is_not_the_leader(code: int, remedy: Remedy, piggybacked: bool) -> None:
    """C7, 3: they are lost, and so is what else is held; the partition leaves."""
    session = open_session(ORDERS, BILLS)
    session.acknowledge(ORDERS, 0, 4, ACCEPT)

    outcome = acknowledge_once(session, piggybacked, code)

    assert results(outcome) == [(0, 4, ACCEPT, code)]
    assert [(each.error_code, each.remedy) for each in outcome.troubles] == [(code, remedy)]
    assert outcome.locks_lost[0].ranges == (OffsetRange(5, 9),)
    assert forgotten_in(fetch(session, 1.0)) == {key(ORDERS)}


def test_6_in_the_row_with_good_acknowledgements() -> None:
    """Each code is taken at its word: these were applied before the leader moved."""
    session = open_session()
    session.acknowledge(ORDERS, 0, 4, ACCEPT)
    fetch(session)

    outcome = session.on_answer(fetch_answer(fetched(error=6, leader=(7, 3))), 1.0)

    assert results(outcome) == [(0, 4, ACCEPT, 0)]
    assert outcome.locks_lost[0].ranges == (OffsetRange(5, 9),)


def test_3_for_acknowledgements_and_6_for_the_fetch() -> None:
    """One trouble, the one with the hint."""
    session = open_session()
    session.acknowledge(ORDERS, 0, 4, ACCEPT)
    fetch(session)

    outcome = session.on_answer(fetch_answer(fetched(error=6, ack_error=3, leader=(7, 3))), 1.0)

    assert results(outcome) == [(0, 4, ACCEPT, 3)]
    assert [(each.error_code, each.leader is None) for each in outcome.troubles] == [(6, False)]


def test_an_answer_without_a_row_confirms_nothing() -> None:
    """R23: silence is not a yes."""
    session = open_session()
    session.acknowledge(ORDERS, 0, 4, ACCEPT)
    fetch(session)

    outcome = session.on_answer(fetch_answer(), 1.0)

    assert results(outcome) == [(0, 4, ACCEPT, None)]


def test_refused_at_the_close_is_given_up() -> None:
    """The session is over with that answer; nothing can be sent again."""
    session = open_session()
    session.acknowledge(ORDERS, 0, 0, ACCEPT)
    session.acknowledge(ORDERS, 5, 5, ACCEPT)
    session.begin_close()
    session.next_request(1.0, capacity=0)

    outcome = session.on_answer(acknowledge_answer(acknowledged(error=121)), 1.0)

    assert results(outcome) == [(0, 0, ACCEPT, 121), (5, 5, ACCEPT, 121)]
    assert session.is_closed


def test_renewals_refused_in_part() -> None:
    """Each lock for itself: one that is lost does not end the others."""
    session = open_session()
    fetch(session, 1.0)
    session.on_answer(fetch_answer(fetched(acquired=[(20, 29)])), 1.0)
    session.acknowledge(ORDERS, 0, 9, RENEW)
    session.acknowledge(ORDERS, 20, 29, RENEW)
    session.next_request(5.0, capacity=0)
    session.on_answer(acknowledge_answer(acknowledged(error=121)), 5.0)

    first = session.next_request(5.0, capacity=0)
    assert isinstance(first, ShareAcknowledgeRequest)
    assert first.is_renew_ack
    session.on_answer(acknowledge_answer(acknowledged(error=121)), 5.0)
    session.next_request(5.0, capacity=0)
    session.on_answer(acknowledge_answer(acknowledged()), 5.0)

    assert session.lock_deadline(ORDERS, 0) == LOCK
    assert session.lock_deadline(ORDERS, 20) == 5.0 + LOCK

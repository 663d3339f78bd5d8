"""What a member tells its coordinator, and when; tests are named by their row in drain.md §3.1."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

import pytest

from shareproxy.drain.membership import (
    LONGEST_MEMBER_ID,
    HeartbeatOutcome,
    Membership,
    MemberState,
    Refusal,
    new_member_id,
)
from shareproxy.protocol.ids import TopicId
from shareproxy.protocol.messages import (
    ShareGroupHeartbeatRequest,
    ShareGroupHeartbeatResponse,
    ShareGroupHeartbeatResponseAssignment,
    ShareGroupHeartbeatResponseTopicPartitions,
)

ORDERS = TopicId(b"o" * 16)
INTERVAL = 5.0


def answer(
    epoch: int = 1, assignment: Mapping[TopicId, Sequence[int]] | None = None, *, error: int = 0
) -> ShareGroupHeartbeatResponse:
    """What a coordinator answers."""
    assigned = None
    if assignment is not None:
        assigned = ShareGroupHeartbeatResponseAssignment(
            [ShareGroupHeartbeatResponseTopicPartitions(topic, list(numbers)) for topic, numbers in assignment.items()]
        )
    return ShareGroupHeartbeatResponse(
        error_code=error,
        error_message="as asked" if error else None,
        member_epoch=epoch,
        heartbeat_interval_ms=0 if error else int(INTERVAL * 1000),
        assignment=assigned,
    )


def beat(member: Membership, now: float = 0.0) -> ShareGroupHeartbeatRequest:
    """Return the heartbeat that has to be due."""
    request = member.next_request(now)
    assert request is not None
    return request


def steady(epoch: int = 3) -> Membership:
    """Return a member that has joined and has partition 0."""
    member = Membership("group", ["orders"])
    beat(member)
    member.on_answer(answer(epoch, {ORDERS: [0]}), 0.0)
    return member


def test_member_id_is_made_by_the_client() -> None:
    """22 characters, another one each time."""
    first, second = new_member_id(), new_member_id()

    assert re.fullmatch(r"[A-Za-z0-9_-]{22}", first)
    assert first != second


@pytest.mark.parametrize("member_id", ["", "x" * (LONGEST_MEMBER_ID + 1)])
def test_member_id_out_of_bounds(member_id: str) -> None:
    """Kafka 4.2 refuses 37 characters with 42; it is told before."""
    with pytest.raises(ValueError, match="1 to 36"):
        Membership("group", ["orders"], member_id=member_id)


@pytest.mark.parametrize(("group", "topics"), [("", ["orders"]), ("group", []), ("group", [""])])
def test_nothing_to_join(group: str, topics: list[str]) -> None:
    """A broker answers 42 to no topics; it is told before."""
    with pytest.raises(ValueError, match="needs"):
        Membership(group, topics)


def test_join() -> None:
    """Epoch 0, the topics, the rack; due at once."""
    member = Membership("group", ["orders", "bills"], member_id="me", rack="r1")
    due = member.wake_at

    request = beat(member)

    assert due == float("-inf")
    assert (request.group_id, request.member_id, request.member_epoch, request.rack_id) == ("group", "me", 0, "r1")
    assert request.subscribed_topic_names == ["bills", "orders"]
    assert member.state is MemberState.JOINING
    assert member.wake_at is None
    assert member.next_request(99.0) is None  # one at a time


def test_joined_without_an_assignment_beats_fast() -> None:
    """It comes within a second or so; where it does not come (no such topic) beats get slower."""
    member = Membership("group", ["orders"])
    beat(member)

    outcome = member.on_answer(answer(1), 10.0)
    pauses = []
    for _ in range(12):
        assert member.wake_at is not None
        now = member.wake_at
        assert member.next_request(now - 0.01) is None
        request = beat(member, now)
        assert request.subscribed_topic_names is None
        member.on_answer(answer(1), now)
        pauses.append(round(member.wake_at - now, 6))

    assert outcome == HeartbeatOutcome(joined=True)
    assert member.state is MemberState.WAITING
    assert pauses[0] == 0.45
    assert pauses == sorted(pauses)
    assert pauses[-1] == INTERVAL


def test_assignment_arrives() -> None:
    """From then on the member beats at the interval, with the epoch as answered and nothing else."""
    member = Membership("group", ["orders"])
    beat(member)
    member.on_answer(answer(1), 0.0)
    beat(member, 1.0)

    outcome = member.on_answer(answer(2, {ORDERS: [2, 0]}), 1.0)

    assert outcome.assignment == {ORDERS: (0, 2)} == member.assignment
    assert not outcome.joined
    assert member.state is MemberState.STEADY
    assert member.wake_at == 1.0 + INTERVAL
    request = beat(member, 6.0)
    assert (request.member_epoch, request.subscribed_topic_names, request.rack_id) == (2, None, None)


def test_assignment_null_keeps_and_empty_takes_away() -> None:
    """Null says nothing; an empty list says none."""
    member = steady()
    beat(member, 5.0)
    kept = member.on_answer(answer(3), 5.0)
    beat(member, 10.0)
    emptied = member.on_answer(answer(4, {}), 10.0)

    assert kept.assignment is None
    assert emptied.assignment == {} == member.assignment
    assert member.state is MemberState.WAITING
    assert member.wake_at is not None
    assert member.wake_at < 10.0 + INTERVAL


def test_the_same_assignment_again_is_no_change() -> None:
    """A full answer, such as after joining again, repeats it."""
    member = steady()
    beat(member, 5.0)

    assert member.on_answer(answer(3, {ORDERS: [0]}), 5.0).assignment is None


def test_topics_are_told_on_joining_only() -> None:
    """Told again, they would make the coordinator write the whole assignment each time."""
    member = Membership("group", ["orders", "bills"])
    first = beat(member)
    member.on_lost(0.0)
    second = beat(member, 1.0)
    member.on_answer(answer(1, {ORDERS: [0]}), 1.0)
    third = beat(member, 9.0)

    assert first.subscribed_topic_names == second.subscribed_topic_names == ["bills", "orders"]
    assert third.subscribed_topic_names is None


def test_lost_answer_sends_the_same_again() -> None:
    """The epoch before is accepted; the coordinator is looked up first."""
    member = steady(epoch=3)
    beat(member, 5.0)

    outcome = member.on_lost(5.0)

    assert outcome.find_coordinator
    assert outcome.error_code is None
    assert outcome.assignment is None
    assert member.wake_at == 5.1
    assert beat(member, 5.1).member_epoch == 3


def test_lost_answers_wait_longer_up_to_a_second() -> None:
    """A coordinator that is away is not flooded; a good answer starts over."""
    member = steady()
    now, pauses = 5.0, []
    for _ in range(7):
        beat(member, now)
        member.on_lost(now)
        assert member.wake_at is not None
        pauses.append(member.wake_at - now)
        now = member.wake_at

    assert pauses == pytest.approx([0.1, 0.2, 0.4, 0.8, 1.0, 1.0, 1.0])


def test_110_drops_the_assignment_and_joins_again() -> None:
    """Epoch 0, same id, at once."""
    member = steady()
    beat(member, 5.0)

    outcome = member.on_answer(answer(error=110), 5.0)

    assert outcome.fenced
    assert outcome.assignment == {}
    assert (outcome.error_code, outcome.message) == (110, "as asked")
    request = beat(member, 5.0)
    assert (request.member_epoch, request.member_id) == (0, member.member_id)
    assert request.subscribed_topic_names == ["orders"]


def test_25_joins_again_and_keeps_working() -> None:
    """Held records and sessions are untouched: the assignment stays until the coordinator gives another."""
    member = steady()
    beat(member, 50.0)

    outcome = member.on_answer(answer(error=25), 50.0)

    assert outcome.fenced
    assert outcome.assignment is None
    assert member.assignment == {ORDERS: (0,)}
    assert beat(member, 50.0).member_epoch == 0
    assert member.on_answer(answer(9), 50.0).joined
    assert member.state is MemberState.WAITING  # fast, until the new one comes


def test_fenced_while_joining_waits() -> None:
    """A coordinator that never lets the member in is not flooded."""
    member = Membership("group", ["orders"])
    beat(member)

    member.on_answer(answer(error=25), 0.0)

    assert member.wake_at == 0.1


@pytest.mark.parametrize(("code", "find"), [(14, False), (15, True), (16, True), (7, False), (-1, False)])
@pytest.mark.parametrize("joined", [True, False])
def test_14_15_16_are_tried_again(code: int, find: bool, joined: bool) -> None:
    """Usual on a cold cluster; 15 and 16 want another coordinator."""
    member = steady() if joined else Membership("group", ["orders"])
    beat(member, 5.0)

    outcome = member.on_answer(answer(error=code), 5.0)

    assert outcome == HeartbeatOutcome(find_coordinator=find, error_code=code, message="as asked")
    assert member.wake_at == 5.1
    assert beat(member, 5.1).member_epoch == (3 if joined else 0)


@pytest.mark.parametrize(
    ("code", "refusal"),
    [
        (69, Refusal.NOT_A_SHARE_GROUP),
        (29, Refusal.ACCESS_DENIED),
        (30, Refusal.ACCESS_DENIED),
        (42, Refusal.INVALID),
        (24, Refusal.INVALID),
        (35, Refusal.NOT_SUPPORTED),
    ],
)
def test_r6_refused_on_joining(code: int, refusal: Refusal) -> None:
    """69 on epoch 0 means a group of another type: it is not retriable; nothing more is sent."""
    member = Membership("group", ["orders"])
    beat(member)

    outcome = member.on_answer(answer(error=code), 0.0)

    assert (outcome.refused, outcome.error_code, outcome.message) == (refusal, code, "as asked")
    assert member.state is MemberState.REFUSED
    assert member.next_request(100.0) is None
    assert member.wake_at is None
    member.leave()
    assert member.next_request(100.0) is None


def test_69_later_means_that_the_group_is_gone() -> None:
    """The member makes it anew; if there is a group of another type by then, that join tells."""
    member = steady()
    beat(member, 5.0)

    outcome = member.on_answer(answer(error=69), 5.0)
    assert outcome.fenced
    assert outcome.refused is None
    beat(member, 5.0)

    assert member.on_answer(answer(error=69), 5.0).refused is Refusal.NOT_A_SHARE_GROUP


def test_81_the_group_is_full() -> None:
    """Somebody may leave: joining is tried again at the pace of heartbeats."""
    member = Membership("group", ["orders"])
    beat(member)

    outcome = member.on_answer(answer(error=81), 0.0)

    assert outcome.group_full
    assert outcome.refused is None
    assert member.wake_at == INTERVAL
    assert beat(member, INTERVAL).member_epoch == 0


@pytest.mark.parametrize("code", [0, 25, 16])
def test_leave(code: int) -> None:
    """Epoch −1, once; whatever the answer says, the member is out."""
    member = steady()
    member.leave()
    assert member.wake_at == float("-inf")

    request = beat(member, 1.0)
    outcome = member.on_answer(answer(-1, error=code), 1.0)

    assert request.member_epoch == -1
    assert outcome.left
    assert member.state is MemberState.LEFT
    assert member.assignment == {}
    assert member.next_request(100.0) is None


def test_leave_without_an_answer() -> None:
    """The goodbye may have arrived; the member is given up after its session's time in any case."""
    member = steady()
    member.leave()
    beat(member, 1.0)

    assert member.on_lost(1.0).left
    assert member.state is MemberState.LEFT
    assert not member.on_lost(2.0).left


@pytest.mark.parametrize("lost", [False, True])
@pytest.mark.parametrize("code", [0, 110, 16])
def test_leave_while_a_heartbeat_is_under_way(code: int, lost: bool) -> None:
    """Its answer comes first, whatever it says; then the goodbye, at once."""
    member = steady()
    beat(member, 5.0)
    member.leave()
    assert member.next_request(5.0) is None

    if lost:
        member.on_lost(5.0)
    else:
        member.on_answer(answer(4, error=code), 5.0)

    assert beat(member, 5.0).member_epoch == -1


def test_leave_before_joining() -> None:
    """A member nobody knows says nothing."""
    member = Membership("group", ["orders"])

    member.leave()

    assert member.state is MemberState.LEFT
    assert member.next_request(0.0) is None


def test_an_answer_nobody_awaits_is_a_mistake() -> None:
    """It is not taken for anything."""
    with pytest.raises(ValueError, match="awaited"):
        Membership("group", ["orders"]).on_answer(answer(), 0.0)

"""What a share session asks next; tests are named by their fact (drain.md §3)."""

from __future__ import annotations

import pytest

from shareproxy.drain.model import Acknowledgement, AcquireMode, OffsetRange
from shareproxy.drain.session import EndReason, FetchLimits, ShareSession
from shareproxy.protocol.codec import encode
from shareproxy.protocol.messages import ShareAcknowledgeRequest, ShareFetchRequest
from tests.drain.share_answers import (
    BILLS,
    LOCK,
    ORDERS,
    ORDERS_1,
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


def test_3_2_the_first_fetch_opens_with_all_partitions() -> None:
    """Epoch 0 lists everything and acknowledges nothing."""
    session = ShareSession("group", "member", version=2)
    session.set_wanted([ORDERS, ORDERS_1, BILLS])

    request = fetch(session)

    assert request.share_session_epoch == 0
    assert (request.group_id, request.member_id) == ("group", "member")
    assert listed_in(request) == {key(ORDERS), key(ORDERS_1), key(BILLS)}
    assert acks_in(request) == {}
    assert not session.is_open
    assert session.in_flight


def test_3_2_epochs_count_up_over_both_kinds_of_request() -> None:
    """Each successful request takes the next number, and only changes are listed."""
    session = open_session()
    session.acknowledge(ORDERS, 0, 4, ACCEPT)

    second = session.next_request(1.0, capacity=100, waiting=True)
    assert isinstance(second, ShareAcknowledgeRequest)
    session.on_answer(acknowledge_answer(acknowledged()), 1.0)
    third = fetch(session, 2.0)
    session.on_answer(fetch_answer(), 2.0)
    fourth = fetch(session, 3.0)

    assert [r.share_session_epoch for r in (second, third, fourth)] == [1, 2, 3]
    assert listed_in(third) == listed_in(fourth) == set()


def test_3_2_the_epoch_after_the_last_is_one() -> None:
    """0 would open another session."""
    session = open_session()
    session._epoch = 2**31 - 1

    fetch(session)
    session.on_answer(fetch_answer(), 0.0)

    assert fetch(session).share_session_epoch == 1


def test_0_3_one_request_at_a_time() -> None:
    """Nothing is sent while an answer is awaited, however urgent."""
    session = open_session()
    fetch(session)
    session.acknowledge(ORDERS, 0, 9, ACCEPT)

    assert session.next_request(1.0, capacity=100, waiting=True) is None


def test_3_5_a_fetch_asks_for_no_more_than_there_is_room() -> None:
    """Max records is the room left, and the batch size equals it: 0 would give a range that is none."""
    session = open_session()

    request = fetch(session, capacity=7)

    assert (request.max_records, request.batch_size) == (7, 7)
    assert (request.max_wait_ms, request.min_bytes) == (500, 1)


def test_no_room_no_fetch() -> None:
    """A member that can hold no more asks for nothing, and wakes for its locks only."""
    session = open_session()

    assert session.next_request(1.0, capacity=0) is None
    assert session.wake_at == pytest.approx(LOCK / 2)


@pytest.mark.parametrize(("version", "mode"), [(1, 0), (2, 1)])
def test_3_6_acquire_mode_needs_version_2(version: int, mode: int) -> None:
    """Kafka 4.1 knows no exact cap, and its request can be written all the same."""
    session = ShareSession("g", "m", version=version, limits=FetchLimits(acquire_mode=AcquireMode.RECORD))
    session.set_wanted([ORDERS])

    request = fetch(session)

    assert request.share_acquire_mode == mode
    assert encode(request, version)


def test_acquired_records_are_handed_over() -> None:
    """Records stay bytes; ranges say what of them is ours, with the lock's early end."""
    session = ShareSession("group", "member", version=2)
    session.set_wanted([ORDERS])
    fetch(session, 10.0)

    outcome = session.on_answer(fetch_answer(fetched(acquired=[(0, 4, 1), (5, 9, 3)], records=b"abc")), 10.4)

    (acquired,) = outcome.acquired
    assert acquired.partition == ORDERS
    assert acquired.records == b"abc"
    assert acquired.ranges == ((0, 4, 1), (5, 9, 3))
    assert acquired.lock_deadline == 10.0 + LOCK
    assert session.lock_duration == LOCK
    assert session.held(ORDERS) == [OffsetRange(0, 9)]
    assert session.lock_deadline(ORDERS, 3) == 10.0 + LOCK
    assert session.held_count == 10


def test_3_10_acknowledgements_go_with_the_next_fetch() -> None:
    """Nobody waits and there is room: no request of their own."""
    session = open_session()
    session.acknowledge(ORDERS, 0, 4, ACCEPT)
    session.acknowledge(ORDERS, 5, 5, REJECT)

    request = fetch(session)

    assert acks_in(request) == {key(ORDERS): [(0, 5, [1, 1, 1, 1, 1, 3])]}
    outcome = session.on_answer(fetch_answer(fetched()), 0.0)
    (result,) = outcome.results
    assert result.confirmed
    assert result.partition == ORDERS.name
    assert result.ranges == ((OffsetRange(0, 4), ACCEPT), (OffsetRange(5, 5), REJECT))
    assert session.unconfirmed_count == 0


def test_0_4_who_waits_is_not_parked_with_a_fetch() -> None:
    """A waiting caller has its acknowledgements sent by themselves."""
    session = open_session()
    session.acknowledge(ORDERS, 0, 4, ACCEPT)

    request = session.next_request(1.0, capacity=100, waiting=True)

    assert isinstance(request, ShareAcknowledgeRequest)
    assert acks_in(request) == {key(ORDERS): [(0, 4, [1])]}
    assert not request.is_renew_ack


def test_3_10_without_room_acknowledgements_go_by_themselves() -> None:
    """No fetch is due that could take them along."""
    session = open_session()
    session.acknowledge(ORDERS, 0, 4, RELEASE)

    assert isinstance(session.next_request(1.0, capacity=0), ShareAcknowledgeRequest)


def test_waiting_with_nothing_noted_is_a_fetch() -> None:
    """An empty ShareAcknowledge says nothing."""
    session = open_session()

    assert isinstance(session.next_request(1.0, capacity=5, waiting=True), ShareFetchRequest)


def test_r23_what_is_not_held_is_not_acknowledged() -> None:
    """Twice, never acquired, or of a strange partition: told at once, and not on the wire."""
    session = open_session()

    assert session.acknowledge(ORDERS, 8, 11, ACCEPT) == [OffsetRange(10, 11)]
    assert session.acknowledge(ORDERS, 0, 9, ACCEPT) == [OffsetRange(8, 9)]
    assert session.acknowledge(ORDERS, 0, 9, ACCEPT) == [OffsetRange(0, 9)]
    assert session.acknowledge(BILLS, 0, 0, ACCEPT) == (OffsetRange(0, 0),)
    assert acks_in(fetch(session)) == {key(ORDERS): [(0, 9, [1])]}


def test_0_8_gaps_are_acknowledged() -> None:
    """Markers and holes hold lag until somebody says GAP."""
    session = open_session()
    session.acknowledge(ORDERS, 0, 8, ACCEPT)
    session.acknowledge(ORDERS, 9, 9, GAP)

    assert acks_in(fetch(session)) == {key(ORDERS): [(0, 9, [1] * 9 + [0])]}


# renewals


def test_3_6_locks_are_renewed_at_half_their_time() -> None:
    """In a ShareAcknowledge with the flag, and the lock counts from there."""
    session = open_session()
    assert session.wake_at == LOCK / 2

    request = session.next_request(LOCK / 2, capacity=0)

    assert isinstance(request, ShareAcknowledgeRequest)
    assert request.is_renew_ack
    assert acks_in(request) == {key(ORDERS): [(0, 9, [4])]}
    outcome = session.on_answer(acknowledge_answer(acknowledged()), LOCK / 2)
    assert outcome.results[0].confirmed
    assert session.lock_deadline(ORDERS, 9) == LOCK * 1.5
    assert session.held_count == 10


def test_3_6_a_renewal_is_due_before_a_fetch() -> None:
    """With room for more, the lock still comes first."""
    session = open_session()
    session.acknowledge(ORDERS, 0, 4, ACCEPT)

    request = session.next_request(LOCK / 2, capacity=100)

    assert isinstance(request, ShareAcknowledgeRequest)
    assert acks_in(request) == {key(ORDERS): [(5, 9, [4])]}
    session.on_answer(acknowledge_answer(acknowledged()), LOCK / 2)
    assert acks_in(fetch(session, LOCK / 2)) == {key(ORDERS): [(0, 4, [1])]}


def test_3_6_a_fetch_is_not_parked_beyond_a_renewal() -> None:
    """The wait ends when the lock wants to be renewed."""
    session = open_session()

    assert fetch(session, LOCK / 2 - 0.2).max_wait_ms == pytest.approx(200, abs=1)


def test_3_6_asked_for_by_the_caller() -> None:
    """A renewal that somebody asked for goes out at once."""
    session = open_session()

    assert session.acknowledge(ORDERS, 2, 3, RENEW) == ()
    request = session.next_request(1.0, capacity=100)

    assert isinstance(request, ShareAcknowledgeRequest)
    assert acks_in(request) == {key(ORDERS): [(2, 3, [4])]}


def test_3_6_no_renewal_on_kafka_4_1() -> None:
    """Version 1 has none: nothing is renewed by itself, and asking is a mistake."""
    session = open_session(version=1)

    assert not session.can_renew
    assert session.next_request(LOCK / 2, capacity=0) is None
    with pytest.raises(ValueError, match=r"Kafka 4\.2"):
        session.acknowledge(ORDERS, 0, 0, RENEW)


def test_renewals_can_be_switched_off() -> None:
    """The caller may want to let locks run out."""
    session = open_session()
    session.auto_renew = False

    assert session.next_request(LOCK / 2, capacity=0) is None
    assert session.wake_at == LOCK


def test_3_6_a_refused_renewal_is_not_asked_for_again() -> None:
    """`share.renew.acknowledge.enable=false` answers 121; the lock runs on, and the acknowledgement is still good."""
    session = open_session()
    fetch(session, 10.0)
    session.on_answer(fetch_answer(fetched(acquired=[(20, 29)])), 10.0)
    first = session.next_request(15.0, capacity=0)
    assert first is not None

    outcome = session.on_answer(acknowledge_answer(acknowledged(error=121)), 15.0)
    too_early = session.next_request(24.0, capacity=0)
    second = session.next_request(25.0, capacity=0)

    assert acks_in(first) == {key(ORDERS): [(0, 9, [4])]}
    assert outcome.results[0].error_code == 121
    assert too_early is None
    assert second is not None
    assert acks_in(second) == {key(ORDERS): [(20, 29, [4])]}
    assert session.acknowledge(ORDERS, 0, 9, ACCEPT) == ()


# locks


def test_c8_a_lock_that_ran_out_is_told_once() -> None:
    """Not before it is certainly over: in between the acknowledgement may still count."""
    session = ShareSession("group", "member", version=1)
    session.set_wanted([ORDERS])
    fetch(session, 0.0)
    session.on_answer(fetch_answer(fetched(acquired=[(0, 9)])), 0.5)

    assert session.expire(LOCK) == session.expire(0.0)
    assert session.wake_at == LOCK + 0.5
    (lost,) = session.expire(LOCK + 0.5).locks_lost

    assert (lost.partition, lost.ranges, lost.error_code) == (ORDERS, (OffsetRange(0, 9),), None)
    assert not session.expire(LOCK + 0.5).locks_lost
    assert session.acknowledge(ORDERS, 0, 9, ACCEPT) == [OffsetRange(0, 9)]


def test_c8_handed_over_again_while_held() -> None:
    """The old lock is lost, the records come again under a new one."""
    session = open_session(version=1)
    fetch(session, 40.0)

    outcome = session.on_answer(fetch_answer(fetched(acquired=[(5, 9, 2)])), 40.0)

    assert outcome.locks_lost[0].ranges == (OffsetRange(5, 9),)
    assert outcome.acquired[0].ranges == ((5, 9, 2),)
    assert session.lock_deadline(ORDERS, 5) == 40.0 + LOCK


def test_c8_handed_over_again_while_an_acknowledgement_waits() -> None:
    """The caller is done with it: it is not shown again, and the acknowledgement counts for the new lock."""
    session = open_session(version=1)
    fetch(session, 40.0)
    session.acknowledge(ORDERS, 0, 9, ACCEPT)

    outcome = session.on_answer(fetch_answer(fetched(acquired=[(5, 14, 2)])), 40.0)

    assert outcome.acquired[0].ranges == ((10, 14, 2),)
    assert acks_in(fetch(session, 40.0)) == {key(ORDERS): [(0, 9, [1])]}


def test_0_5_released_and_acquired_in_one_answer() -> None:
    """The result of the release comes first; the record is held anew."""
    session = open_session()
    session.acknowledge(ORDERS, 0, 9, RELEASE)
    fetch(session)

    outcome = session.on_answer(fetch_answer(fetched(acquired=[(0, 9, 2)])), 0.5)

    assert outcome.results[0].confirmed
    assert outcome.acquired[0].ranges == ((0, 9, 2),)
    assert session.held_count == 10


# partitions that come and go


def test_3_10_a_new_partition_is_added_at_once() -> None:
    """Only what is new is listed."""
    session = open_session()
    session.set_wanted([ORDERS, BILLS])

    request = fetch(session)

    assert listed_in(request) == {key(BILLS)}
    session.on_answer(fetch_answer(), 0.0)
    assert listed_in(fetch(session)) == set()


def test_3_2_a_partition_is_not_forgotten_while_it_is_held() -> None:
    """Forgetting cuts the records off; it waits for the answer to their acknowledgements."""
    session = open_session(ORDERS, BILLS)
    session.set_wanted([BILLS])

    assert session.next_request(1.0, capacity=100) is None  # a fetch would bring more of it
    session.acknowledge(ORDERS, 0, 9, ACCEPT)
    request = session.next_request(1.0, capacity=100)
    assert isinstance(request, ShareAcknowledgeRequest)
    session.on_answer(acknowledge_answer(acknowledged()), 1.0)

    assert forgotten_in(fetch(session, 1.0)) == {key(ORDERS)}


def test_a_slow_handler_does_not_stop_other_partitions_for_long() -> None:
    """After two seconds fetches go on, and what comes of the unwanted partition is as good as any."""
    session = open_session(ORDERS, BILLS)
    session.set_wanted([BILLS])
    assert session.next_request(1.0, capacity=100) is None
    assert session.wake_at == 3.0

    request = fetch(session, 3.0)

    assert forgotten_in(request) == set()


def test_the_last_partition_is_forgotten_without_waiting() -> None:
    """Nothing is left to fetch: the request that says so acquires nothing and is not parked."""
    session = open_session(acquired=[])
    session.set_wanted([])

    request = fetch(session)

    assert forgotten_in(request) == {key(ORDERS)}
    assert (request.max_records, request.max_wait_ms, request.batch_size) == (0, 0, 1)
    session.on_answer(fetch_answer(), 0.0)
    assert session.is_idle
    assert session.next_request(0.0, capacity=100) is None


def test_wanted_again_before_it_was_forgotten() -> None:
    """Nothing happens then."""
    session = open_session(acquired=[])
    session.set_wanted([])
    session.set_wanted([ORDERS])

    request = fetch(session)

    assert forgotten_in(request) == listed_in(request) == set()


def test_wanted_again_while_it_is_being_forgotten() -> None:
    """It is added with the next fetch."""
    session = open_session(acquired=[])
    session.set_wanted([])
    fetch(session)
    session.set_wanted([ORDERS])
    session.on_answer(fetch_answer(), 0.0)

    assert listed_in(fetch(session)) == {key(ORDERS)}


def test_unwanted_while_it_is_being_added() -> None:
    """It is forgotten with the next request."""
    session = ShareSession("group", "member", version=2)
    session.set_wanted([ORDERS, BILLS])
    fetch(session)
    session.set_wanted([BILLS])
    session.on_answer(fetch_answer(), 0.0)

    assert forgotten_in(fetch(session)) == {key(ORDERS)}


def test_unwanted_before_anything_was_sent() -> None:
    """It is as if it had never been there."""
    session = ShareSession("group", "member", version=2)
    session.set_wanted([ORDERS])
    session.set_wanted([])

    assert session.is_idle
    assert session.next_request(0.0, capacity=100) is None


def test_a_strange_partition_in_an_answer_is_passed_over() -> None:
    """What nobody asked for is none of ours."""
    session = open_session()
    fetch(session)

    outcome = session.on_answer(fetch_answer(fetched(BILLS, [(0, 9)])), 0.0)

    assert not outcome.acquired
    assert session.held_count == 10


# closing


def test_3_7_close_carries_the_last_acknowledgements() -> None:
    """A ShareAcknowledge with epoch −1; what is still held is left to the broker to release."""
    session = open_session()
    session.acknowledge(ORDERS, 0, 4, ACCEPT)
    session.begin_close()

    request = session.next_request(1.0, capacity=100)

    assert isinstance(request, ShareAcknowledgeRequest)
    assert request.share_session_epoch == -1
    assert acks_in(request) == {key(ORDERS): [(0, 4, [1])]}
    closed_early = session.is_closed
    outcome = session.on_answer(acknowledge_answer(acknowledged()), 1.0)
    assert outcome.end is not None
    assert outcome.end.reason is EndReason.CLOSED
    assert outcome.results[0].confirmed
    assert not outcome.locks_lost
    assert (closed_early, session.is_closed) == (False, True)
    assert session.held_count == 0


def test_3_7_close_waits_for_the_parked_fetch() -> None:
    """One request at a time holds at the end, too; what the fetch still brings is released by the close."""
    session = open_session(acquired=[])
    fetch(session)
    session.begin_close()
    assert session.next_request(1.0, capacity=100) is None

    session.on_answer(fetch_answer(fetched(acquired=[(0, 9)])), 1.0)
    request = session.next_request(1.0, capacity=100)

    assert isinstance(request, ShareAcknowledgeRequest)
    assert request.share_session_epoch == -1


def test_3_7_close_finishes_what_is_sent_again_in_parts() -> None:
    """After the last request nothing can be sent again, so that parts go first."""
    session = open_session()
    session.acknowledge(ORDERS, 0, 0, ACCEPT)
    session.acknowledge(ORDERS, 5, 5, REJECT)
    session.next_request(1.0, capacity=0)
    session.on_answer(acknowledge_answer(acknowledged(error=121)), 1.0)
    session.begin_close()

    epochs = []
    while (request := session.next_request(1.0, capacity=0)) is not None:
        epochs.append(request.share_session_epoch)
        session.on_answer(acknowledge_answer(*[acknowledged()] * bool(acks_in(request))), 1.0)

    assert epochs == [2, 3, -1]
    assert session.is_closed


def test_3_7_a_session_that_never_opened_is_closed_at_once() -> None:
    """There is nothing to say."""
    session = ShareSession("group", "member", version=2)
    session.set_wanted([ORDERS])
    session.begin_close()

    assert session.next_request(0.0, capacity=100) is None
    assert session.is_closed


def test_an_answer_nobody_awaits_is_a_mistake() -> None:
    """The caller mixed something up; it is not taken for anything."""
    session = open_session()

    with pytest.raises(ValueError, match="awaited"):
        session.on_answer(fetch_answer(), 0.0)
    fetch(session)
    with pytest.raises(ValueError, match="awaited"):
        session.on_answer(acknowledge_answer(), 0.0)


def test_4_no_fetch_is_parked_for_more_than_half_a_lock() -> None:
    """The lock may have begun when the fetch was sent: records would come with no time left, again and again."""
    session = open_session(acquired=(), lock=15.0)
    session.limits = FetchLimits(max_wait_ms=30_000)

    assert fetch(session).max_wait_ms == 7_500

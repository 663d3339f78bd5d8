"""The committer over an aiokafka consumer; rules F1–F18 where they are about what is done, not about numbers."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest
from aiokafka.abc import ConsumerRebalanceListener
from aiokafka.errors import (
    CommitFailedError,
    ConsumerStoppedError,
    CorruptRecordException,
    IllegalStateError,
    TopicAuthorizationFailedError,
)

from shareproxy.admin.errors import WrongArgument
from shareproxy.drain.commit_results import CommitResult
from shareproxy.drain.committer import ReconcilingCommitter
from shareproxy.drain.group_reader import Batch
from shareproxy.drain.model import TopicPartition
from tests.drain.fake_group_consumer import MARKER, FakeGroupConsumer

P0, P1 = ("orders", 0), ("orders", 1)
ONE_TRANSACTION = {P0: ["a", MARKER]}


def committer(consumer: FakeGroupConsumer, **more: Any) -> ReconcilingCommitter:
    """Return one that commits only when asked, and does not wait long."""
    arguments = {"commit_interval": None, "finish_timeout": 0.05, **more}
    return ReconcilingCommitter(consumer, ["orders"], **arguments)


async def until(condition: Callable[[], object]) -> None:
    """Let the loop run until something is so."""
    async with asyncio.timeout(10):
        while not condition():
            await asyncio.sleep(0)


def flat(batch: Batch) -> list[Any]:
    """Return all records of a batch."""
    return [record for records in batch.values() for record in records]


async def test_the_marker_behind_a_record_is_committed() -> None:
    """The lag that was not going away: offset 1 is a commit marker, and the group ends at 2."""
    consumer = FakeGroupConsumer(ONE_TRANSACTION)
    async with committer(consumer) as reading:
        batch = await reading.getmany(timeout_ms=1000)
        reading.finished_all(flat(batch))
        result = await reading.commit()
    assert result.confirmed == {P0: 2}
    assert consumer.commits == [{P0: 2}]


async def test_f1_positions_are_taken_at_polls_and_never_at_a_commit() -> None:
    """A commit asks the consumer for no position, which could wait."""
    consumer = FakeGroupConsumer(ONE_TRANSACTION)
    async with committer(consumer) as reading:
        reading.finished_all(flat(await reading.getmany(timeout_ms=1000)))
        asked = consumer.order.count("position")
        await reading.commit()
        assert consumer.order.count("position") == asked


async def test_f1_an_empty_poll_moves_the_position() -> None:
    """A marker that comes alone is committed as well."""
    consumer = FakeGroupConsumer({P0: ["a"]})
    async with committer(consumer) as reading:
        reading.finished_all(flat(await reading.getmany(timeout_ms=1000)))
        await reading.commit()
        consumer.append(P0, MARKER)
        assert await reading.getmany(timeout_ms=10) == {}
        assert (await reading.commit()).confirmed == {P0: 2}


async def test_f1_a_position_that_is_not_known_yet_is_not_waited_for() -> None:
    """A poll ends, and the partition has nothing to commit."""
    consumer = FakeGroupConsumer({P0: [], P1: [MARKER]})
    async with committer(consumer) as reading:
        consumer.forget_position(P0)
        await reading.getmany(timeout_ms=10)
        assert (await reading.commit()).sent == {P1: 1}


async def test_f3_what_is_finished_out_of_order_waits_for_the_rest() -> None:
    """Only the prefix without gaps is committed."""
    consumer = FakeGroupConsumer({P0: ["a", "b", "c", MARKER]})
    async with committer(consumer) as reading:
        first, second, third = flat(await reading.getmany(timeout_ms=1000))
        reading.finished(third)
        reading.finished(first)
        assert (await reading.commit()).sent == {P0: 1}
        reading.finished(second)
        assert (await reading.commit()).sent == {P0: 4}


async def test_f8_an_older_checkpoint_does_not_take_the_group_back() -> None:
    """Nothing is sent for it."""
    consumer = FakeGroupConsumer({P0: ["a", "b"]})
    async with committer(consumer) as reading:
        first, second = flat(await reading.getmany(timeout_ms=1000))
        reading.finished(first)
        older = reading.checkpoint()
        reading.finished(second)
        await reading.commit()
        assert (await reading.commit(older)).sent == {}
        assert older.offsets == {P0: 1}  # F18
    assert consumer.commits == [{P0: 2}]


async def test_f9_done_is_set_when_the_commit_is_sent() -> None:
    """While an answer is on its way an older checkpoint already counts as older."""
    consumer = FakeGroupConsumer({P0: ["a", "b"]})
    async with committer(consumer) as reading:
        first, second = flat(await reading.getmany(timeout_ms=1000))
        older = reading.checkpoint()
        reading.finished_all([first, second])
        consumer.failures = [CommitFailedError("not now")]
        assert (await reading.commit()).error is not None
        assert (await reading.commit(older)).sent == {}
        assert (await reading.commit()).confirmed == {P0: 2}


async def test_f10_a_rebalance_commits_what_is_finished_and_forgets_the_rest() -> None:
    """The partition begins again at the committed offset, and words on its old records change nothing."""
    consumer = FakeGroupConsumer({P0: ["a", "b", MARKER]})
    async with committer(consumer) as reading:
        first, second = flat(await reading.getmany(timeout_ms=1000))
        reading.finished(first)
        await consumer.rebalance([P0])
        assert consumer.commits == [{P0: 1}]
        reading.finished(second)
        assert reading.stats.late == 1
        assert [record.offset for record in flat(await reading.getmany(timeout_ms=1000))] == [1]
        assert (await reading.commit()).sent == {P0: 1}


async def test_f10_a_rebalance_waits_for_what_is_being_worked_on() -> None:
    """A record that is finished in time is not delivered twice."""
    consumer = FakeGroupConsumer(ONE_TRANSACTION)
    async with committer(consumer, finish_timeout=30) as reading:
        (record,) = flat(await reading.getmany(timeout_ms=1000))
        rebalancing = asyncio.create_task(consumer.rebalance([]))
        await until(lambda: reading._reader.between_assignments)
        assert consumer.commits == []
        reading.finished(record)
        await rebalancing
    assert consumer.commits == [{P0: 2}]


async def test_f10_records_that_nobody_took_yet_are_dropped_with_their_partition() -> None:
    """They are neither waited for nor handed on: somebody else gets them."""
    consumer = FakeGroupConsumer({P0: ["a", "b", "c"]})
    async with committer(consumer, finish_timeout=30) as reading:
        records = aiter(reading)
        reading.finished(await anext(records))
        await consumer.rebalance([])
        assert consumer.commits == [{P0: 1}]
        assert await reading.getmany() == {}


async def test_f10_a_checkpoint_of_a_partition_that_went_away_is_not_sent() -> None:
    """It is told, exactly as it was."""
    consumer = FakeGroupConsumer({P0: ["a", "b"]})
    async with committer(consumer) as reading:
        reading.finished(flat(await reading.getmany(timeout_ms=1000))[0])
        checkpoint = reading.checkpoint()
        await consumer.rebalance([])
        result = await reading.commit(checkpoint)
    assert (result.sent, result.unassigned) == ({}, {P0: 1})


async def test_an_empty_poll_during_a_rebalance_does_not_take_the_old_assignment_for_the_new() -> None:
    """Else the position of a partition that goes away would be committed over records that were dropped."""
    consumer = FakeGroupConsumer({P0: ["a", "b"]})
    async with committer(consumer) as reading:
        await reading.getmany(timeout_ms=1000)
        reading._reader.between_assignments = True
        reading._reader.drop([TopicPartition(*P0)])
        await reading.getmany(timeout_ms=1)
        assert reading.assignment == frozenset()
        assert (await reading.commit()).sent == {}


async def test_f10_the_users_listener_is_told_and_may_commit() -> None:
    """It hears of partitions before they go; a commit there does not wait for a poll that waits for the rebalance."""
    consumer = FakeGroupConsumer({P0: ["a", MARKER]})
    heard: list[Any] = []

    class Listener(ConsumerRebalanceListener):  # type: ignore[misc]
        async def on_partitions_revoked(self, revoked: set[Any]) -> None:
            if revoked:
                polls = consumer.order.count("getmany")
                await until(lambda: consumer.order.count("getmany") > polls)  # one that waits for this rebalance
                reading.finished_all(taken)
                heard.append((await reading.commit()).sent)

        def on_partitions_assigned(self, assigned: set[Any]) -> None:
            heard.append(assigned)

    reading = committer(consumer, listener=Listener())
    async with reading:
        taken = flat(await reading.getmany(timeout_ms=1000))
        polling = asyncio.create_task(reading.getmany(timeout_ms=60_000))
        await until(lambda: reading._reader.polling)
        await consumer.rebalance([P1] if P1 in consumer.logs else [])
        polling.cancel()
    assert heard == [{P0}, {P0: 2}, set()]


async def test_a_partition_that_aiokafka_has_no_more_is_left_out() -> None:
    """As when a subscription changes: it takes no commit for it, and the next poll forgets the partition."""
    consumer = FakeGroupConsumer({P0: ["a"], P1: ["b"]})
    async with committer(consumer) as reading:
        reading.finished_all(flat(await reading.getmany(timeout_ms=1000)))
        consumer.assign([P1])
        assert (await reading.commit()).sent == {P1: 1}
        await reading.getmany(timeout_ms=1)
        assert reading.assignment == {P1}
        assert reading.stats.failures == 0


async def test_a_listener_that_raises_costs_no_commit() -> None:
    """What is finished is committed before the partitions go."""
    consumer = FakeGroupConsumer(ONE_TRANSACTION)

    class Listener(ConsumerRebalanceListener):  # type: ignore[misc]
        def on_partitions_revoked(self, revoked: set[Any]) -> None:
            raise RuntimeError("a bug of the user")

        def on_partitions_assigned(self, assigned: set[Any]) -> None: ...

    async with committer(consumer, listener=Listener()) as reading:
        reading.finished_all(flat(await reading.getmany(timeout_ms=1000)))
        await consumer.rebalance([])
    assert consumer.commits == [{P0: 2}]


async def test_f11_f12_reading_to_a_stop() -> None:
    """Records from the stop on are not handed on, and at the end the stop is committed."""
    consumer = FakeGroupConsumer({P0: ["a", MARKER, MARKER, "b", "c"]})
    async with committer(consumer, stops={P0: 3}) as reading:
        consumer.most = 1
        batch = flat(await reading.getmany(timeout_ms=1000))
        assert [record.offset for record in batch] == [0]
        reading.finished_all(batch)
        assert reading.at_stops
        assert await reading.getmany(timeout_ms=1) == {}
        assert (await reading.commit()).sent == {P0: 3}


async def test_f13_nothing_to_commit_makes_no_request_and_is_told_all_the_same() -> None:
    """The callback has an empty result."""
    results: list[CommitResult] = []
    consumer = FakeGroupConsumer({P0: []}, {P0: 0})
    async with committer(consumer, on_commit=results.append) as reading:
        await reading.commit()
        assert results == [CommitResult()]
        assert consumer.commits == []
        assert reading.stats.empty == 1


async def test_f13_what_the_broker_has_already_is_not_sent_again() -> None:
    """A group that is idle makes no requests."""
    consumer = FakeGroupConsumer(ONE_TRANSACTION)
    async with committer(consumer) as reading:
        reading.finished_all(flat(await reading.getmany(timeout_ms=1000)))
        await reading.commit()
        assert (await reading.commit()).sent == {}
    assert len(consumer.commits) == 1


async def test_f14_the_metric_is_what_the_broker_confirmed() -> None:
    """An offset that was sent and refused is not called committed."""
    consumer = FakeGroupConsumer({P0: ["a", "b"]})
    async with committer(consumer) as reading:
        first, second = flat(await reading.getmany(timeout_ms=1000))
        reading.finished(first)
        await reading.commit()
        reading.finished(second)
        consumer.failures = [CommitFailedError("the group has moved on")]
        result = await reading.commit()
        assert (result.sent, result.confirmed) == ({P0: 2}, {})
        assert reading.stats.committed == {P0: 1}


async def test_f14_topics_that_were_taken_count_where_another_was_refused() -> None:
    """aiokafka names the topics that may not be read."""
    consumer = FakeGroupConsumer({P0: ["a"], ("other", 0): ["b"]})
    reading = ReconcilingCommitter(consumer, ["orders", "other"], commit_interval=None, finish_timeout=0)
    async with reading:
        reading.finished_all(flat(await reading.getmany(timeout_ms=1000)))
        consumer.failures = [TopicAuthorizationFailedError({"other"})]
        result = await reading.commit()
    assert result.sent == {P0: 1, ("other", 0): 1}
    assert result.confirmed == {P0: 1}


async def test_f15_only_the_owner_touches_the_consumer() -> None:
    """Polls and commits of many tasks are done by one."""
    consumer = FakeGroupConsumer({P0: [str(number) for number in range(50)]})
    consumer.most = 5

    async with committer(consumer, commit_interval=0.001) as reading:

        async def work() -> None:
            while batch := flat(await reading.getmany(timeout_ms=5, max_records=3)):
                reading.finished_all(batch)
                await reading.commit()

        async with asyncio.TaskGroup() as tasks:
            for _ in range(4):
                tasks.create_task(work())
        touched = {name for method in ("getmany", "commit", "position") for name in consumer.tasks[method]}
    assert touched == {"owner of a consumer"}
    assert consumer.committed == {P0: 50}


async def test_f16_a_failed_commit_stops_nothing() -> None:
    """It is counted and told, reading goes on, and the next one has all of it."""
    consumer = FakeGroupConsumer({P0: ["a"]})
    async with committer(consumer) as reading:
        reading.finished_all(flat(await reading.getmany(timeout_ms=1000)))
        consumer.failures = [CommitFailedError("first"), IllegalStateError("second")]
        assert not (await reading.commit()).done
        assert not (await reading.commit()).done
        assert (reading.stats.failures, reading.stats.last_error) == (2, "second (IllegalStateError)")
        consumer.append(P0, "b")
        reading.finished_all(flat(await reading.getmany(timeout_ms=1000)))
        assert (await reading.commit()).confirmed == {P0: 2}
        assert (reading.stats.commits, reading.stats.last_error) == (1, None)


async def test_f16_a_coordinator_that_hangs_costs_the_time_of_one_commit() -> None:
    """Then it counts as failed."""
    consumer = FakeGroupConsumer(ONE_TRANSACTION)
    consumer.commit_gate.clear()
    async with committer(consumer, commit_timeout=0.01) as reading:
        reading.finished_all(flat(await reading.getmany(timeout_ms=1000)))
        result = await reading.commit()
    assert isinstance(result.error, TimeoutError)
    assert "coordinator did not answer within 0.01 s" in str(result.error)


async def test_f17_closing_runs_queued_commits_and_a_last_one_before_the_consumer_stops() -> None:
    """FLINK-36532 is the omission of exactly that."""
    consumer = FakeGroupConsumer({P0: ["a", "b", MARKER]})
    reading = committer(consumer)
    await reading.start()
    first, second = flat(await reading.getmany(timeout_ms=1000))
    reading.finished(first)
    queued = asyncio.create_task(reading.commit(reading.checkpoint()))
    await until(lambda: reading._commits)
    reading.finished(second)
    await reading.close()
    assert (await queued).sent == {P0: 1}
    assert consumer.commits == [{P0: 1}, {P0: 3}]
    assert consumer.order[-2:] == ["commit", "stop"]


async def test_f17_closing_waits_for_records_in_hand() -> None:
    """What gets finished in time is committed."""
    consumer = FakeGroupConsumer(ONE_TRANSACTION)
    reading = committer(consumer, finish_timeout=30)
    await reading.start()
    (record,) = flat(await reading.getmany(timeout_ms=1000))
    closing = asyncio.create_task(reading.close())
    await until(lambda: reading._owner is not None and reading._owner.done())
    reading.finished(record)
    await closing
    assert consumer.commits == [{P0: 2}]


async def test_f17_an_error_of_the_caller_still_commits_what_was_finished() -> None:
    """Nobody is waited for."""
    consumer = FakeGroupConsumer({P0: ["a", "b"]})

    async def work() -> None:
        async with committer(consumer, finish_timeout=60) as reading:
            first, _ = flat(await reading.getmany(timeout_ms=1000))
            reading.finished(first)
            raise RuntimeError("the sink is gone")

    with pytest.raises(RuntimeError, match="sink"):
        await work()
    assert consumer.commits == [{P0: 1}]


async def test_closing_calls_back_a_poll_that_waits() -> None:
    """Whoever waits for records hears that there will be none."""
    consumer = FakeGroupConsumer({P0: []})
    reading = committer(consumer)
    await reading.start()
    waiting = asyncio.create_task(reading.getmany(timeout_ms=60_000))
    await until(lambda: reading._reader.polling)
    await reading.close()
    await reading.close()
    with pytest.raises(ConsumerStoppedError):
        await waiting
    with pytest.raises(ConsumerStoppedError):
        await reading.getmany()


async def test_a_close_that_is_given_up_leaves_no_task_behind() -> None:
    """The commit under way is cancelled, and the consumer stopped all the same."""
    consumer = FakeGroupConsumer(ONE_TRANSACTION)
    reading = committer(consumer)
    await reading.start()
    reading.finished_all(flat(await reading.getmany(timeout_ms=1000)))
    consumer.commit_gate.clear()
    committing = asyncio.create_task(reading.commit())
    await until(lambda: consumer.order[-1] == "commit")
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.05):
            await reading.close()
    assert consumer.order[-1] == "stop"
    with suppress(asyncio.CancelledError):
        await committing
    assert reading._owner is not None
    assert reading._owner.done()


async def test_commits_come_by_themselves() -> None:
    """At the interval, without anybody asking or polling."""
    consumer = FakeGroupConsumer(ONE_TRANSACTION)
    async with committer(consumer, commit_interval=0.001) as reading:
        reading.finished_all(flat(await reading.getmany(timeout_ms=1000)))
        await until(lambda: consumer.committed == {P0: 2})


async def test_records_come_one_by_one_until_closed() -> None:
    """`async for` ends by `close`."""
    consumer = FakeGroupConsumer({P0: ["a", "b", MARKER]})
    seen = []
    reading = committer(consumer)
    await reading.start()
    async for record in reading:
        seen.append(record.value)
        reading.finished(record)
        if len(seen) == 2:
            await reading.close()
    assert seen == [b"a", b"b"]
    assert consumer.committed == {P0: 3}


async def test_a_poll_that_was_given_up_loses_no_record() -> None:
    """What it found is for the next one, and is no more than was asked for."""
    consumer = FakeGroupConsumer({P0: []})
    async with committer(consumer) as reading:
        waiting = asyncio.create_task(reading.getmany(timeout_ms=60_000))
        await until(lambda: reading._reader.polling)
        consumer.append(P0, "a", "b", "c")
        waiting.cancel()
        with suppress(asyncio.CancelledError):
            await waiting
        got = [
            record.offset for _ in range(3) for record in flat(await reading.getmany(timeout_ms=1000, max_records=1))
        ]
    assert got == [0, 1, 2]


async def test_what_aiokafka_finds_is_raised_to_the_one_who_polls() -> None:
    """And the next poll goes on."""
    consumer = FakeGroupConsumer({P0: ["a"]})
    async with committer(consumer) as reading:
        consumer.poll_failures = [CorruptRecordException("bad batch")]
        with pytest.raises(CorruptRecordException):
            await reading.getmany(timeout_ms=1000)
        assert len(flat(await reading.getmany(timeout_ms=1000))) == 1


async def test_partitions_assigned_by_hand_are_committed_too() -> None:
    """Without topics there is no subscription and no rebalance."""
    consumer = FakeGroupConsumer(ONE_TRANSACTION)
    consumer.assign([P0])
    async with ReconcilingCommitter(consumer, commit_interval=None, finish_timeout=0) as reading:
        assert reading.assignment == {P0}
        reading.finished_all(flat(await reading.getmany(timeout_ms=1000)))
    assert consumer.commits == [{P0: 2}]


async def test_a_subscription_of_the_consumers_own_is_kept() -> None:
    """The topics are those it has, with our listener."""
    consumer = FakeGroupConsumer(ONE_TRANSACTION)
    consumer.subscribe(["orders"])
    async with ReconcilingCommitter(consumer, commit_interval=None) as reading:
        assert reading.assignment == {P0}


@pytest.mark.parametrize(
    ("attribute", "value", "words"), [("_enable_auto_commit", True, "by itself"), ("_group_id", None, "no group")]
)
async def test_a_consumer_that_cannot_be_used_is_refused(attribute: str, value: object, words: str) -> None:
    """Auto-commit would commit what is not finished."""
    consumer = FakeGroupConsumer({})
    setattr(consumer, attribute, value)
    with pytest.raises(WrongArgument, match=words):
        ReconcilingCommitter(consumer)


async def test_a_consumer_that_does_not_start_is_stopped() -> None:
    """The failure is the caller's, and nothing is left behind."""
    consumer = FakeGroupConsumer(ONE_TRANSACTION)

    async def fail() -> None:
        raise IllegalStateError("no broker")

    consumer.start = fail  # type: ignore[method-assign]
    reading = committer(consumer)
    with pytest.raises(IllegalStateError, match="no broker"):
        await reading.start()
    await reading.close()
    assert consumer.order[:1] == ["stop"]


async def test_what_on_commit_raises_stops_nothing() -> None:
    """It is logged; reading and later commits go on (F16)."""

    def broken(result: CommitResult) -> None:
        raise RuntimeError("no such metric")

    consumer = FakeGroupConsumer(ONE_TRANSACTION)
    async with committer(consumer, on_commit=broken, commit_interval=0.01) as reading:
        batch = await reading.getmany(timeout_ms=1000)
        await until(lambda: reading.stats.empty)
        reading.finished_all(flat(batch))
        result = await reading.commit()

    assert result.confirmed == {P0: 2}

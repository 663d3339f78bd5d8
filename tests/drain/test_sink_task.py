"""A sink task: its life, its outcomes, and what it never does; R numbers are those of drain.md."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from structlog.testing import capture_logs

from shareproxy.drain.model import Acknowledgement
from shareproxy.drain.sink import Fatal, Outcome, RejectRecord, Retriable, SinkRecord
from shareproxy.drain.sink_task import TaskFailed
from tests.drain.fake_consumer import FakeRecord, FakeShareConsumer
from tests.drain.task_run import NO_QUEUE, ScriptedSink, TaskRun, raising, records

ACCEPT, RELEASE, REJECT = Acknowledgement.ACCEPT, Acknowledgement.RELEASE, Acknowledgement.REJECT


async def test_r15_what_put_returned_for_is_accepted_and_committed() -> None:
    """One put, all accepted, one commit."""
    run = TaskRun(*records(0, 1, 2))

    await run.until(lambda: run.consumer.commits)

    assert run.consumer.offsets(ACCEPT) == [0, 1, 2]
    assert run.sink.puts == [[0, 1, 2]]
    assert run.meter.counts["record_acknowledge"] == 3


async def test_r9_the_sink_is_started_and_opened_once_before_the_group_is_joined() -> None:
    """Then records come; the context tells the group and knows no offsets."""
    run = TaskRun(*records(0))

    await run.until(lambda: run.consumer.commits)

    assert run.sink.calls == ["start", "open orders", "stop"]
    assert run.sink.context is not None
    assert run.sink.context.group == "order-workers"
    assert run.sink.context.share_group
    assert not any(hasattr(run.sink.context, name) for name in ("offsets", "seek", "pause", "resume"))  # R14


async def test_r10_an_empty_poll_is_not_put() -> None:
    """The sink is called with records only."""
    run = TaskRun()

    await run.until(lambda: run.consumer.asked)

    assert run.sink.puts == []


async def test_r12_what_puts_returned_for_is_committed_without_a_further_batch() -> None:
    """Quick puts may share a commit; test_sink_commits.py tells when they do."""
    run = TaskRun(*records(0, 1, 2, 3), max_records=2)

    await run.until(lambda: run.meter.counts["record_acknowledge"] == 4)

    assert run.sink.puts == [[0, 1], [2, 3]]
    assert [kind for kind, _ in run.consumer.journal] == ["put", "returned", "accept", "accept"] * 2


async def test_r12_an_acknowledgement_that_the_broker_refuses_is_not_counted() -> None:
    """It is an error with Kafka's name."""
    (record,) = records(0)
    run = TaskRun(record)
    run.consumer.refuse(record)

    await run.until(lambda: run.consumer.commits)

    assert run.meter.counts["record_acknowledge"] == 0
    assert run.meter.labelled["ack_errors"] == {"INVALID_RECORD_STATE": 1}


async def test_r12_in_implicit_mode_the_next_poll_does_not_wait_for_the_answer() -> None:
    """A commit that hangs holds up the next commit, not the next put."""
    run = TaskRun(*records(0, 1), max_records=1, implicit=True)
    answered = asyncio.Event()
    commit = run.consumer.commit

    async def slow_commit() -> Any:
        result = await commit()
        await answered.wait()
        return result

    run.consumer.commit = slow_commit  # type: ignore[method-assign]
    async with run.running(), asyncio.timeout(5):
        while len(run.sink.puts) < 2:
            await asyncio.sleep(0)
        assert run.meter.counts["record_acknowledge"] == 0
        answered.set()
        while run.consumer.commits < 2:
            await asyncio.sleep(0)

    assert run.meter.counts["record_acknowledge"] == 2


async def test_r13_stopping_lets_the_put_end_acknowledges_it_and_closes_in_order() -> None:
    """The sink is stopped last; what was not put is left to the consumer's close."""
    inside, go_on = asyncio.Event(), asyncio.Event()

    async def put(batch: Sequence[SinkRecord]) -> None:
        inside.set()
        await go_on.wait()

    run = TaskRun(*records(0, 1), put=put, max_records=1)
    run.options = run.options
    async with run.running() as running, asyncio.timeout(5):
        await inside.wait()
        run.stop.set()
        go_on.set()
        await running

    assert run.consumer.offsets(ACCEPT) == [0]
    assert run.consumer.closed
    assert run.sink.calls[-1] == "stop"


async def test_r13_records_that_come_after_the_stop_are_not_put() -> None:
    """The close releases them."""
    run = TaskRun()
    async with run.running(), asyncio.timeout(5):
        while not run.consumer.asked:
            await asyncio.sleep(0)
        run.stop.set()
        run.consumer.give(*records(7))

    assert run.sink.puts == []
    assert [record.offset for record in run.consumer.left_by_close] == [7]


async def test_r11_a_record_that_cannot_be_read_is_an_outcome_of_its_own() -> None:
    """It is rejected, and its neighbours are put."""
    run = TaskRun(FakeRecord(0), FakeRecord(1, error=ValueError("not JSON")), FakeRecord(2))

    await run.until(lambda: run.consumer.commits)

    assert run.sink.puts == [[0, 2]]
    assert run.consumer.offsets(ACCEPT) == [0, 2]
    assert run.consumer.offsets(REJECT) == [1]
    assert run.meter.counts["record_unreadable"] == 1


async def test_r11_with_tolerance_it_is_accepted_and_counted() -> None:
    """`errors.tolerance = "all"`."""
    run = TaskRun(FakeRecord(0, error=ValueError("not JSON")), tolerate_unreadable=True)

    await run.until(lambda: run.consumer.commits)

    assert run.sink.puts == []
    assert run.consumer.offsets(ACCEPT) == [0]
    assert run.meter.counts["record_skip"] == 1


async def test_r11_the_sentence_about_an_unreadable_record_does_not_show_it() -> None:
    """What a converter says may quote the record."""
    run = TaskRun(FakeRecord(0, error=ValueError("secret is not JSON")), why_no_reject=NO_QUEUE)

    with pytest.raises(TaskFailed) as failure:
        await run.until(lambda: False)

    assert "ValueError" in str(failure.value)
    assert "secret" not in str(failure.value)


async def test_in_a_consumer_group_an_empty_poll_commits_what_lies_behind_the_last_record() -> None:
    """Offsets of markers, so that lag reaches 0."""
    run = TaskRun()

    class GroupSource(type(run.source)):  # type: ignore[misc]
        share_group = False

    run.source.__class__ = GroupSource

    await run.until(lambda: run.consumer.commits)

    assert run.sink.puts == []


async def test_a_start_that_hangs_keeps_no_task_that_is_told_to_stop() -> None:
    """Of the sink; a plain one hangs in its thread, which cannot be ended."""

    class Hanging(ScriptedSink):
        async def start(self, context: Any) -> None:
            await super().start(context)
            await asyncio.get_running_loop().create_future()

    run = TaskRun(*records(0), sink=Hanging(), stop_timeout=0.01)
    async with run.running() as running, asyncio.timeout(5):
        while not run.sink.calls:
            await asyncio.sleep(0)
        run.stop.set()
        with pytest.raises(TaskFailed, match=r"the sink's start failed: it did not end within 0\.01 s of the stop"):
            await running

    assert run.consumer.kinds(0) == []


async def test_a_failed_put_is_logged_with_the_delivery_of_its_records() -> None:
    """Also where the records are rejected, as an operator looks there how near the limit is."""
    run = TaskRun(*records(0, delivery_count=3), put=raising(Fatal("bad")))

    with capture_logs() as logged:
        await run.until(lambda: run.consumer.offsets(REJECT) == [0])

    assert [line["delivery"] for line in logged if line["event"] == "put failed"] == [3]


class OddError(Exception):
    """What a sink may raise without our knowing."""


@settings(max_examples=60, deadline=None)
@given(
    st.lists(
        st.sampled_from(
            ["ok", "retriable", "fatal", "reject", "unknown", "exit", "cancel", "short", "mixed", "retriable later"]
        ),
        min_size=1,
        max_size=6,
    ),
    st.booleans(),
    st.integers(1, 3),
)
def test_r23_nothing_is_accepted_whose_put_did_not_return(script: list[str], queue: bool, size: int) -> None:
    """Under any sequence of failures, ACCEPT follows the return of a put that had the record."""
    returned: set[int] = set()

    async def one() -> None:
        plan = list(script)

        def put(batch: Sequence[SinkRecord]) -> Any:
            what = plan.pop(0) if plan else "ok"
            match what:
                case "retriable":
                    raise Retriable
                case "retriable later":
                    raise Retriable(after_s=0.002)
                case "fatal":
                    raise Fatal("f")
                case "reject":
                    raise RejectRecord("r")
                case "unknown":
                    raise OddError("u")
                case "exit":
                    raise SystemExit(3)
                case "cancel":
                    raise asyncio.CancelledError
                case "short":
                    return [Outcome.ACCEPT] * (len(batch) - 1) + [None]
                case "mixed":
                    returned.update(record.offset for record in batch[1:])
                    return [Outcome.RELEASE] + [Outcome.ACCEPT] * (len(batch) - 1)
            returned.update(record.offset for record in batch)
            return None

        consumer = FakeShareConsumer([FakeRecord(offset) for offset in range(6)], redeliver=True)
        # a failed task is started again over what is left, as the worker does
        for _ in range(20):
            consumer.closed = False
            run = TaskRun(consumer=consumer, put=put, max_records=size, why_no_reject=None if queue else NO_QUEUE)
            run.consumer.held.clear()
            try:
                await run.until(lambda: len(done(consumer)) == 6)
            except TaskFailed:
                consumer.give(*(again(record) for record in consumer.left_by_close))
                consumer.left_by_close.clear()
                continue
            break
        assert set(consumer.offsets(ACCEPT)) <= returned
        assert len(done(consumer)) == 6  # nothing is lost either

    def done(consumer: FakeShareConsumer) -> set[int]:
        return {*consumer.offsets(ACCEPT), *consumer.offsets(REJECT)}

    def again(record: FakeRecord) -> FakeRecord:
        return FakeRecord(record.offset, delivery_count=record.delivery_count + 1)

    asyncio.run(one())


async def test_a_plain_put_runs_in_a_thread_and_only_in_one() -> None:
    """Many client libraries want one thread; the event loop is free meanwhile."""

    class PlainSink:
        def __init__(self) -> None:
            self.threads: set[int] = set()
            self.stopped = False

        def start(self, context: Any) -> None:
            self.threads.add(threading.get_ident())

        def put(self, batch: Any) -> None:
            self.threads.add(threading.get_ident())

        def stop(self) -> None:
            self.threads.add(threading.get_ident())

    sink = PlainSink()
    run = TaskRun(*records(0, 1), sink=sink, max_records=1)

    await run.until(lambda: run.consumer.commits == 2)

    assert len(sink.threads) == 1
    assert sink.threads != {threading.get_ident()}


async def test_flush_is_called_after_put_and_before_anything_is_accepted() -> None:
    """A sink that buffers is durable only then (R14)."""

    class Buffering(ScriptedSink):
        async def flush(self) -> None:
            run.consumer.journal.append(("flush", 0))

    run = TaskRun(*records(0))
    run.sink = Buffering(journal=run.consumer.journal)
    run.task._sink._sink = run.sink  # type: ignore[misc]

    await run.until(lambda: run.consumer.commits)

    assert [kind for kind, _ in run.consumer.journal] == ["put", "returned", "flush", "accept"]


@pytest.mark.parametrize("method", ["start", "open"])
async def test_bad_input_a_sink_that_fails_to_start_takes_no_record(method: str) -> None:
    """One sentence; the group is not joined; the sink is stopped."""

    class Failing(ScriptedSink):
        pass

    async def fail(*_: Any) -> None:
        raise ConnectionRefusedError("no server")

    sink = Failing()
    setattr(sink, method, fail)
    run = TaskRun(*records(0), sink=sink)

    with pytest.raises(
        TaskFailed, match=r"^connector 'orders', task 0: the sink's start failed: ConnectionRefusedError: no server$"
    ):
        await run.until(lambda: False)

    assert not run.consumer.started
    assert run.consumer.acknowledged == []
    assert sink.calls[-1] == "stop"


async def test_bad_input_a_sink_that_fails_to_stop_is_told_and_loses_nothing() -> None:
    """What it had is accepted."""

    class Failing(ScriptedSink):
        async def stop(self) -> None:
            raise OSError("disk full")

    run = TaskRun(*records(0), sink=Failing())

    with pytest.raises(TaskFailed, match="the sink's stop failed: OSError: disk full"):
        await run.until(lambda: run.consumer.commits)

    assert run.consumer.offsets(ACCEPT) == [0]


async def test_bad_input_a_stop_that_holds_on_to_its_cancellation_does_not_keep_the_task() -> None:
    """It is told, and the process can end."""
    release = asyncio.Event()

    class Stubborn(ScriptedSink):
        async def stop(self) -> None:
            with contextlib.suppress(asyncio.CancelledError):
                await release.wait()
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(release.wait(), 3)

    run = TaskRun(*records(0), sink=Stubborn(), stop_timeout=0.02)

    try:
        with pytest.raises(TaskFailed, match=r"the sink's stop did not end within 0\.02 s"):
            await run.until(lambda: run.consumer.offsets(ACCEPT) == [0])
    finally:
        release.set()


async def test_bad_input_a_failing_stop_does_not_hide_why_the_task_failed() -> None:
    """The first failure is told."""

    class Failing(ScriptedSink):
        async def stop(self) -> None:
            raise OSError("disk full")

    run = TaskRun(*records(0), sink=Failing(raising(ValueError("first"))))

    with pytest.raises(TaskFailed, match="put failed: ValueError: first"):
        await run.until(lambda: False)


async def test_a_stalled_sink_does_not_let_more_records_come() -> None:
    """Memory is capped: no poll while a put is under way."""
    go_on = asyncio.Event()
    run = TaskRun(*records(*range(100)), put=lambda batch: go_on.wait(), max_records=5)
    async with run.running(), asyncio.timeout(5):
        while not run.sink.puts:
            await asyncio.sleep(0)
        for _ in range(100):
            await asyncio.sleep(0)
        assert run.consumer.most_held == 5
        go_on.set()


async def test_r5_a_put_that_outlasts_the_lock_is_warned_of(capsys: pytest.CaptureFixture[str]) -> None:
    """With what to do."""
    consumer = FakeShareConsumer(records(0), lock_seconds=0.01, can_renew=False)
    run = TaskRun(consumer=consumer, put=lambda batch: asyncio.sleep(0.02))

    await run.until(lambda: run.consumer.commits)

    assert "share.record.lock.duration.ms" in capsys.readouterr().out


async def test_the_context_renews_what_is_being_put() -> None:
    """For sinks that know that a put takes long."""

    async def put(batch: Sequence[SinkRecord]) -> None:
        assert run.sink.context is not None
        await run.sink.context.renew()

    run = TaskRun(*records(0, 1), put=put)

    await run.until(lambda: run.consumer.offsets(ACCEPT))

    assert run.consumer.offsets(Acknowledgement.RENEW) == [0, 1]

"""R23: whatever handlers, locks and signals do, a record is accepted only after its handler returned."""

from __future__ import annotations

import asyncio
import contextlib
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from structlog.testing import capture_logs

from shareproxy.drain.model import Acknowledgement
from shareproxy.drain.retry_delay import Retry
from shareproxy.drain.sink import Fatal, Outcome, RejectRecord, Retriable
from tests.drain.fake_consumer import FakeRecord, FakeShareConsumer
from tests.drain.worker_bench import Bench, ScriptedGroup
from tests.support.virtual_time import in_virtual_time

Step = tuple[str, float]

STEPS = st.tuples(
    st.sampled_from(
        ["return", "error", "retriable", "reject", "fatal", "own_cancel", "stubborn", "lose_lock", "give_back", "exit"]
    ),
    st.floats(0, 40),
)
# what the handler does with each record, delivery by delivery and try by try; the last step repeats
SCRIPTS = st.lists(st.lists(STEPS, min_size=1, max_size=4), min_size=1, max_size=12)


@settings(max_examples=200, deadline=None)
@given(
    scripts=SCRIPTS,
    lock_seconds=st.sampled_from([5.0, 30.0, 10_000.0]),
    can_renew=st.booleans(),
    dead_letters=st.booleans(),
    concurrency=st.integers(1, 4),
    prefetch=st.integers(0, 4),
    time_limit=st.sampled_from([None, 10.0]),
    in_place=st.sampled_from([0, 2, None]),
    stop_after=st.floats(0, 100),
    end=st.sampled_from(["stop", "stop_twice", "cancel", "consumer_fails"]),
)
def test_r23_accept_only_after_the_handler_returned(
    scripts: list[list[Step]],
    lock_seconds: float,
    can_renew: bool,
    dead_letters: bool,
    concurrency: int,
    prefetch: int,
    time_limit: float | None,
    in_place: int | None,
    stop_after: float,
    end: str,
) -> None:
    """And nothing is acknowledged for good twice, after its lock was lost, or while its handler still runs."""

    async def scene() -> None:
        consumer = FakeShareConsumer(
            [FakeRecord(offset) for offset in range(len(scripts))],
            lock_seconds=lock_seconds,
            can_renew=can_renew,
            redeliver=True,
        )
        tries = [0] * len(scripts)

        async def handle(record: FakeRecord) -> Any:
            script = scripts[record.offset]
            how, seconds = script[min(tries[record.offset], len(script) - 1)]
            tries[record.offset] += 1
            consumer.journal.append(("begin", record.offset))
            returned = False
            try:
                result = await _behave(how, seconds, record)
                returned = True
                return result
            finally:
                consumer.journal.append(("returned" if returned else "raised", record.offset))

        async def _behave(how: str, seconds: float, record: FakeRecord) -> Any:
            if how == "stubborn":
                with contextlib.suppress(asyncio.CancelledError):
                    await asyncio.sleep(seconds)
                await asyncio.sleep(seconds / 20)
                return None
            await asyncio.sleep(seconds)
            errors: dict[str, BaseException] = {
                "error": ValueError("no"),
                "retriable": Retriable(after_s=seconds),
                "reject": RejectRecord("never"),
                "fatal": Fatal("never"),
                "own_cancel": asyncio.CancelledError(),
                "exit": SystemExit(3),
            }
            if how in errors:
                raise errors[how]
            if how == "lose_lock":
                consumer.lose_lock(record)
            return Outcome.RELEASE if how == "give_back" else "whatever"

        bench = Bench(
            consumer,
            handle,
            group=ScriptedGroup(dead_letters=dead_letters),
            concurrency=concurrency,
            prefetch=prefetch,
            time_limit=time_limit,
            retry=Retry(in_place=in_place),
            stop_timeout=20.0,
            max_waiting=6,
        )
        running = asyncio.create_task(bench.run())
        await asyncio.sleep(stop_after)
        if end == "consumer_fails":
            consumer.fail(ConnectionError("gone"))
            await asyncio.sleep(100)
            if not bench.stop.asked.is_set():
                bench.stop.ask()
        elif end == "cancel":
            running.cancel()
        else:
            bench.stop.ask()
        if end == "stop_twice":
            await asyncio.sleep(1)
            bench.stop.ask()
        with contextlib.suppress(asyncio.CancelledError, ConnectionError):
            await running
        rest = asyncio.all_tasks() - {asyncio.current_task()}
        if rest:
            await asyncio.wait(rest, timeout=200)

        _check(consumer)
        assert consumer.late == []
        assert consumer.closed
        assert consumer.most_held <= concurrency + prefetch + 6
        assert bench.counts.in_hand == 0

    with capture_logs():  # printing the same tracebacks again and again takes longer than all else
        in_virtual_time(scene())


def _check(consumer: FakeShareConsumer) -> None:
    """Walk through the journal: what was said of each offset, between the ends of its handlers."""
    before: dict[int, str] = {}
    for what, offset in consumer.journal:
        last = before.get(offset)
        if what == "accept":
            assert last == "returned", f"{offset} accepted after {last}"
        if what in ("release", "reject"):
            assert last != "begin", f"{offset}: {what} while its handler still ran"
        if what == "begin":
            assert last != "begin", f"two handlers at once for {offset}"
        before[offset] = what
    lost = {offset for (_, offset), code in consumer.refusals.items() if code}
    accepted = [made.offset for made in consumer.acknowledged if made.kind is Acknowledgement.ACCEPT]
    assert len(accepted) == len(set(accepted)), "accepted twice"
    assert not lost & set(accepted), "accepted after its lock was lost"

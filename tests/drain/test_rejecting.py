"""Whether a record may be rejected (R19, R22)."""

from __future__ import annotations

import pytest

from shareproxy.drain import rejecting
from shareproxy.drain.dead_letter_check import DeadLetterQueue
from shareproxy.drain.rejecting import GroupRejecting, ShareRejecting
from shareproxy.drain.sink_metrics import TaskMeter

WORKS = DeadLetterQueue(True, "dlq.orders")
WORKS_NOT = DeadLetterQueue(False, "", "group 'orders' has no dead-letter queue")


class Look:
    """Tells what the test says, and counts."""

    def __init__(self, answer: DeadLetterQueue) -> None:
        self.answer, self.count = answer, 0

    async def __call__(self) -> DeadLetterQueue:
        """Answer."""
        self.count += 1
        return self.answer


def meter() -> TaskMeter:
    """Return a meter of a share group's task."""
    return TaskMeter("orders", 0, share_group=True)


async def test_r22_with_a_working_queue_it_may() -> None:
    """And nothing is counted as dropped."""
    counted = meter()
    asked = ShareRejecting(Look(WORKS), anyway=False, meter=counted)

    assert await asked.why_not() is None
    asked.rejected(3)

    assert counted.counts["reject_without_dlq"] == 0


async def test_r19_without_one_it_may_not() -> None:
    """The sentence says what is missing, and the way around."""
    asked = ShareRejecting(Look(WORKS_NOT), anyway=False, meter=meter())

    assert await asked.why_not() == (
        "group 'orders' has no dead-letter queue; or set reject.without.dlq=true to drop what is rejected"
    )


async def test_r19_without_one_it_may_if_the_user_says_so_and_that_is_counted(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Loudly, once."""
    counted = meter()
    asked = ShareRejecting(Look(WORKS_NOT), anyway=True, meter=counted)

    assert await asked.why_not() is None
    assert await asked.why_not() is None
    asked.rejected(3)

    assert counted.counts["reject_without_dlq"] == 3
    assert capsys.readouterr().out.count("rejected records are dropped") == 1


async def test_the_brokers_are_not_asked_for_each_record(monkeypatch: pytest.MonkeyPatch) -> None:
    """But again after a while, sooner where it does not work: somebody may have mended it."""
    look = Look(WORKS_NOT)
    asked = ShareRejecting(look, anyway=False, meter=meter())
    await asked.why_not()
    await asked.why_not()
    assert look.count == 1

    monkeypatch.setattr(rejecting, "WORKS_NOT_SECONDS", -1.0)
    look.answer = WORKS
    assert await asked.why_not() is None
    await asked.why_not()
    assert look.count == 2

    monkeypatch.setattr(rejecting, "WORKS_SECONDS", -1.0)
    look.answer = WORKS_NOT
    assert await asked.why_not() is not None


async def test_in_a_consumer_group_only_the_user_can_allow_it() -> None:
    """Nobody keeps such a record there."""
    assert await GroupRejecting(anyway=True).why_not() is None
    assert "reject.without.dlq=true" in str(await GroupRejecting(anyway=False).why_not())

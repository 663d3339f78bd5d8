"""What a put means for its records; R numbers are those of drain.md."""

from __future__ import annotations

from typing import Any

import pytest

from shareproxy.drain.put_outcome import PutTimedOut, verdict_of_error, verdict_of_return
from shareproxy.drain.sink import Fatal, Outcome, RejectRecord, Retriable
from tests.drain.fake_consumer import FakeRecord

RECORDS: Any = [FakeRecord(0), FakeRecord(1), FakeRecord(2)]


def test_r15_none_accepts_all() -> None:
    """As the very same sequence: its offsets go as ranges."""
    assert verdict_of_return(RECORDS, None, reject_unknown=False).accepted is RECORDS


def test_r18_an_outcome_each_sorts_them() -> None:
    """In their order."""
    verdict = verdict_of_return(RECORDS, [Outcome.REJECT, Outcome.ACCEPT, Outcome.RELEASE], reject_unknown=False)

    assert (verdict.rejected, verdict.accepted, verdict.released) == ([RECORDS[0]], [RECORDS[1]], [RECORDS[2]])
    assert not verdict.fails


def test_r18_all_accepted_one_by_one_is_as_none() -> None:
    """The quick way stays quick."""
    assert verdict_of_return(RECORDS, [Outcome.ACCEPT] * 3, reject_unknown=False).accepted is RECORDS


@pytest.mark.parametrize("returned", ["abc", b"abc", 3, [Outcome.ACCEPT], ["accept"] * 3, {1, 2, 3}])
def test_r18_anything_else_accepts_nothing(returned: Any) -> None:
    """It is a mistake in the sink."""
    verdict = verdict_of_return(RECORDS, returned, reject_unknown=False)

    assert (verdict.accepted, verdict.released, verdict.fails) == ((), RECORDS, True)


@pytest.mark.parametrize(
    ("error", "released", "rejected", "fails", "kind"),
    [
        (Retriable("r", after_s=2.0), True, False, False, "retriable"),  # R16
        (Fatal("f"), False, True, False, "fatal"),  # R17
        (RejectRecord("f"), False, True, False, "fatal"),
        (ValueError("u"), True, False, True, "unknown"),  # R19
        (PutTimedOut("t"), True, False, True, "timeout"),  # R20
    ],
)
def test_r16_r17_r19_r20_what_put_raised(
    error: Exception, released: bool, rejected: bool, fails: bool, kind: str
) -> None:
    """And nothing of it is accepted (R23)."""
    verdict = verdict_of_error(RECORDS, error, reject_unknown=False)

    assert (verdict.accepted, bool(verdict.released), bool(verdict.rejected)) == ((), released, rejected)
    assert (verdict.fails, verdict.kind, verdict.after_s) == (fails, kind, getattr(error, "after_s", None))


def test_r19_unknown_failures_reject_where_the_user_wants_kip_1302s_rule() -> None:
    """A time-out still releases."""
    assert verdict_of_error(RECORDS, ValueError(), reject_unknown=True).rejected is RECORDS
    assert verdict_of_error(RECORDS, PutTimedOut(), reject_unknown=True).released is RECORDS

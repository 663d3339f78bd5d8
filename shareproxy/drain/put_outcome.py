"""Say what a put means for each of its records (R15–R20).

In: what `put` returned or raised. Out: which records are accepted, released, rejected, and whether the task fails.
Must never: accept a record of a put that did not return.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, Literal

import msgspec

from shareproxy.drain.sink import Fatal, Outcome, RejectRecord, Retriable
from shareproxy.drain.source import SourceRecord

Records = Sequence[SourceRecord]
NOBODY: Final[Records] = ()


class PutTimedOut(Exception):  # noqa: N818 - it says what happened
    """A put was given up: it took too long, or the worker has to stop."""


class Verdict(msgspec.Struct, frozen=True):
    """What becomes of the records of one put.

    Attributes:
        accepted: the sink has them.
        released: they shall come again.
        rejected: they will never work.
        error: what `put` raised, or what is wrong with what it returned.
        kind: what that means, for the metric; `None` where all went well.
        after_s: seconds to wait at least before records are released.
        fails: whether the task fails because of it.
    """

    accepted: Records = NOBODY
    released: Records = NOBODY
    rejected: Records = NOBODY
    error: BaseException | None = None
    kind: Literal["retriable", "fatal", "timeout", "unknown"] | None = None
    after_s: float | None = None
    fails: bool = False


def verdict_of_return(records: Records, returned: Any, *, reject_unknown: bool) -> Verdict:
    """Return what a put means that returned.

    Args:
        records: what it was given.
        returned: `None`, or an outcome for each.
        reject_unknown: whether what is neither Retriable nor Fatal counts as fatal (KIP-1302's own rule).
    """
    if returned is None:
        return Verdict(accepted=records)
    wrong = _wrong(records, returned)
    if wrong is not None:
        # which records it has cannot be told, so none counts as done (R23)
        return verdict_of_error(records, TypeError(wrong), reject_unknown=reject_unknown)
    found: dict[Outcome, list[SourceRecord]] = {outcome: [] for outcome in Outcome}
    for record, outcome in zip(records, returned, strict=True):
        found[outcome].append(record)
    if len(found[Outcome.ACCEPT]) == len(records):
        return Verdict(accepted=records)
    return Verdict(found[Outcome.ACCEPT], found[Outcome.RELEASE], found[Outcome.REJECT])


def verdict_of_error(records: Records, error: BaseException, *, reject_unknown: bool) -> Verdict:
    """Return what a put means that raised; see `verdict_of_return`."""
    match error:
        case Retriable():
            return Verdict(released=records, error=error, kind="retriable", after_s=error.after_s)
        case Fatal() | RejectRecord():
            return Verdict(rejected=records, error=error, kind="fatal")
        case PutTimedOut():
            return Verdict(released=records, error=error, kind="timeout", fails=True)
        case _ if reject_unknown:
            return Verdict(rejected=records, error=error, kind="unknown")
        case _:
            return Verdict(released=records, error=error, kind="unknown", fails=True)


def _wrong(records: Records, returned: Any) -> str | None:
    if not isinstance(returned, Sequence) or isinstance(returned, str | bytes):
        return f"put returned {type(returned).__name__}; return None, or a list with one Outcome for each record"
    if len(returned) != len(records):
        return f"put returned {len(returned)} outcomes for {len(records)} records; return one for each"
    for index, outcome in enumerate(returned):
        if not isinstance(outcome, Outcome):
            return f"put returned {type(outcome).__name__} as outcome {index}; return Outcome.ACCEPT, RELEASE or REJECT"
    return None

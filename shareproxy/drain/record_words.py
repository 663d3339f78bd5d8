"""Name records and failures in sentences for a person.

In: records, exceptions. Out: words. Must never: show what a record holds.
"""

from __future__ import annotations

from typing import Final

from shareproxy.admin.errors import AdminError
from shareproxy.drain.deserializers import RecordAtFault
from shareproxy.drain.errors import DrainError
from shareproxy.drain.put_outcome import PutTimedOut, Records

OFFSETS_SHOWN: Final = 5
KINDS_SHOWN: Final = 5
# of a sink's own words
MOST_TEXT: Final = 500


def where(records: Records, *, most: int = OFFSETS_SHOWN) -> str:
    """Name records for a person, without their contents."""
    shown = ", ".join(f"{record.topic}-{record.partition}@{record.offset}" for record in records[:most])
    return f"{len(records)} records ({shown}{', …' if len(records) > most else ''})" if len(records) != 1 else shown


def most_deliveries(records: Records) -> int:
    """Return the highest delivery count."""
    return max((record.delivery_count for record in records), default=1)


def sentence(error: BaseException) -> str:
    """Return what went wrong, with its type unless its text is a sentence of ours."""
    text = " ".join(str(error).split())
    text = text if len(text) <= MOST_TEXT else text[:MOST_TEXT] + "…"
    if isinstance(error, PutTimedOut | DrainError | AdminError):
        return text
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


def unreadable_why(records: Records) -> str:
    """Return why a converter failed: only the kind of error where its text may hold the record's contents."""
    kinds = sorted({_kind(record.error) for record in records if record.error is not None})
    more = len(kinds) - KINDS_SHOWN
    return f"a converter cannot read them: {', '.join(kinds[:KINDS_SHOWN])}{f' and {more} more' if more > 0 else ''}"


def _kind(error: Exception) -> str:
    return str(error) if isinstance(error, RecordAtFault) else type(error).__name__


def sentence_or(error: BaseException | None, otherwise: str) -> str:
    """Return what went wrong, or something else where nothing did."""
    return otherwise if error is None else sentence(error)

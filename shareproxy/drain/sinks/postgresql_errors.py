"""Say what an error of PostgreSQL means for the records that were being written.

In: what asyncpg raised. Out: whose fault it is, and a sentence. Must never: show a value of a record, or a password.
"""

from __future__ import annotations

import re
from enum import Enum
from typing import Final

import asyncpg


class Fault(Enum):
    """Whose fault it is."""

    RECORD = "record"  # it will never fit
    PARENT = "parent"  # a row that it refers to is not there yet
    LATER = "later"  # the server, the line: the same works later
    SETUP = "setup"  # table, rights, login: somebody has to mend it


_RECORD_CLASSES: Final = ("22", "23", "44")
# connection, transaction to be repeated, resources, operator, system
_LATER_CLASSES: Final = ("08", "40", "53", "57", "58")
_LATER_STATES: Final = (
    "55P03",  # lock not available
    "25006",  # read only: the server became a standby, another one leads now
    "0A000",  # a plan of before the table was changed
)
_RAISED: Final = "P0001"  # by a trigger
_FOREIGN_KEY: Final = "23503"  # order is gone in a share group, so the row may come a moment later
# asyncpg's words, which show the value in the middle
_UNSENDABLE: Final = re.compile(r"invalid input for query argument \$(\d+).*\((.*)\)$", re.DOTALL)
TWICE: Final = "21000"  # two rows of one statement have the same key, as the server compares them


def fault_of(error: BaseException) -> Fault:
    """Return whose fault an error is."""
    state = state_of(error)
    if state is not None:
        if state == _FOREIGN_KEY:
            return Fault.PARENT
        if state[:2] in _RECORD_CLASSES or state in (_RAISED, TWICE):
            return Fault.RECORD
        if state[:2] in _LATER_CLASSES or state in _LATER_STATES:
            return Fault.LATER
        return Fault.SETUP
    if isinstance(error, asyncpg.DataError | ValueError):  # asyncpg could not send a value
        return Fault.RECORD
    if isinstance(error, OSError | TimeoutError | asyncpg.InterfaceError | asyncpg.InternalClientError):
        return Fault.LATER
    return Fault.SETUP


def state_of(error: BaseException) -> str | None:
    """Return PostgreSQL's code; `None` where the error is not the server's."""
    state = getattr(error, "sqlstate", None)
    return state if isinstance(state, str) and state else None


def sentence_of(error: BaseException) -> str:
    """Return in one line what went wrong; the server's detail is left out, as it shows values."""
    if match := _UNSENDABLE.match(str(error)):
        return f"the value of column {match[1]} cannot be sent: {match[2]}"
    said = getattr(error, "message", None)
    text = said if isinstance(said, str) and said else str(error)
    first = text.strip().splitlines()[0] if text.strip() else type(error).__name__
    state = state_of(error)
    return f"{first} ({state})" if state else first

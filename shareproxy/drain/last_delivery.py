"""Keep the records that the brokers would give up if they were released once more, until each works.

In: records on their last delivery, and the time. Out: which to try now. Must never: forget one that is still ours.
"""

from __future__ import annotations

from collections.abc import Iterable

from shareproxy.drain.source import SourceRecord


def ours(record: SourceRecord, now: float) -> bool:
    """Return whether a record's lock still holds."""
    return record.lock_deadline is None or record.lock_deadline > now


class _Held:
    __slots__ = ("due", "record", "tries")

    def __init__(self, record: SourceRecord, due: float) -> None:
        self.record, self.due, self.tries = record, due, 0


class LastDeliveries:
    """Records that are held on their last delivery."""

    def __init__(self) -> None:
        self._held: list[_Held] = []
        self.why = ""

    def __len__(self) -> int:
        return len(self._held)

    @property
    def records(self) -> list[SourceRecord]:
        """All of them."""
        return [held.record for held in self._held]

    def add(self, records: Iterable[SourceRecord], why: str, due: float) -> None:
        """Take records.

        Args:
            records: that failed on their last delivery.
            why: they are here, for a person.
            due: when to try them next.
        """
        self._held.extend(_Held(record, due) for record in records)
        self.why = why

    def due(self, now: float) -> list[SourceRecord]:
        """Return those to try now, those that failed last at the end."""
        return [held.record for held in self._held if held.due <= now]

    def settled(self, record: SourceRecord) -> None:
        """Let go of one that was accepted or rejected."""
        self._held = [held for held in self._held if held.record is not record]

    def failed(self, record: SourceRecord) -> int:
        """Put one that failed again at the end; return how often it did, so that `postpone` can say for how long."""
        (held,) = [held for held in self._held if held.record is record]
        self._held.remove(held)
        self._held.append(held)
        held.tries += 1
        return held.tries

    def postpone(self, record: SourceRecord, due: float) -> None:
        """Say when to try one next."""
        for held in self._held:
            if held.record is record:
                held.due = due

    def drop_lost(self, now: float) -> list[SourceRecord]:
        """Let go of those whose lock has run out, and return them."""
        lost = [held.record for held in self._held if not ours(held.record, now)]
        if lost:
            self._held = [held for held in self._held if ours(held.record, now)]
        return lost

    def clear(self) -> list[SourceRecord]:
        """Let go of all, and return them."""
        records, self._held = self.records, []
        return records

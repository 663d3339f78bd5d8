"""Say what became of the commits of a consumer group.

In: offsets as they were sent, and the broker's answers. Out: frozen results and counts.
Must never: call an offset committed that no broker said it took (F14).
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from shareproxy.drain.model import TopicPartition


class CommitResult(msgspec.Struct, frozen=True):
    """What one commit did.

    Attributes:
        sent: offsets that were sent; empty where there was nothing new, and then no request was made (F13).
        confirmed: those that the broker took, from its answer.
        unassigned: finished offsets that were not sent, as their partitions went to somebody else (F10).
        error: why the rest of `sent` is not confirmed; whether it counts is not known then.
    """

    sent: Mapping[TopicPartition, int] = {}
    confirmed: Mapping[TopicPartition, int] = {}
    unassigned: Mapping[TopicPartition, int] = {}
    error: Exception | None = None

    @property
    def done(self) -> bool:
        """Whether nothing failed."""
        return self.error is None


class CommitStats(msgspec.Struct, frozen=True):
    """What became of all commits so far; for metrics.

    Attributes:
        committed: the newest offset that a broker confirmed, by assigned partition (F14).
        commits: commits that the broker confirmed.
        failures: commits that failed in whole or in part (F16).
        empty: times that there was nothing to send (F13).
        waiting: records that were handed on and are not finished.
        late: records finished after their partition went away; they come again, here or elsewhere.
        last_error: of the newest commit that failed, a sentence; `None` once one succeeded.
    """

    committed: Mapping[TopicPartition, int]
    commits: int = 0
    failures: int = 0
    empty: int = 0
    waiting: int = 0
    late: int = 0
    last_error: str | None = None

"""Write a worker's log: each kind of failure with its traceback once, everything else as one line.

In: what failed, and what the consumer tells. Out: log lines. Must never: write a record's key or value, or a line
for each of a million failures of one kind.
"""

from __future__ import annotations

import traceback
from collections import Counter
from typing import Final

import structlog

from shareproxy.drain.events import AssignmentChanged, ConsumerEvent, GapsAcknowledged
from shareproxy.drain.handler_metrics import HandlerCounts
from shareproxy.drain.sink import Fatal, RejectRecord, Retriable

# kinds beyond this are counted, and logged no more: each holds a key in memory
MOST_KINDS: Final = 1000
# what is normal is for who looks for it
_LEVEL: Final[dict[type[ConsumerEvent], str]] = {AssignmentChanged: "info", GapsAcknowledged: "debug"}


class HandlerLog:
    """Logs for one worker, and counts what it logs.

    Args:
        counts: of the worker.
        group: its share group.
    """

    def __init__(self, counts: HandlerCounts, group: str) -> None:
        self._counts = counts
        self._log = structlog.get_logger().bind(group=group)
        self._times: Counter[object] = Counter()

    def failed(self, error: BaseException, record: object) -> None:
        """Count a failure of the handler; log it with its traceback if nothing like it was logged before.

        What a handler says on purpose is no bug of it, and has its sentence instead.
        """
        self._counts.failures[type(error).__name__] += 1
        frames = traceback.extract_tb(error.__traceback__)
        where = (frames[-1].filename, frames[-1].lineno) if frames else None
        times = self._again((type(error), where))
        if times and isinstance(error, Retriable | Fatal | RejectRecord):
            why = str(error) or (repr(error.__cause__) if error.__cause__ else None)
            self._log.warning("handler failed", record=repr(record), error=type(error).__name__, why=why, times=times)
        elif times == 1:
            self._log.error("handler failed", record=repr(record), exc_info=error)
        elif times:
            self._log.error("handler failed", record=repr(record), error=type(error).__name__, times=times)

    def often(self, event: str, record: object = None, **words: object) -> None:
        """Log a warning the first time, the tenth, the hundredth and so on."""
        times = self._again(event)
        if times:
            about = {} if record is None else {"record": repr(record)}
            self._log.warning(event, times=times, **about, **words)

    def tell(self, event: ConsumerEvent) -> None:
        """Log what happened to the consumer; fits `on_event`."""
        name = type(event).__name__
        self._counts.events[name] += 1
        getattr(self._log, _LEVEL.get(type(event), "warning"))(str(event), event_type=name)

    def info(self, event: str, **words: object) -> None:
        """Log something that a person wants to know once."""
        self._log.info(event, **words)

    def warning(self, event: str, **words: object) -> None:
        """Log something that a person should look at."""
        self._log.warning(event, **words)

    def bug(self, error: BaseException) -> None:
        """Log a mistake of ours with its traceback."""
        self._log.error("this is a bug of the worker", exc_info=error)

    def _again(self, kind: object) -> int:
        """Return how often this kind was met if that is worth a line, else 0."""
        if kind not in self._times and len(self._times) >= MOST_KINDS:
            return 0
        self._times[kind] += 1
        times = self._times[kind]
        return times if str(times).strip("0") == "1" else 0

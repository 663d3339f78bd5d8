"""Keep what a deserialiser raised with its record, without all that its traceback holds.

In: an exception. Out: the same, and what led to it, without frames.
Must never: change what the exception says.
"""

from __future__ import annotations


def without_frames(error: Exception) -> Exception:
    """Drop the tracebacks of an error and of what led to it, and return it.

    Their frames, and those of all callers, refer to the records, and these to the error: as the collector does not look
    at records, such a circle would stay for ever.
    """
    waiting: list[BaseException | None] = [error]
    seen: set[int] = set()
    while waiting:
        each = waiting.pop()
        if each is not None and id(each) not in seen:
            seen.add(id(each))
            each.__traceback__ = None
            waiting += (each.__cause__, each.__context__)
            if isinstance(each, BaseExceptionGroup):
                waiting += each.exceptions
    return error

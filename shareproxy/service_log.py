"""Set up the log: key–value for a person at a terminal, JSON for everything else, on stderr."""

from __future__ import annotations

import contextlib
import logging
import sys
from typing import TYPE_CHECKING, TextIO, cast

import msgspec
import structlog

if TYPE_CHECKING:
    from shareproxy.config import Log


class _Stderr:
    """stderr that never raises: a log reader that went away, or a full disk, must not end a client's connection."""

    def write(self, text: str) -> int:
        with contextlib.suppress(OSError, ValueError):
            return sys.stderr.write(text)
        return len(text)

    def flush(self) -> None:
        with contextlib.suppress(OSError, ValueError):
            sys.stderr.flush()


def _to_json(event: object, **_: object) -> str:
    return msgspec.json.encode(event, enc_hook=repr).decode()


def configure_log(settings: Log, *, worker: int | None = None) -> None:
    """Configure structlog for this process.

    Args:
        settings: level and form.
        worker: number of this process among several, shown in each line; None for the only one.
    """
    as_text = sys.stderr.isatty() if settings.format == "auto" else settings.format == "text"
    renderer: structlog.typing.Processor
    if as_text:
        renderer = structlog.dev.ConsoleRenderer(colors=sys.stderr.isatty())
    else:
        renderer = structlog.processors.JSONRenderer(serializer=_to_json)

    def add_worker(logger: object, name: str, event: structlog.typing.EventDict) -> structlog.typing.EventDict:
        event.setdefault("worker", worker)
        return event

    structlog.configure(
        processors=[
            *([] if worker is None else [add_worker]),
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            structlog.processors.format_exc_info,
            renderer,
        ],
        wrapper_class=structlog.make_filtering_bound_logger(logging.getLevelNamesMapping()[settings.level.upper()]),
        logger_factory=structlog.PrintLoggerFactory(cast("TextIO", _Stderr())),
        cache_logger_on_first_use=True,
    )

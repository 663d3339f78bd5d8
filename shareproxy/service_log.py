"""Set up the log: key–value for a person at a terminal, JSON for everything else, on stderr."""

from __future__ import annotations

import contextlib
import logging
import sys
from typing import TYPE_CHECKING, TextIO, cast

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


def configure_log(settings: Log) -> None:
    """Configure structlog for this process."""
    as_text = sys.stderr.isatty() if settings.format == "auto" else settings.format == "text"
    renderer: structlog.typing.Processor
    if as_text:
        renderer = structlog.dev.ConsoleRenderer(colors=sys.stderr.isatty())
    else:
        renderer = structlog.processors.JSONRenderer()
    structlog.configure(
        processors=[
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            structlog.processors.format_exc_info,
            renderer,
        ],
        wrapper_class=structlog.make_filtering_bound_logger(logging.getLevelNamesMapping()[settings.level.upper()]),
        logger_factory=structlog.PrintLoggerFactory(cast("TextIO", _Stderr())),
        cache_logger_on_first_use=True,
    )

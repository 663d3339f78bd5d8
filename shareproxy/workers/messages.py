"""What the supervisor and its workers say to each other: JSON, one object per line.

In: messages. Out: lines, and back. Must never: hold what a client or a broker sent.
"""

from __future__ import annotations

from typing import Any, Final

import msgspec

from shareproxy.config import Settings

# one line: settings, or the counters of a worker, which are a few kilobytes
MAX_LINE_BYTES: Final = 4 * 1024 * 1024


class Start(msgspec.Struct, frozen=True, tag="start"):
    """The first message to a worker.

    Attributes:
        worker: its number, from 1 on.
        settings: its own, with its share of what is a total.
    """

    worker: int
    settings: Settings


class Reload(msgspec.Struct, frozen=True, tag="reload"):
    """Take other limits, and read the certificates again; answered by `Reloaded`."""

    settings: Settings


class Report(msgspec.Struct, frozen=True, tag="report"):
    """Report now; the number comes back."""

    number: int


class Drain(msgspec.Struct, frozen=True, tag="drain"):
    """Stop in order, and end.

    Attributes:
        delay: seconds in which clients are still let in.
        grace: seconds that what is in flight may then take.
    """

    delay: float
    grace: float


class Hurry(msgspec.Struct, frozen=True, tag="hurry"):
    """Cut everything off and end."""


class Listening(msgspec.Struct, frozen=True, tag="listening"):
    """All ports are bound."""


class Failed(msgspec.Struct, frozen=True, tag="failed"):
    """It cannot start, and ends.

    Attributes:
        why: a sentence.
        cannot_listen: whether that is about an address that cannot be bound now, and not about settings.
    """

    why: str
    cannot_listen: bool = False


class Reported(msgspec.Struct, frozen=True, tag="reported"):
    """How a worker is doing; sent every second and when it is asked to.

    Attributes:
        number: of the newest `Report` that it answers.
        why_not_ready: empty when it serves.
        meter: its counters.
    """

    number: int
    why_not_ready: str
    meter: dict[str, dict[str, Any]]


class Reloaded(msgspec.Struct, frozen=True, tag="reloaded"):
    """What came of a `Reload`; empty when all is well."""

    error: str


ToWorker = Start | Reload | Report | Drain | Hurry
FromWorker = Listening | Failed | Reported | Reloaded

decode_to_worker: Final = msgspec.json.Decoder(ToWorker).decode
decode_from_worker: Final = msgspec.json.Decoder(FromWorker).decode


def line(message: ToWorker | FromWorker) -> bytes:
    """Return a message as it is sent."""
    return msgspec.json.encode(message) + b"\n"

"""Say how long a record that failed has to wait, and whether it waits here or goes back to the broker.

In: how often it failed, how often it was delivered, how long its lock still holds. Out: a delay and a place.
Must never: give a record back at full speed. The broker counts each delivery and drops the record after five, which
a loop without waiting reaches within milliseconds (KIP-932 knows no delayed redelivery).
"""

from __future__ import annotations

from enum import Enum
from typing import Final

import msgspec

# an exponent beyond this overflows a float, and any delay has reached its maximum long before
MAX_EXPONENT: Final = 64
# with none at all a handler that fails at once would keep a core busy, and spend all deliveries in no time
LEAST_SECONDS: Final = 0.001
# of the time that a lock still holds; the rest is for the answer's way back and for a clock that is not the broker's
LOCK_SHARE: Final = 0.8


class Retry(msgspec.Struct, frozen=True, kw_only=True):
    """When a record comes again whose handler failed.

    Args:
        first_s: seconds before the second try.
        factor: how much longer each further wait is.
        max_s: seconds that no wait exceeds.
        in_place: how often one delivery is tried again here, while its lock is renewed; then it is given back, which
            spends one of its deliveries (five, unless the group says otherwise). `None`: never give it back. Where
            locks cannot be renewed (Kafka 4.1) there is no more of it than the lock has room for.
        jitter: share of each wait that is left to chance, so that workers do not try again all at once.
    """

    first_s: float = 1.0
    factor: float = 2.0
    max_s: float = 60.0
    in_place: int | None = 3
    jitter: float = 0.2

    def wrong(self) -> str | None:
        """Return what is wrong with it, in a sentence; `None` if nothing is."""
        if not LEAST_SECONDS <= self.first_s <= self.max_s:
            return f"retry: first_s={self.first_s:g} must lie between {LEAST_SECONDS:g} and max_s={self.max_s:g}"
        if self.factor < 1:
            return f"retry: factor={self.factor:g} would make waits shorter; give 1 or more"
        if self.in_place is not None and self.in_place < 0:
            return f"retry: in_place={self.in_place} is negative; give a number of tries, or None for no end"
        if not 0 <= self.jitter <= 1:
            return f"retry: jitter={self.jitter:g} is not a share; give 0 to 1"
        return None


class Place(Enum):
    """Where a record is tried again."""

    HERE = "in_place"
    ANYWHERE = "released"


class Wait(msgspec.Struct, frozen=True):
    """How long to wait, and what to do then.

    Attributes:
        seconds: to wait, with the lock held.
        place: `HERE`: call the handler again; `ANYWHERE`: release the record.
    """

    seconds: float
    place: Place


def growing_delay(retry: Retry, delivery_count: int, failures: int, chance: float) -> float:
    """Return how long the next wait is; it grows with each failure, also those of earlier deliveries.

    Args:
        retry: how it grows.
        delivery_count: of this delivery, from 1.
        failures: of this delivery, from 1.
        chance: any number from 0 to 1.
    """
    each = 1 if retry.in_place is None else retry.in_place + 1
    before = (delivery_count - 1) * each + failures - 1
    delay = min(retry.first_s * retry.factor ** min(before, MAX_EXPONENT), retry.max_s)
    return delay * (1 - retry.jitter * chance)


def next_try(
    retry: Retry,
    *,
    delivery_count: int,
    failures: int,
    after_s: float | None = None,
    may_stay: bool = True,
    lock_left: float | None = None,
    chance: float,
) -> Wait:
    """Say how long a record waits that failed, and where it is tried again.

    Args:
        retry: what the user wants.
        delivery_count: of this delivery, from 1.
        failures: of this delivery, from 1.
        after_s: seconds that the handler asked for at least.
        may_stay: false where it must not be tried here again.
        lock_left: seconds that the lock still holds if it cannot be renewed; `None` where it can.
        chance: any number from 0 to 1.
    """
    delay = growing_delay(retry, delivery_count, failures, chance)
    if after_s is not None:
        delay = max(delay, after_s * (1 + retry.jitter * chance))
    stays = may_stay and (retry.in_place is None or failures <= retry.in_place)
    if lock_left is None:
        return Wait(delay, Place.HERE if stays else Place.ANYWHERE)
    room = max(lock_left * LOCK_SHARE, 0.0)
    if stays and delay <= room / 2:  # the other half is for the handler
        return Wait(delay, Place.HERE)
    return Wait(min(delay, room), Place.ANYWHERE)

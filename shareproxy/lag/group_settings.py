"""Read the settings of a group that a closer look needs.

In: what DescribeConfigs told. Out: typed settings. Must never: guess a setting that was not told.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

import msgspec

from shareproxy.lag.brokers import Trouble
from shareproxy.lag.group_configs import (
    AUTO_OFFSET_RESET,
    DEAD_LETTER_TOPIC,
    DELIVERY_COUNT_LIMIT,
    ISOLATION_LEVEL,
    MAX_RECORD_LOCKS,
    RECORD_LOCK_DURATION,
    GroupConfig,
)

READ_COMMITTED: Final = "read_committed"
LATEST: Final = "latest"
EARLIEST: Final = "earliest"
BY_DURATION: Final = "by_duration:"
# days, hours, minutes, seconds: what Java writes and reads of ISO 8601
_DURATION: Final = re.compile(
    r"(?P<sign>-?)P(?:(?P<d>\d+)D)?(?:T(?:(?P<h>\d+)H)?(?:(?P<m>\d+)M)?(?:(?P<s>\d+(?:\.\d+)?)S)?)?", re.IGNORECASE
)


class Settings(msgspec.Struct, frozen=True):
    """Settings of one group; `None` is not known.

    Attributes:
        dead_letter_topic: "" where none is configured, or the brokers have no such setting.
        trouble: why nothing is known.
    """

    isolation_level: str | None = None
    auto_offset_reset: str | None = None
    delivery_count_limit: int | None = None
    record_lock_duration_ms: int | None = None
    max_record_locks: int | None = None
    dead_letter_topic: str = ""
    trouble: Trouble | None = None

    @property
    def committed(self) -> bool | None:
        """Whether members are given records of committed transactions only."""
        return None if self.isolation_level is None else self.isolation_level == READ_COMMITTED

    @property
    def reset_duration_ms(self) -> int | None:
        """How far back a new partition starts with `by_duration`."""
        reset = self.auto_offset_reset
        if reset is None or not reset.startswith(BY_DURATION):
            return None
        return duration_ms(reset.removeprefix(BY_DURATION))


NOT_ASKED: Final = Settings()


def settings_of(configs: Mapping[str, GroupConfig] | Trouble) -> Settings:
    """Return the settings that a broker told, or why there are none."""
    if isinstance(configs, Trouble):
        return Settings(trouble=configs)

    def text(name: str) -> str | None:
        return configs[name].value if name in configs else None

    return Settings(
        isolation_level=_lower(text(ISOLATION_LEVEL)),
        auto_offset_reset=text(AUTO_OFFSET_RESET),
        delivery_count_limit=_number(text(DELIVERY_COUNT_LIMIT)),
        record_lock_duration_ms=_number(text(RECORD_LOCK_DURATION)),
        max_record_locks=_number(text(MAX_RECORD_LOCKS)),
        dead_letter_topic=text(DEAD_LETTER_TOPIC) or "",
    )


def duration_ms(text: str) -> int | None:
    """Return an ISO 8601 duration such as `P1DT2H` in milliseconds; `None` if it is not one."""
    match = _DURATION.fullmatch(text.strip())
    if match is None or not any(match[name] for name in "dhms"):
        return None
    days, hours, minutes = (int(match[name] or 0) for name in "dhm")
    seconds = ((days * 24 + hours) * 60 + minutes) * 60 + float(match["s"] or 0)
    return int(seconds * 1000) * (-1 if match["sign"] else 1)


def _lower(text: str | None) -> str | None:
    return None if text is None else text.lower()


def _number(text: str | None) -> int | None:
    return int(text) if text is not None and text.lstrip("-").isdigit() else None

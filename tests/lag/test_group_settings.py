"""Typed settings of a group."""

from __future__ import annotations

import pytest

from shareproxy.lag.brokers import Trouble
from shareproxy.lag.group_configs import GroupConfig
from shareproxy.lag.group_settings import Settings, duration_ms, settings_of
from shareproxy.lag.model import Status


def configs(**values: str | None) -> dict[str, GroupConfig]:
    """Return settings; `_` stands for a dot in names."""
    names = {name.replace("_", "."): value for name, value in values.items()}
    return {name: GroupConfig(name, value, False, 8) for name, value in names.items()}


def test_settings_are_typed() -> None:
    """Numbers are numbers, and a broker of 4.1 knows fewer of them."""
    found = settings_of(
        configs(
            share_isolation_level="READ_COMMITTED",
            share_auto_offset_reset="earliest",
            share_delivery_count_limit="5",
            share_record_lock_duration_ms="30000",
            share_partition_max_record_locks="many",
        )
    )

    assert found == Settings("read_committed", "earliest", 5, 30_000, None)
    assert found.committed is True


def test_unknown_settings() -> None:
    """What was not told is not guessed."""
    trouble = Trouble(Status.NOT_AUTHORIZED, 30, "no")

    assert settings_of(trouble) == Settings(trouble=trouble)
    assert (settings_of({}).committed, settings_of({}).reset_duration_ms) == (None, None)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("PT10M", 600_000),
        ("P1DT2H", 93_600_000),
        ("PT0.5S", 500),
        ("pt1h1m1s", 3_661_000),
        ("-PT1S", -1000),
        ("P", None),
        ("PT", None),
        ("10 minutes", None),
    ],
)
def test_durations(text: str, expected: int | None) -> None:
    """ISO 8601, as far as Java writes it."""
    assert duration_ms(text) == expected


def test_reset_by_duration() -> None:
    """Only that policy has one."""
    assert Settings(auto_offset_reset="by_duration:PT1S").reset_duration_ms == 1000
    assert Settings(auto_offset_reset="latest").reset_duration_ms is None

"""What SIGHUP may change."""

from __future__ import annotations

import msgspec
import pytest

from shareproxy.config import Settings, setting_keys
from shareproxy.reloading import CHANGEABLE, change

BEFORE = Settings(bootstrap_server="a:1")


def test_equal_settings_change_nothing() -> None:
    """The usual SIGHUP is for certificates."""
    found = change(BEFORE, BEFORE)

    assert (found.settings, found.changed, found.needs_restart) == (BEFORE, (), ())


def test_limits_and_times_to_stop_change() -> None:
    """All of them."""
    assert set(CHANGEABLE) == {key for key, _ in setting_keys() if key.startswith("limits.")} | {
        "stop_delay",
        "stop_timeout",
    }


@pytest.mark.parametrize("key", [key for key, _ in setting_keys()])
def test_each_key_changes_or_needs_a_restart(key: str) -> None:
    """It is named by its dotted key, and the settings to go on with have the new value or the old one."""
    now = _with_other_value(BEFORE, key)

    found = change(BEFORE, now)

    if key in CHANGEABLE:
        assert (found.changed, found.needs_restart) == ((key,), ())
        assert found.settings == now
    else:
        assert (found.changed, found.needs_restart) == ((), (key,))
        assert found.settings == BEFORE


def _with_other_value(settings: Settings, key: str) -> Settings:
    section, _, name = key.rpartition(".")
    owner = getattr(settings, section) if section else settings
    old = getattr(owner, name)
    other = not old if isinstance(old, bool) else old + 1 if isinstance(old, int | float) else f"{old}x"
    changed = msgspec.structs.replace(owner, **{name: other})
    return msgspec.structs.replace(settings, **{section: changed}) if section else changed

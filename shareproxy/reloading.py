"""Decide what settings that are read again may change while the service runs.

In: settings before, settings as they are read now. Out: those to go on with, and the keys that differ.
Must never: change what only a new start can change, or show a value.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import msgspec

from shareproxy.config import Settings, setting_keys

Reread = Callable[[], Settings]
"""Reads all sources of settings again; raises ConfigError."""

CHANGEABLE: Final = (*(key for key, _ in setting_keys() if key.startswith("limits.")), "stop_delay", "stop_timeout")
"""The settings that SIGHUP may change; certificates are read again too, from the same files."""


class Change(msgspec.Struct, frozen=True):
    """What became of settings that were read again.

    Attributes:
        settings: to go on with.
        changed: keys whose new value holds now.
        needs_restart: keys whose new value does not.
    """

    settings: Settings
    changed: tuple[str, ...]
    needs_restart: tuple[str, ...]


def change(before: Settings, now: Settings) -> Change:
    """Take from settings that were read again what may change."""
    differing = [key for key in sorted(key for key, _ in setting_keys()) if _value(before, key) != _value(now, key)]
    settings = msgspec.structs.replace(
        before, limits=now.limits, stop_delay=now.stop_delay, stop_timeout=now.stop_timeout
    )
    return Change(
        settings,
        tuple(key for key in differing if key in CHANGEABLE),
        tuple(key for key in differing if key not in CHANGEABLE),
    )


def _value(settings: Settings, key: str) -> object:
    value: object = settings
    for part in key.split("."):
        value = getattr(value, part)
    return value

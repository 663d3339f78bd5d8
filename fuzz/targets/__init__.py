"""The fuzz targets, one module each.

In: a name. Out: its target. Must never: import a target before it is asked for: that happens under instrumentation.
"""

from __future__ import annotations

from importlib import import_module
from typing import Final, cast

from fuzz.target import Target

NAMES: Final = ("framing", "codec", "addresses", "api_versions", "lag_answers", "settings", "records", "session")


def load(name: str) -> Target:
    """Return a target by its name."""
    return cast("Target", import_module(f"fuzz.targets.{name}").TARGET)

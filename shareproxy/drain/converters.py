"""Make what a connector names as its converter: one that comes with the package, or one of an installed package.

In: a name, settings. Out: a function from bytes, or `None` for bytes as they are. Must never: be called for null.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib import metadata
from typing import Any, Final

from shareproxy.drain.deserializers import DESERIALIZERS, Deserializer

# an entry point names a function that takes the settings and returns the converter
ENTRY_POINTS: Final = "shareproxy.converters"


def converter(name: str, settings: Mapping[str, Any]) -> Deserializer | None:
    """Return what makes keys or values of bytes.

    Args:
        name: `raw`, `string`, `json` or a number's type, or the name of an entry point in `shareproxy.converters`.
        settings: the converter's own; those that come with the package have none.

    Raises:
        ValueError: there is no such converter, or it refuses its settings.
    """
    if name in DESERIALIZERS:
        if settings:
            raise ValueError(f"converter {name!r} has no setting {', '.join(map(repr, settings))}; leave it out")
        return DESERIALIZERS[name]
    found = list(metadata.entry_points(group=ENTRY_POINTS, name=name))
    if not found:
        names = [*DESERIALIZERS, *sorted(entry.name for entry in metadata.entry_points(group=ENTRY_POINTS))]
        raise ValueError(f"there is no converter {name!r}; there are {', '.join(names)}")
    try:
        made: Deserializer | None = found[0].load()(settings)
    except ValueError:
        raise
    except Exception as error:
        raise ValueError(f"converter {name!r} cannot be loaded: {type(error).__name__}: {error}") from error
    return made

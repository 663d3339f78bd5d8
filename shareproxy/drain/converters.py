"""Make what a connector names as its converter: one that comes with the package, or one of an installed package.

In: a name, settings. Out: a function from bytes, or `None` for bytes as they are. Must never: be called for null.
"""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from importlib import metadata
from typing import Any, Final, Literal

from shareproxy.drain.deserializers import DESERIALIZERS, Deserializer

# an entry point names a function that takes the settings and returns the converter
ENTRY_POINTS: Final = "shareproxy.converters"
# those that ask a schema registry, with the type that a registry gives its schemas
SCHEMA_CONVERTERS: Final[Mapping[str, Literal["AVRO", "JSON"]]] = {"avro": "AVRO", "json-schema": "JSON"}


def converter(name: str, settings: Mapping[str, Any]) -> Deserializer | None:
    """Return what makes keys or values of bytes.

    Args:
        name: `raw`, `string`, `json` or a number's type, `avro` or `json-schema` (which ask a schema registry), or the
            name of an entry point in `shareproxy.converters`.
        settings: the converter's own; only those that ask a schema registry have some.

    Raises:
        ValueError: there is no such converter, or it refuses its settings.
    """
    if name in DESERIALIZERS:
        if settings:
            raise ValueError(f"converter {name!r} has no setting {', '.join(map(repr, settings))}; leave it out")
        return DESERIALIZERS[name]
    if name in SCHEMA_CONVERTERS:
        return _schema_converter(name, settings)
    found = list(metadata.entry_points(group=ENTRY_POINTS, name=name))
    if not found:
        names = [
            *DESERIALIZERS,
            *SCHEMA_CONVERTERS,
            *sorted(entry.name for entry in metadata.entry_points(group=ENTRY_POINTS)),
        ]
        raise ValueError(f"there is no converter {name!r}; there are {', '.join(names)}")
    try:
        made: Deserializer | None = found[0].load()(settings)
    except ValueError:
        raise
    except Exception as error:
        raise ValueError(f"converter {name!r} cannot be loaded: {type(error).__name__}: {error}") from error
    return made


def _schema_converter(name: str, settings: Mapping[str, Any]) -> Deserializer:
    try:
        module: Any = importlib.import_module("shareproxy.drain.schema_converter")
    except ImportError as error:
        raise ValueError(
            f"converter {name!r} needs packages that are not there ({error}); pip install 'shareproxy[schema-registry]'"
        ) from error
    made: Deserializer = module.SchemaConverter(SCHEMA_CONVERTERS[name], settings)
    return made

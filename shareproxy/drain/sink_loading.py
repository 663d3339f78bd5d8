"""Find a sink by its name, or by module and class, and check its settings; and the converters.

In: names as `sink.toml` has them. Out: instances, functions from bytes. Must never: connect anything.
"""

from __future__ import annotations

import difflib
import importlib
import inspect
from collections.abc import Mapping
from importlib import metadata
from typing import Any, Final

from shareproxy.config import ConfigError
from shareproxy.drain.deserializers import DESERIALIZERS, Deserializer
from shareproxy.drain.sink import Sink
from shareproxy.drain.sink_config import ConnectorSettings, ConverterSettings

ENTRY_POINTS: Final = "shareproxy.sinks"
# entry points are there only where the package is installed; these are there always
BUILT_IN: Final[Mapping[str, str]] = {
    "postgresql": "shareproxy.drain.sinks.postgresql:PostgresqlSink",
    "http": "shareproxy.drain.sinks.http:HttpSink",
    "files": "shareproxy.drain.sinks.files:FilesSink",
    "kafka": "shareproxy.drain.sinks.kafka:KafkaSink",
    "s3": "shareproxy.drain.sinks.s3:S3Sink",
}
_METHODS: Final = ("start", "put", "stop")


def make_sink(connector: ConnectorSettings) -> Sink:
    """Make the sink that a connector names, and let it check its settings if it has a `check(config)`.

    Raises:
        ConfigError: there is none, it cannot be loaded or made, or its settings are wrong.
    """
    where = f'{connector.where} "class"'
    found = _load(connector.sink_class, where)
    missing = [name for name in _METHODS if not callable(getattr(found, name, None))]
    if missing:
        raise ConfigError(f"{where}: {connector.sink_class!r} is no sink: it has no {' and no '.join(missing)}")
    if inspect.isabstract(found):
        raise ConfigError(f"{where}: {connector.sink_class!r} is abstract; name a class that can be made")
    check = getattr(found, "check", None)
    if callable(check):
        try:
            check(connector.sink)
        except (ValueError, ConfigError) as error:
            raise ConfigError(f"{connector.where[:-1]}.sink]: {error}") from None
        except Exception as error:  # its text may hold a setting's value
            kind = type(error).__name__
            raise ConfigError(f"{where}: {connector.sink_class!r} cannot check its settings: {kind}") from error
    try:
        made: Sink = found()
    except Exception as error:
        raise ConfigError(
            f"{where}: {connector.sink_class!r} cannot be made without arguments: {type(error).__name__}: {error}; "
            "a sink takes its settings from the context of start"
        ) from error
    return made


def make_converter(key: str, settings: ConverterSettings, where: str) -> Deserializer | None:
    """Return what makes keys or values of bytes; `None` leaves them as they are.

    Args:
        key: `key.converter` or `value.converter`.
        settings: its name and its own settings.
        where: the connector's place, for the error.

    Raises:
        ConfigError: there is no such converter, or its settings are wrong.
    """
    if settings.name in DESERIALIZERS and not settings.settings:
        return DESERIALIZERS[settings.name]
    try:
        converters: Any = importlib.import_module("shareproxy.drain.converters")
        made: Deserializer | None = converters.converter(settings.name, settings.settings)
    except ImportError:
        raise ConfigError(f'{where} "{key}": {settings.name!r} is none of {", ".join(DESERIALIZERS)}') from None
    except (ValueError, ConfigError) as error:
        raise ConfigError(f'{where} "{key}": {error}') from None
    return made


def sink_names() -> list[str]:
    """Return the names of all sinks that can be used."""
    return sorted({*BUILT_IN, *(entry.name for entry in metadata.entry_points(group=ENTRY_POINTS))})


def _load(name: str, where: str) -> Any:
    if ":" not in name:
        return _named(name, where)
    return _imported(name, name, where)


def _named(name: str, where: str) -> Any:
    for entry in metadata.entry_points(group=ENTRY_POINTS, name=name):
        return _imported(entry.value, name, where)
    if name in BUILT_IN:
        return _imported(BUILT_IN[name], name, where)
    names = sink_names()
    near = difflib.get_close_matches(name, names, n=1, cutoff=0.5)
    hint = f"did you mean {near[0]!r}?" if near else f"there are {', '.join(names)}"
    raise ConfigError(f'{where}: there is no sink {name!r}; {hint}, or write "package.module:Class" for your own')


def _imported(target: str, name: str, where: str) -> Any:
    module, _, attribute = target.partition(":")
    try:
        found: Any = importlib.import_module(module)
    except ImportError as error:
        missing = getattr(error, "name", None)
        if missing and (missing == module or module.startswith(f"{missing}.")):
            raise ConfigError(
                f"{where}: there is no module {missing!r}; is its package installed, or its directory in PYTHONPATH?"
            ) from None
        raise ConfigError(f"{where}: sink {name!r} cannot be loaded: {error}; install what it needs") from error
    except Exception as error:
        raise ConfigError(f"{where}: sink {name!r} cannot be loaded: {type(error).__name__}: {error}") from error
    for part in attribute.split("."):
        if not hasattr(found, part):
            names = [known for known in vars(found) if not known.startswith("_")]
            near = difflib.get_close_matches(part, names, n=1, cutoff=0.5)
            hint = f"; did you mean {near[0]!r}?" if near else ""
            raise ConfigError(f"{where}: module {module!r} has no {part!r}{hint}")
        found = getattr(found, part)
    return found

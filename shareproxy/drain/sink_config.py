"""Read `sink.toml`: the worker, its connectors, and the settings of their sinks (KIP-1302's key names).

In: a file's path. Out: frozen settings, or a `ConfigError` that names the file, the table, the key and what to write.
Must never: start or connect anything, or show the value of a sink's setting: they hold passwords.
"""

from __future__ import annotations

import difflib
import os
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final, TypeVar, cast

import msgspec

from shareproxy.config import ConfigError, Log, read_toml
from shareproxy.drain.consumer_keys import (
    OVERRIDE_PREFIX,
    WORKER_PREFIX,
    ConsumeSettings,
    OverridePolicy,
    Value,
    belongs_to_group,
    resolve,
)
from shareproxy.drain.sink_keys import ConnectorKeys, WorkerKeys, wanted

T = TypeVar("T", bound=msgspec.Struct)
SINK_TABLE: Final = "sink"
CONVERTERS: Final = ("key.converter", "value.converter")
_SHARE_KEYS: Final = ("share.group.id", "share.acknowledgement.mode")
_VARIABLE: Final = re.compile(r"\$\{env:([A-Za-z_][A-Za-z0-9_]*)\}")


class ConverterSettings(msgspec.Struct, frozen=True):
    """A converter by name, with the settings that were given as `key.converter.…` or `value.converter.…`."""

    name: str
    settings: Mapping[str, Any] = {}


class ConnectorSettings(msgspec.Struct, frozen=True, kw_only=True):
    """One connector, resolved.

    Attributes:
        name: the connector's.
        where: its file and table, for errors.
        keys: as the file has them.
        topics: by name, without doubles.
        consumer: how it consumes.
        sink: the sink's own settings; they may hold secrets.
    """

    name: str
    where: str
    keys: ConnectorKeys
    topics: tuple[str, ...]
    consumer: ConsumeSettings
    key_converter: ConverterSettings
    value_converter: ConverterSettings
    sink: Mapping[str, Any]

    @property
    def sink_class(self) -> str:
        """The sink by name."""
        return self.keys.sink_class

    @property
    def retry_delays(self) -> tuple[float, float]:
        """First and longest delay before records are given back, in seconds."""
        return self.keys.retry_ms / 1000, max(self.keys.retry_ms, self.keys.retry_max_ms) / 1000

    @property
    def put_timeout(self) -> float | None:
        """Seconds of one put; `None` for no limit."""
        return self.keys.put_timeout_ms / 1000 or None


class SinkSettings(msgspec.Struct, frozen=True, kw_only=True):
    """All of a `sink.toml`.

    Attributes:
        notes: sentences on what works and is hardly meant.
    """

    file: str
    worker: WorkerKeys
    connectors: tuple[ConnectorSettings, ...]
    notes: tuple[str, ...] = ()

    @property
    def log(self) -> Log:
        """How the log is written."""
        return Log(level=self.worker.log_level, format=self.worker.log_format)

    @property
    def stop_timeout(self) -> float:
        """Seconds that a put under way may take when the worker is told to stop."""
        return self.worker.stop_timeout_ms / 1000


def load_sink_settings(
    file: str | Path,
    environment: Mapping[str, str] = os.environ,
    *,
    bootstrap_servers: str = "",
    command_config: str = "",
) -> SinkSettings:
    """Read a `sink.toml`.

    Args:
        file: its path.
        environment: variables that the file may name as `${env:NAME}`.
        bootstrap_servers: goes before the worker's, empty for the file's.
        command_config: the same.

    Raises:
        ConfigError: names the file, the table, the key and what to write instead.

    Source: KIP-1302 (its key names and order), KIP-458 (override policy).
    """
    tables = _expand(read_toml(Path(file), "; keys with dots stand in quotes"), environment, str(file))
    for key in tables:
        if key not in ("worker", "connectors"):
            raise ConfigError(f"{file}: {key!r} is not a table of this file; write [worker] and [connectors.NAME]")
    worker_table = _table(tables.get("worker", {}), f"{file}: [worker]")
    keys, consumer, converters = _split(worker_table, WORKER_PREFIX)
    if bootstrap_servers:
        keys["bootstrap.servers"] = bootstrap_servers
    if command_config:
        keys["command.config"] = command_config
    worker = _convert(WorkerKeys, keys, f"{file}: [worker]", consumer_prefix=WORKER_PREFIX)
    connectors = _table(tables.get("connectors", {}), f"{file}: [connectors]")
    if not connectors:
        raise ConfigError(f"{file}: there is no connector; write a table such as [connectors.orders]")
    found = tuple(
        _connector(str(file), name, table, worker, consumer, converters) for name, table in connectors.items()
    )
    _check_groups(str(file), found)
    return SinkSettings(file=str(file), worker=worker, connectors=found, notes=tuple(_notes(found)))


def _connector(
    file: str,
    name: str,
    content: object,
    worker: WorkerKeys,
    worker_consumer: Mapping[str, Value],
    worker_converters: Mapping[str, Mapping[str, Any]],
) -> ConnectorSettings:
    where = (
        f"{file}: [connectors.{name if re.fullmatch(r'[A-Za-z0-9_-]+', name) else msgspec.json.encode(name).decode()}]"
    )
    if not name.strip():
        raise ConfigError(f"{file}: a connector has an empty name; write a table such as [connectors.orders]")
    table = dict(_table(content, where))
    sink = _table(table.pop(SINK_TABLE, {}), f"{where[:-1]}.{SINK_TABLE}]")
    keys, override, converters = _split(table, OVERRIDE_PREFIX)
    if "topics.regex" in keys:
        raise ConfigError(
            f'{where} "topics.regex": share groups subscribe to topics by name only; write topics = ["orders", …]'
        )
    own = _convert(ConnectorKeys, keys, where, consumer_prefix=OVERRIDE_PREFIX)
    if not own.sink_class:
        raise ConfigError(f'{where} "class": is missing; name a sink, such as "postgresql", or "package.module:Class"')

    def place(origin: str, key: str) -> str:
        if origin == "worker":
            return f'{file}: [worker] "{WORKER_PREFIX}{key}"'
        return f'{where} "{OVERRIDE_PREFIX if origin == "override" else ""}{key}"'

    consumer = resolve(
        name,
        worker_consumer,
        override,
        {key: keys[key] for key in _SHARE_KEYS if key in keys},
        policy=OverridePolicy(worker.override_policy),
        bootstrap_servers=worker.bootstrap_servers,
        command_config=worker.command_config,
        place=place,
    )
    if not consumer.bootstrap_servers:
        raise ConfigError(f'{file}: [worker] "bootstrap.servers": is missing; write "HOST:PORT"')
    made = {
        key: _converter(key, given, default, converters[key], worker_converters[key])
        for key, given, default in (
            ("key.converter", own.key_converter, worker.key_converter),
            ("value.converter", own.value_converter, worker.value_converter),
        )
    }
    return ConnectorSettings(
        name=name,
        where=where,
        keys=own,
        topics=_topics(own.topics, where),
        consumer=consumer,
        key_converter=made["key.converter"],
        value_converter=made["value.converter"],
        sink=sink,
    )


def _converter(
    key: str, given: str | None, default: str, own: Mapping[str, Any], workers: Mapping[str, Any]
) -> ConverterSettings:
    # the worker's settings go with the worker's converter, as in Connect
    return ConverterSettings(default, {**workers, **own}) if given is None else ConverterSettings(given, own)


def _topics(given: str | list[str], where: str) -> tuple[str, ...]:
    names = given.split(",") if isinstance(given, str) else given
    topics = tuple(dict.fromkeys(name.strip() for name in names if name.strip()))
    if not topics:
        raise ConfigError(f'{where} "topics": is missing; name the topics, such as ["orders"]')
    for topic in topics:
        if not re.fullmatch(r"[A-Za-z0-9._-]{1,249}", topic):
            raise ConfigError(
                f'{where} "topics": {topic[:100]!r} is not the name of a topic; a pattern is not possible, '
                "share groups subscribe to topics by name"
            )
    return topics


def _check_groups(file: str, connectors: tuple[ConnectorSettings, ...]) -> None:
    """Refuse one name for groups of two types (R6, R29)."""
    kinds: dict[str, ConnectorSettings] = {}
    for connector in connectors:
        other = kinds.setdefault(connector.consumer.group, connector)
        if other.consumer.share_group != connector.consumer.share_group:
            share, group = (connector, other) if connector.consumer.share_group else (other, connector)
            raise ConfigError(
                f"{file}: connectors {share.name!r} and {group.name!r} have the same group "
                f"{connector.consumer.group!r}, one as a share group, one as a consumer group; "
                f'a group has one type: give {share.name!r} another "share.group.id"'
            )


def _notes(connectors: tuple[ConnectorSettings, ...]) -> Iterator[str]:
    seen: dict[tuple[str, str], str] = {}
    for connector in connectors:
        for topic in connector.topics:
            other = seen.setdefault((connector.consumer.group, topic), connector.name)
            if other != connector.name:
                yield (
                    f"connectors {other!r} and {connector.name!r} share group {connector.consumer.group!r} and topic "
                    f"{topic!r}: each record goes to one of them only"
                )


def _split(
    table: Mapping[str, Any], consumer_prefix: str
) -> tuple[dict[str, Any], dict[str, Value], dict[str, dict[str, Any]]]:
    """Return plain keys, consumer keys without their prefix, and converters' settings by converter."""
    plain: dict[str, Any] = {}
    consumer: dict[str, Value] = {}
    converters: dict[str, dict[str, Any]] = {key: {} for key in CONVERTERS}
    for key, value in _flatten(table, ""):
        converter = next((name for name in CONVERTERS if key.startswith(f"{name}.")), None)
        if converter is not None:
            converters[converter][key.removeprefix(f"{converter}.")] = value
        elif key.startswith(consumer_prefix) and belongs_to_group(key) is None:
            consumer[key.removeprefix(consumer_prefix)] = value
        else:
            plain[key] = value
    return plain, consumer, converters


def _flatten(table: Mapping[str, Any], prefix: str) -> Iterator[tuple[str, Any]]:
    """Yield dotted keys: `tasks.max = 2` without quotes is a table in TOML, and means the same."""
    for key, value in table.items():
        if isinstance(value, dict):
            yield from _flatten(value, f"{prefix}{key}.")
        else:
            yield prefix + key, value


def _convert(kind: type[T], table: Mapping[str, Any], where: str, *, consumer_prefix: str) -> T:
    known = {field.encode_name: field.type for field in msgspec.structs.fields(kind)}
    for key in table:
        if (reason := belongs_to_group(key)) is not None:
            raise ConfigError(f'{where} "{key}": {reason}')
        if key not in known:
            if kind is ConnectorKeys and difflib.get_close_matches(key.partition(".")[0], [SINK_TABLE]):
                raise ConfigError(
                    f"{where}: {key!r} is not known; a sink's own settings stand in [connectors.NAME.sink]"
                )
            near = difflib.get_close_matches(key, known, n=1, cutoff=0.6)
            hint = (
                f'did you mean "{near[0]}"?'
                if near
                else f'known are {", ".join(known)}, "{consumer_prefix}…", and [….{SINK_TABLE}] for the sink\'s own'
                if kind is ConnectorKeys
                else f'known are {", ".join(known)} and "{consumer_prefix}…"'
            )
            raise ConfigError(f'{where} "{key}": there is no such key; {hint}')
        try:
            msgspec.convert({key: table[key]}, kind)
        except msgspec.ValidationError:
            raise ConfigError(f'{where} "{key}": {wanted(known[key])}') from None
    return msgspec.convert(dict(table), kind)


def _table(value: object, where: str) -> Mapping[str, Any]:
    if not isinstance(value, dict):
        raise ConfigError(f"{where}: is a table; write it in brackets and its keys below")
    return cast("dict[str, Any]", value)


def _expand(value: Any, environment: Mapping[str, str], file: str) -> Any:
    """Put variables of the environment in place of `${env:NAME}`."""
    if isinstance(value, dict):
        return {key: _expand(inner, environment, file) for key, inner in value.items()}
    if isinstance(value, list):
        return [_expand(inner, environment, file) for inner in value]
    if not isinstance(value, str):
        return value

    def variable(match: re.Match[str]) -> str:
        if match[1] not in environment:
            raise ConfigError(f"{file}: the variable {match[1]} of {match[0]} is not set in the environment; set it")
        return environment[match[1]]

    return _VARIABLE.sub(variable, value)

"""Read the settings: defaults, then a TOML file, then the environment, then flags.

In: a file's path, environment variables, flag values. Out: frozen `Settings`, or a `ConfigError` that names the
key's path and the nearest right name. Must never: start anything.
"""

from __future__ import annotations

import difflib
import re
import tomllib
import types
import typing
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated, Final

import msgspec

Positive = Annotated[int, msgspec.Meta(ge=1)]
NotNegative = Annotated[int, msgspec.Meta(ge=0)]
Port = Annotated[int, msgspec.Meta(ge=0, lt=65_536)]
# Less is a slip, such as another unit in mind: hardly any answer over a network would be in time.
LEAST_SECONDS: Final = 0.1
Seconds = Annotated[float, msgspec.Meta(ge=LEAST_SECONDS, le=86_400)]
SecondsOrNone = Annotated[float, msgspec.Meta(ge=0, le=86_400)]
SecondsOrOff = Annotated[float, msgspec.Meta(ge=0, le=86_400, description="0 is off")]
Workers = Annotated[int, msgspec.Meta(ge=1, le=128)]

ENVIRONMENT_PREFIX: Final = "SHAREPROXY_"
_SECRETS: Final = frozenset({"tls.key_password"})
"""Settings whose values no error may show."""


class ConfigError(Exception):
    """A setting is wrong; the text names where it came from, the key's path and what to write."""


class CannotListen(Exception):  # noqa: N818 - it says what happened
    """An address of the settings cannot be listened on now; later it may. The text names the address and says why."""


class Limits(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Bounds that keep one client from harming the others.

    Args:
        max_frame_bytes: largest request that a client may send; Kafka's own default.
        max_unauthenticated_frame_bytes: the same for requests that authenticate, and for all others before that where
            the brokers want SASL; Kafka's own default.
        max_connections: client connections at a time; further ones are closed at once.
        max_connections_per_address: the same from one client address, 0 for no such limit: behind NAT, a load balancer
            or a Kubernetes node many clients have one address, so only who runs it knows a number.
        max_in_flight: requests without an answer at which a client is no longer read. Brokers work on one at a time,
            so more gain nothing.
        connect_timeout: seconds to reach a broker before the client's connection is closed.
        unauthenticated_timeout: seconds for the TLS handshake, and again for the first request and, where the brokers
            want it, SASL. Clients need milliseconds; Kafka's own connection set-up gives up after 30 s too.
        slow_request_timeout: seconds in which a client in the middle of a request must send a KiB for each of them.
            Clients give up a request after 30 s.
        stalled_timeout: seconds without a byte while one side is not read because the other takes nothing, 0 for no
            such limit: brokers close a client that does not read after ten minutes.
        idle_timeout: seconds without a byte and without anything in flight, 0 for no such limit: brokers close after
            ten minutes, clients after nine, so anything below that only makes them connect anew.
    """

    max_frame_bytes: Positive = 104_857_600
    max_unauthenticated_frame_bytes: Positive = 524_288
    max_connections: Positive = 10_000
    max_connections_per_address: NotNegative = 0
    max_in_flight: Positive = 1_000
    connect_timeout: Seconds = 5.0
    unauthenticated_timeout: Seconds = 30.0
    slow_request_timeout: Seconds = 30.0
    stalled_timeout: SecondsOrOff = 600.0
    idle_timeout: SecondsOrOff = 0.0


class Log(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How the log is written; `auto` is key–value on a terminal and JSON otherwise."""

    level: typing.Literal["debug", "info", "warning", "error"] = "info"
    format: typing.Literal["auto", "json", "text"] = "auto"


class Exporter(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What is collected for `/metrics` and `/api/v1`; names are matched whole by regular expressions.

    Args:
        enabled: whether `serve` collects when it has an `http` address; `exporter` always does.
        interval: seconds between two looks at the cluster.
        stale_after: intervals after which the last look is not shown any more.
        include_groups: only groups of these names, empty for all.
        exclude_groups: not these, empty for none.
        include_topics: only topics of these names, empty for all.
        exclude_topics: not these, empty for none.
        internal_topics: whether Kafka's own topics are shown.
        granularity: what has series of its own.
        visible: how far a closer look goes: not at all, log start and last stable offsets, or everything.
        cluster_label: value of a label `cluster` on each series of Kafka, empty for no such label.
    """

    enabled: bool = True
    interval: Seconds = 15.0
    stale_after: Positive = 4
    include_groups: str = ""
    exclude_groups: str = ""
    include_topics: str = ""
    exclude_topics: str = ""
    internal_topics: bool = False
    granularity: typing.Literal["partition", "topic", "group"] = "partition"
    visible: typing.Literal["off", "offsets", "all"] = "off"
    cluster_label: str = ""


class Tls(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """TLS towards clients; SIGHUP reads the files again.

    Args:
        certificate: PEM file with the certificate chain, and with the key if `key` is empty; empty for plain text.
        key: PEM file with the key.
        key_password: of an encrypted key.
        client_ca: PEM file with the authorities of client certificates.
        client_auth: whether clients need a certificate, in Kafka's words.
    """

    certificate: str = ""
    key: str = ""
    key_password: str = ""
    client_ca: str = ""
    client_auth: typing.Literal["none", "requested", "required"] = "none"


class Settings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """All settings of `shareproxy serve`; those of listening are not for `lag` and `doctor`.

    Args:
        bootstrap_server: addresses of the brokers, `HOST:PORT[,HOST:PORT…]`.
        command_config: Java client property file for our own connections, empty for none.
        client_id: what the brokers' logs show.
        listen: address of the bootstrap port.
        advertised_host: host name that clients are told; empty means the host of `listen`.
        node_ports: ports for the brokers, `LO-HI`.
        node_ids: node ids in the order of their ports, such as `1-3,1000`; empty means 0 and up.
        node_hosts: with TLS, a host name for each node, such as `b{node_id}.kafka.example`: all nodes are then served
            at the port of `listen`, by the name that a client asks for (SNI). Empty means ports.
        advertised_port: port that goes with `node_hosts`; 0 means the port of `listen`.
        http: address of `/metrics`, `/api/v1` and the probes, empty for none.
        sink: a `sink.toml` whose connectors run in the same process, empty for none.
        lag_source: where lag is taken from: auto, broker, summary or batches.
        lag_timeout: seconds that a client of the proxy waits for lag that the broker did not give.
        timeout: seconds that a command, or one look of the exporter, waits for the cluster.
        workers: processes that serve clients; from 2 on they share the ports and are supervised.
        event_loop: what waits for sockets; auto is uvloop wherever it is installed.
        stop_delay: seconds from the moment when the probe says "stopping" to the moment when nobody new is let in, for
            load balancers that ask the probe.
        stop_timeout: seconds that a request in flight may then take before its connection is cut.
    """

    bootstrap_server: str = ""
    command_config: str = ""
    client_id: str = "shareproxy"
    listen: str = "127.0.0.1:19092"
    advertised_host: str = ""
    node_ports: str = "19100-19163"
    node_ids: str = ""
    node_hosts: str = ""
    advertised_port: Port = 0
    http: str = ""
    sink: str = ""
    lag_source: typing.Literal["auto", "broker", "summary", "batches"] = "auto"
    lag_timeout: Seconds = 3.0
    timeout: Seconds = 3.0
    workers: Workers = 1
    event_loop: typing.Literal["auto", "uvloop", "asyncio"] = "auto"
    stop_delay: SecondsOrNone = 0.0
    stop_timeout: SecondsOrNone = 5.0
    tls: Tls = Tls()
    exporter: Exporter = Exporter()
    limits: Limits = Limits()
    log: Log = Log()


def load_settings(
    file: str | Path | None = None,
    environment: Mapping[str, str] = types.MappingProxyType({}),
    flags: Mapping[str, object] = types.MappingProxyType({}),
) -> Settings:
    """Merge the sources of settings, the later over the earlier.

    Args:
        file: TOML file, or `None`.
        environment: variables such as `SHAREPROXY_LISTEN` or `SHAREPROXY_LIMITS_MAX_CONNECTIONS`; others with
            the prefix are left alone, as Kubernetes adds some for a service named shareproxy. An empty one counts as
            not given unless the setting is text: Compose makes one of a variable that is not set.
        flags: values by dotted key; `None` means not given.

    Raises:
        ConfigError: names the source, the key and what to write instead.
    """
    merged: dict[str, object] = {}
    known = dict(setting_keys())
    if file is not None:
        for key, value in _flatten(read_toml(Path(file)), ""):
            _require_known(key, known, f"{file}")
            merged[key] = value
            _convert({key: value}, f"{file}: {key}")
    for key in known:
        name = environment_name(key)
        value = environment.get(name)
        if value is None or (value == "" and _type_of(key) is not str):
            continue
        merged[key] = value
        _convert({key: value}, f"environment variable {name}" + ("" if key in _SECRETS else f"={value!r}"))
    for key, value in flags.items():
        _require_known(key, known, "flags")
        if value is not None:
            merged[key] = value
            _convert({key: value}, f"flag {flag_name(key)}")
    return _convert(merged, "settings")


def setting_keys() -> Iterator[tuple[str, type]]:
    """Yield each setting's dotted key and the struct it belongs to."""
    yield from _keys(Settings, "")


def environment_name(key: str) -> str:
    """Return the environment variable of a dotted key."""
    return ENVIRONMENT_PREFIX + key.replace(".", "_").upper()


def flag_name(key: str) -> str:
    """Return the command-line flag of a dotted key; those of `exporter` are flags of the command of that name."""
    return "--" + key.removeprefix("exporter.").replace(".", "-").replace("_", "-")


def _keys(struct: type[msgspec.Struct], prefix: str) -> Iterator[tuple[str, type]]:
    for field in msgspec.structs.fields(struct):
        if isinstance(field.type, type) and issubclass(field.type, msgspec.Struct):
            yield from _keys(field.type, f"{prefix}{field.name}.")
        else:
            yield prefix + field.name, struct


def read_toml(path: Path, hint: str = "") -> dict[str, object]:
    """Read a file of settings.

    Args:
        path: of the file.
        hint: what to try where it is not TOML.

    Raises:
        ConfigError: it cannot be read; says why.
    """
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise ConfigError(f"{path}: cannot be read: {error.strerror}; check its path") from None
    except UnicodeDecodeError:
        raise ConfigError(f"{path}: is not UTF-8 text; write the settings as TOML") from None
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(f"{path}: is not TOML: {error}{hint}") from None
    except (RecursionError, ValueError):  # arrays in arrays without end, or a number that Python refuses to convert
        raise ConfigError(f"{path}: holds a value that is too deep or too long; settings are short") from None


def _flatten(table: Mapping[str, object], prefix: str) -> Iterator[tuple[str, object]]:
    for key, value in table.items():
        if isinstance(value, dict):
            yield from _flatten(value, f"{prefix}{key}.")
        else:
            yield prefix + key, value


def _require_known(key: str, known: Mapping[str, type], source: str) -> None:
    if key in known:
        return
    if any(name.startswith(f"{key}.") for name in known):
        raise ConfigError(f"{source}: {key!r} is a table; write [{key}] and its keys below")
    near = difflib.get_close_matches(key.replace("-", "_"), known, n=1, cutoff=0.5)
    hint = f"did you mean {near[0]!r}?" if near else f"known keys: {', '.join(known)}"
    raise ConfigError(f"{source}: {key!r} is not a setting; {hint}")


def _convert(flat: Mapping[str, object], source: str) -> Settings:
    nested: dict[str, object] = {}
    for key, value in flat.items():
        *sections, name = key.split(".")
        table = nested
        for section in sections:
            table = typing.cast("dict[str, object]", table.setdefault(section, {}))
        table[name] = value
    try:
        # a host that is not UTF-8 could not be written into an answer
        for value in flat.values():
            str(value).encode()
        settings = msgspec.convert(nested, Settings, strict=False)
    except UnicodeEncodeError:
        raise ConfigError(f"{source}: is not UTF-8 text") from None
    except msgspec.ValidationError as error:
        key = re.sub(r"^\$\.?", "", str(error).partition(" - at ")[2].strip("`"))
        raise ConfigError(f"{source}: {_wanted(key)}") from None
    for key in ("idle_timeout", "stalled_timeout"):
        if 0 < getattr(settings.limits, key) < LEAST_SECONDS:
            raise ConfigError(f"{source}: {_wanted(f'limits.{key}')}")
    return settings


def _type_of(key: str) -> object:
    """Return the annotation of a setting, bounds included."""
    owner = dict(setting_keys())[key]
    return typing.get_type_hints(owner, include_extras=True)[key.rpartition(".")[2]]


def _wanted(key: str) -> str:
    """Return what a setting must be, in words for somebody who does not know our types."""
    annotation = _type_of(key)
    if annotation is str:
        return "must be text; in a file, in quotes"
    if annotation is bool:
        return "must be true or false"
    if typing.get_origin(annotation) is typing.Literal:
        return f"choose one of {', '.join(typing.get_args(annotation))}"
    kind, bounds = typing.get_args(annotation)
    if kind is float:
        off = f"0 for no limit, or {LEAST_SECONDS:g} to" if annotation == SecondsOrOff else f"from {bounds.ge:g} to"
        return f"must be a number of seconds, {off} {bounds.le:g}"
    most = bounds.le if bounds.lt is None else bounds.lt - 1
    return "must be a whole number " + (f"of at least {bounds.ge}" if most is None else f"from {bounds.ge} to {most}")

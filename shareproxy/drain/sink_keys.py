"""Hold the keys of `sink.toml` besides those of consumers: names, defaults, and what each may be.

In: nothing. Out: frozen structs, and the words for a value that is wrong.
Must never: know more than one table.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Annotated, Any, Final, Literal

import msgspec

Milliseconds = Annotated[int, msgspec.Meta(ge=0, le=86_400_000)]
# where none at all would spend all deliveries in no time, or leave none to close in
SomeMilliseconds = Annotated[int, msgspec.Meta(ge=1, le=86_400_000)]
Tasks = Annotated[int, msgspec.Meta(ge=1, le=1000)]
_WORDS: Final[Mapping[Any, str]] = {
    str: "must be text, in quotes",
    bool: "must be true or false",
    Milliseconds: "must be a whole number of milliseconds from 0 to 86400000",
    SomeMilliseconds: "must be a whole number of milliseconds from 1 to 86400000",
    Tasks: "must be a whole number from 1 to 1000",
}


class WorkerKeys(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The keys of `[worker]` besides `consumer.*`.

    Args:
        bootstrap_servers: brokers to ask first, `HOST:PORT[,HOST:PORT…]`.
        command_config: Java client property file that says how to log in.
        http: address of /metrics, /livez and /readyz, empty for none.
        key_converter: what makes the key of bytes, for connectors that do not say.
        value_converter: the same for the value.
        override_policy: which `consumer.override.*` keys connectors may set.
        stop_timeout_ms: how long a put that is under way may take when the worker is told to stop.
        exactly_once: Kafka cannot do it with share groups; only `false` is taken.
        log_level: how much is logged.
        log_format: how; `auto` is key–value on a terminal and JSON otherwise.
    """

    bootstrap_servers: str = msgspec.field(default="", name="bootstrap.servers")
    command_config: str = msgspec.field(default="", name="command.config")
    http: str = ""
    key_converter: str = msgspec.field(default="raw", name="key.converter")
    value_converter: str = msgspec.field(default="raw", name="value.converter")
    override_policy: Literal["All", "None", "Principal"] = msgspec.field(
        default="All", name="connector.client.config.override.policy"
    )
    stop_timeout_ms: SomeMilliseconds = msgspec.field(default=5_000, name="task.shutdown.graceful.timeout.ms")
    exactly_once: bool = False
    log_level: Literal["debug", "info", "warning", "error"] = msgspec.field(default="info", name="log.level")
    log_format: Literal["auto", "json", "text"] = msgspec.field(default="auto", name="log.format")


class ConnectorKeys(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The keys of `[connectors.NAME]` besides `consumer.override.*` and the table `sink`.

    Args:
        sink_class: a sink by its name, or `package.module:Class`.
        topics: topics by name, a list or a text with commas.
        tasks_max: tasks in this process; each is a member of the group.
        share_group_id: name of the share group.
        share_acknowledgement_mode: see `consumer.share.acknowledgement.mode`.
        key_converter: what makes the key of bytes; the worker's where it is not given.
        value_converter: the same for the value.
        tolerance: what becomes of a record that a converter cannot read: `none` rejects it, `all` skips it.
        reject_without_dlq: whether records may be rejected although no dead-letter queue keeps them.
        unknown_errors: what an exception that is neither Retriable nor Fatal means: `release` or `reject`.
        retry_ms: how long to wait before records are given back for the first time; doubled with each delivery.
        retry_max_ms: no longer than that.
        put_timeout_ms: how long one put may take, 0 for no limit.
        exactly_once: Kafka cannot do it with share groups; only `false` is taken.
    """

    sink_class: str = msgspec.field(default="", name="class")
    topics: str | list[str] = ""
    tasks_max: Tasks = msgspec.field(default=1, name="tasks.max")
    share_group_id: str | None = msgspec.field(default=None, name="share.group.id")
    share_acknowledgement_mode: str | None = msgspec.field(default=None, name="share.acknowledgement.mode")
    key_converter: str | None = msgspec.field(default=None, name="key.converter")
    value_converter: str | None = msgspec.field(default=None, name="value.converter")
    tolerance: Literal["none", "all"] = msgspec.field(default="none", name="errors.tolerance")
    reject_without_dlq: bool = msgspec.field(default=False, name="reject.without.dlq")
    unknown_errors: Literal["release", "reject"] = msgspec.field(default="release", name="unknown.errors")
    retry_ms: SomeMilliseconds = msgspec.field(default=1_000, name="retry.backoff.ms")
    retry_max_ms: Milliseconds = msgspec.field(default=60_000, name="errors.retry.delay.max.ms")
    put_timeout_ms: Milliseconds = msgspec.field(default=0, name="put.timeout.ms")
    exactly_once: bool = False


def worker_keys() -> Iterator[tuple[str, object]]:
    """Yield each key of `[worker]` with its default."""
    return _keys(WorkerKeys)


def connector_keys() -> Iterator[tuple[str, object]]:
    """Yield each key of a connector's table with its default."""
    return _keys(ConnectorKeys)


def wanted(annotation: object) -> str:
    """Return what a key must be, for somebody who does not know our types."""
    if annotation in _WORDS:
        return _WORDS[annotation]
    choices = getattr(annotation, "__args__", ())
    if str in choices:
        return 'must be a list of texts, such as ["orders"]' if list[str] in choices else "must be text, in quotes"
    return f"choose one of {', '.join(choices)}"


def _keys(kind: type[msgspec.Struct]) -> Iterator[tuple[str, object]]:
    for field in msgspec.structs.fields(kind):
        yield field.encode_name, field.default

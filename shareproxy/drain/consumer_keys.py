"""Resolve how a connector's records are consumed: which key counts, and which are refused (R1–R4).

In: the worker's `consumer.*` keys, the connector's `consumer.override.*` and `share.*` keys. Out: `ConsumeSettings`.
Must never: let a key pass that the chosen kind of group has no use for, or guess what was meant.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Mapping
from enum import StrEnum
from typing import Final, Literal

import msgspec

from shareproxy.config import ConfigError
from shareproxy.drain.consumer_settings import LONGEST_WAIT

WORKER_PREFIX: Final = "consumer."
OVERRIDE_PREFIX: Final = "consumer.override."

Value = str | int | float | bool
Place = Callable[[str], str]
"""Turns a key of the connector's resolved settings into where it was written, for an error."""


class GroupProtocol(StrEnum):
    """What kind of group a connector consumes with (KIP-1302); without a word of the user it is a consumer group."""

    SHARE = "share"
    CONSUMER = "consumer"
    CLASSIC = "classic"


class OverridePolicy(StrEnum):
    """Which consumer keys a connector may override: Connect's `connector.client.config.override.policy`."""

    ALL = "All"
    NONE = "None"
    PRINCIPAL = "Principal"


# what says who we are: the only keys that `Principal` lets through
PRINCIPAL_KEYS: Final = frozenset({"command.config"})
ACQUIRE_MODES: Final = {"batch_optimized": "batch", "record_limit": "record"}


class ConsumerKey(msgspec.Struct, frozen=True):
    """One key of a consumer, without its prefix.

    Attributes:
        kind: what its value is.
        default: where nobody gives it, as the reference shows it.
        about: what it says, for the reference.
        only: the kind of group that it is for; `None` for both.
    """

    kind: Literal["text", "count", "milliseconds", "choice"]
    default: str
    about: str
    only: Literal["share", "group"] | None = None
    choices: tuple[str, ...] = ()


CONSUMER_KEYS: Final[Mapping[str, ConsumerKey]] = {
    "group.protocol": ConsumerKey(
        "choice",
        "consumer",
        "`share` for a share group; `consumer` or `classic` for a consumer group",
        choices=tuple(GroupProtocol),
    ),
    "group.id": ConsumerKey("text", "share-NAME or connect-NAME", "name of the group; `share.group.id` goes before it"),
    "bootstrap.servers": ConsumerKey("text", "the worker's", "brokers to consume from"),
    "command.config": ConsumerKey("text", "the worker's", "Java client property file: how to log in"),
    "client.id": ConsumerKey("text", "CONNECTOR-TASK", "our name in the brokers' logs and quotas"),
    "client.rack": ConsumerKey("text", "none", "where this worker is, for the brokers"),
    "max.poll.records": ConsumerKey("count", "500", "records of one put at most"),
    "fetch.max.wait.ms": ConsumerKey("milliseconds", "500", "how long a broker waits for records"),
    "fetch.max.bytes": ConsumerKey("count", "52428800", "bytes of one fetch; a larger first batch comes all the same"),
    "request.timeout.ms": ConsumerKey("milliseconds", "30000", "how long to wait for a broker's answer"),
    "share.acknowledgement.mode": ConsumerKey(
        "choice",
        "explicit",
        "`explicit` asks for the broker's answer after each put, every 0.1 s where puts are quicker, and waits for it "
        "before it asks again; `implicit` never waits",
        "share",
        ("explicit", "implicit"),
    ),
    "share.acquire.mode": ConsumerKey(
        "choice",
        "batch_optimized",
        "`record_limit` acquires no more than max.poll.records (Kafka 4.2), at the cost of bytes",
        "share",
        tuple(ACQUIRE_MODES),
    ),
    "auto.offset.reset": ConsumerKey(
        "choice", "earliest", "where a new consumer group starts", "group", ("earliest", "latest", "none")
    ),
    "isolation.level": ConsumerKey(
        "choice",
        "read_uncommitted",
        "whether records of open and aborted transactions are read",
        "group",
        ("read_uncommitted", "read_committed"),
    ),
    "session.timeout.ms": ConsumerKey("milliseconds", "45000", "when a silent member is given up", "group"),
    "heartbeat.interval.ms": ConsumerKey("milliseconds", "3000", "how often a member tells that it lives", "group"),
    "max.poll.interval.ms": ConsumerKey("milliseconds", "300000", "how long a put may take", "group"),
    "group.instance.id": ConsumerKey("text", "none", "name of a static member; `-TASK` is added to it", "group"),
}

# R3: Java's share consumer refuses these; what to do instead is a group's or broker's matter
REFUSED_IN_SHARE: Final[Mapping[str, str]] = {
    "auto.offset.reset": "set the group config share.auto.offset.reset",
    "isolation.level": "set the group config share.isolation.level",
    "session.timeout.ms": "set the group config share.session.timeout.ms",
    "heartbeat.interval.ms": "set the group config share.heartbeat.interval.ms",
    "max.poll.interval.ms": "the lock is what limits a put: set the group config share.record.lock.duration.ms",
    "enable.auto.commit": "there are no offsets to commit: leave it out, share.acknowledgement.mode is what is near it",
    "group.instance.id": "share groups have no static members: leave it out",
    "partition.assignment.strategy": "the brokers assign (group.share.assignors): leave it out",
    "interceptor.classes": "there are no interceptors: leave it out",
}
REFUSED_IN_GROUP: Final[Mapping[str, str]] = {
    "enable.auto.commit": "offsets are committed when the sink has the records, always: leave it out",
    "partition.assignment.strategy": "it cannot be chosen: leave it out",
    "interceptor.classes": "there are no interceptors: leave it out",
}
# of the group on the brokers, not of a client: `kafka-configs.sh --entity-type groups` sets them
GROUP_CONFIGS: Final = (
    "share.auto.offset.reset",
    "share.isolation.level",
    "share.record.lock.duration.ms",
    "share.session.timeout.ms",
    "share.heartbeat.interval.ms",
    "share.delivery.count.limit",
    "share.partition.max.record.locks",
    "share.renew.acknowledge.enable",
    "share.assignment.interval.ms",
    "errors.deadletterqueue.topic.name",
    "errors.deadletterqueue.copy.record.enable",
)
# KIP-1302 speaks of it; Kafka never had it
LOCK_TIMEOUT: Final = "share.acquisition.lock.timeout.ms"


class ConsumeSettings(msgspec.Struct, frozen=True, kw_only=True):
    """How one connector consumes.

    Attributes:
        client_id: `None` where nobody chose one.
        acknowledgement: of a share group: whether each put waits for the broker's answer.
        acquire_mode: of a share group: `batch` or `record`.
        max_wait: seconds.
        request_timeout: seconds.
        group_keys: of a consumer group: the keys that only it has, as they were given.
    """

    protocol: GroupProtocol
    group: str
    bootstrap_servers: str
    command_config: str = ""
    client_id: str | None = None
    client_rack: str | None = None
    max_records: int = 500
    max_wait: float = 0.5
    max_bytes: int = 52_428_800
    request_timeout: float = 30.0
    acknowledgement: Literal["explicit", "implicit"] = "explicit"
    acquire_mode: Literal["batch", "record"] = "batch"
    group_keys: Mapping[str, str | int] = {}

    @property
    def share_group(self) -> bool:
        """Whether it is a share group; else a consumer group."""
        return self.protocol is GroupProtocol.SHARE


def belongs_to_group(key: str) -> str | None:
    """Return why a key is not one of a connector, if it is a config of the group on the brokers."""
    bare = key.removeprefix(OVERRIDE_PREFIX).removeprefix(WORKER_PREFIX)
    if bare == LOCK_TIMEOUT:
        return (
            "Kafka has no such key; set the group config share.record.lock.duration.ms: "
            "kafka-configs.sh --entity-type groups --entity-name GROUP --alter --add-config …"
        )
    if bare in GROUP_CONFIGS:
        return (
            f"is a config of the group, kept by the brokers; set it there: kafka-configs.sh --entity-type groups "
            f"--entity-name GROUP --alter --add-config {bare}=…"
        )
    return None


def resolve(
    name: str,
    worker: Mapping[str, Value],
    override: Mapping[str, Value],
    share: Mapping[str, Value],
    *,
    policy: OverridePolicy,
    bootstrap_servers: str,
    command_config: str,
    place: Callable[[str, str], str],
) -> ConsumeSettings:
    """Return how a connector consumes: worker `consumer.*` < `consumer.override.*` < `share.*` (KIP-1302, R1).

    Args:
        name: the connector's.
        worker: the worker's `consumer.*` keys, without that prefix.
        override: the connector's `consumer.override.*` keys, without that prefix.
        share: `share.group.id` and `share.acknowledgement.mode` of the connector.
        policy: which keys may be overridden.
        bootstrap_servers: the worker's.
        command_config: the worker's.
        place: turns (`worker`, `override` or `share`, key) into where the key was written.

    Raises:
        ConfigError: names the place of the key and what to write instead.
    """
    _check_policy(override, policy, place)
    merged: dict[str, Value] = {}
    source: dict[str, str] = {}
    for origin, keys in (("worker", worker), ("override", override)):
        for key, value in keys.items():
            merged[key] = value
            source[key] = place(origin, key)
    protocol = GroupProtocol.CONSUMER
    if "group.protocol" in merged:
        protocol = GroupProtocol(_choice("group.protocol", merged.pop("group.protocol"), source["group.protocol"]))
    in_share = protocol is GroupProtocol.SHARE
    for key, value in share.items():
        where = place("share", key)
        if not in_share:
            raise ConfigError(
                f"{where}: is for share groups, and this connector consumes with a consumer group; "
                f'write "{OVERRIDE_PREFIX}group.protocol" = "share", or leave it out'
            )
        bare = "group.id" if key == "share.group.id" else key
        merged[bare], source[bare] = value, where
    for key in merged:
        _check_known(key, source[key], in_share)
    values = {key: _value(key, value, source[key]) for key, value in merged.items()}
    return _settings(name, protocol, values, source, bootstrap_servers, command_config)


def _settings(
    name: str,
    protocol: GroupProtocol,
    values: Mapping[str, str | int],
    source: Mapping[str, str],
    bootstrap_servers: str,
    command_config: str,
) -> ConsumeSettings:
    in_share = protocol is GroupProtocol.SHARE
    # Connect's own name would be that of the consumer group before: it blocks a share group for good (R6)
    group = str(values.get("group.id", f"{'share' if in_share else 'connect'}-{name}"))
    if not group.strip():
        raise ConfigError(f'{source["group.id"]}: is empty; name the group, such as "{name}-workers"')

    def text(key: str) -> str | None:
        return str(values[key]) if key in values else None

    def number(key: str, default: int) -> int:
        return int(values.get(key, default))

    max_wait = number("fetch.max.wait.ms", 500)
    if in_share and max_wait > LONGEST_WAIT * 1000:
        raise ConfigError(
            f"{source['fetch.max.wait.ms']}: with a share group choose {LONGEST_WAIT * 1000:.0f} at most: results of "
            "acknowledgements may wait as long"
        )
    acknowledgement: Literal["explicit", "implicit"] = "explicit"
    if values.get("share.acknowledgement.mode") == "implicit":
        acknowledgement = "implicit"
    acquire: Literal["batch", "record"] = "batch"
    if values.get("share.acquire.mode") == "record_limit":
        acquire = "record"
    return ConsumeSettings(
        protocol=protocol,
        group=group,
        bootstrap_servers=text("bootstrap.servers") or bootstrap_servers,
        command_config=text("command.config") or command_config,
        client_id=text("client.id"),
        client_rack=text("client.rack"),
        max_records=number("max.poll.records", 500),
        max_wait=max_wait / 1000,
        max_bytes=number("fetch.max.bytes", 52_428_800),
        request_timeout=number("request.timeout.ms", 30_000) / 1000,
        acknowledgement=acknowledgement,
        acquire_mode=acquire,
        group_keys={key: value for key, value in values.items() if CONSUMER_KEYS[key].only == "group"},
    )


def _check_policy(override: Mapping[str, Value], policy: OverridePolicy, place: Callable[[str, str], str]) -> None:
    if policy is OverridePolicy.ALL:
        return
    for key in override:
        if policy is OverridePolicy.NONE or key not in PRINCIPAL_KEYS:
            raise ConfigError(
                f'{place("override", key)}: the worker\'s "connector.client.config.override.policy" is '
                f"{policy.value}, which forbids it; leave the key out, or set the policy to All"
            )


def _check_known(key: str, where: str, in_share: bool) -> None:
    refused = (REFUSED_IN_SHARE if in_share else REFUSED_IN_GROUP).get(key)
    if refused is not None:
        kind = "a share group" if in_share else "a sink's consumer group"
        raise ConfigError(f"{where}: {kind} has no use for it; {refused}")
    known = CONSUMER_KEYS.get(key)
    if known is None:
        near = difflib.get_close_matches(key, CONSUMER_KEYS, n=1, cutoff=0.6)
        hint = f'did you mean "{near[0]}"?' if near else f"known are {', '.join(CONSUMER_KEYS)}"
        raise ConfigError(f"{where}: no consumer has such a key; {hint}")
    if known.only == "share" and not in_share:
        raise ConfigError(
            f"{where}: is for share groups, and this connector consumes with a consumer group; leave it out"
        )


def _value(key: str, value: Value, where: str) -> str | int:
    known = CONSUMER_KEYS[key]
    if known.kind == "choice":
        return _choice(key, value, where)
    if known.kind == "text":
        if not isinstance(value, str):
            raise ConfigError(f"{where}: must be text, in quotes")
        return value
    # Java's files have everything as text, so do people who copy from them
    text = str(value)
    if isinstance(value, bool | float) or not (text.isascii() and text.isdecimal() and 0 < int(text) < 2**31):
        what = "records" if key == "max.poll.records" else "bytes" if known.kind == "count" else "milliseconds"
        raise ConfigError(f"{where}: must be a whole number of {what} above 0, such as {known.default}")
    return int(text)


def _choice(key: str, value: Value, where: str) -> str:
    choices = CONSUMER_KEYS[key].choices
    if isinstance(value, str) and value.lower() in choices:
        return value.lower()
    raise ConfigError(f"{where}: choose one of {', '.join(choices)}, not {value!r}")

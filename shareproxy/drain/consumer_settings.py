"""Check what the caller of a share consumer gave, before anything is sent.

In: arguments as a person wrote them. Out: the same in one shape, or one sentence on what to write instead.
Must never: ask anyone, or guess what was meant.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping, Sequence
from enum import StrEnum
from typing import Any, Final

import msgspec

from shareproxy.admin import arguments
from shareproxy.admin.errors import WrongArgument
from shareproxy.cluster.addresses import Address
from shareproxy.cluster.security import Security
from shareproxy.drain.model import AcquireMode
from shareproxy.protocol.ids import GroupId

Deserializer = Callable[[bytes], Any]

# what Kafka takes for a topic's name
_TOPIC: Final = re.compile(r"[a-zA-Z0-9._-]{1,249}")
# signs of a regular expression or a glob
_PATTERN: Final = re.compile(r"[*^$+?|()\[\]{}\\]")
# the wire counts them in 32 bits
MOST: Final = 2**31 - 1
# beyond this a broker would hold a fetch for so long that acknowledgements behind it wait; see drain.md §0.4
LONGEST_WAIT: Final = 30.0

_GROUP_CONFIG: Final = (
    "it is a setting of the group on the brokers: set {key} with kafka-configs.sh --entity-type groups --entity-name "
    "GROUP --alter --add-config {key}=…"
)
# arguments that other clients have, and what takes their place here
_ELSEWHERE: Final[Mapping[str, str]] = {
    "auto_offset_reset": _GROUP_CONFIG.format(key="share.auto.offset.reset"),
    "isolation_level": _GROUP_CONFIG.format(key="share.isolation.level"),
    "session_timeout": _GROUP_CONFIG.format(key="share.session.timeout.ms"),
    "heartbeat_interval": _GROUP_CONFIG.format(key="share.heartbeat.interval.ms"),
    "record_lock_duration": _GROUP_CONFIG.format(key="share.record.lock.duration.ms"),
    "lock_duration": _GROUP_CONFIG.format(key="share.record.lock.duration.ms"),
    "lock_timeout": _GROUP_CONFIG.format(key="share.record.lock.duration.ms"),
    "acquisition_lock_timeout": _GROUP_CONFIG.format(key="share.record.lock.duration.ms"),
    "lock": _GROUP_CONFIG.format(key="share.record.lock.duration.ms"),
    "delivery_count_limit": _GROUP_CONFIG.format(key="share.delivery.count.limit"),
    "partition_max_record_locks": _GROUP_CONFIG.format(key="share.partition.max.record.locks"),
    "renew_acknowledge_enable": _GROUP_CONFIG.format(key="share.renew.acknowledge.enable"),
    "errors_deadletterqueue_topic_name": _GROUP_CONFIG.format(key="errors.deadletterqueue.topic.name"),
    "enable_auto_commit": 'share groups commit no offsets; write acknowledgement="implicit" to accept by itself',
    "group_protocol": "a share consumer has no other protocol than the share group's; leave it out",
    "group_instance_id": "share groups have no static members; leave it out",
    "partition_assignment_strategy": "the group's coordinator assigns partitions; leave it out",
    "interceptor_classes": "there are no interceptors; leave it out",
    "group_id": "write group=…",
    "max_poll_records": "write max_records=…",
    "fetch_max_wait": "write max_wait=… in seconds",
    "fetch_max_bytes": "write max_bytes=…",
    "client_id_prefix": "write client_id=…",
    "acknowledgement_mode": 'write acknowledgement="explicit" or "implicit"',
    "acquire_timeout": "write timeout=… with get_batch",
}
_PREFIX: Final = re.compile(r"^(share_|consumer_)+")
_SUFFIX: Final = re.compile(r"_(ms|seconds|s)$")


class Acknowledging(StrEnum):
    """Who acknowledges records: the caller each, or the next fetch all of the batch before."""

    EXPLICIT = "explicit"
    IMPLICIT = "implicit"


class ShareConsumerSettings(msgspec.Struct, frozen=True, kw_only=True):
    """What a share consumer was asked for; see `ShareConsumer`."""

    bootstrap_servers: tuple[Address, ...]
    security: Security
    notes: tuple[str, ...]
    client_id: str
    group: GroupId
    topics: tuple[str, ...]
    max_records: int
    acquire_mode: AcquireMode
    max_wait: float
    max_bytes: int
    capacity: int
    prefetch: bool
    acknowledging: Acknowledging
    renew: bool
    client_rack: str | None
    request_timeout: float
    close_timeout: float


def check_settings(
    bootstrap_servers: str | Sequence[str],
    group: str,
    topics: Sequence[str],
    *,
    security: Security | None,
    command_config: str | os.PathLike[str] | None,
    max_records: int,
    acquire_mode: AcquireMode | str,
    max_wait: float,
    max_bytes: int,
    capacity: int,
    prefetch: bool,
    acknowledgement: str,
    renew: bool,
    client_id: str,
    client_rack: str | None,
    request_timeout: float,
    close_timeout: float,
) -> ShareConsumerSettings:
    """Return the settings of a share consumer.

    Raises:
        WrongArgument: one cannot be used; the sentence names it.
    """
    way = arguments.connection(command_config, security, client_id)
    max_records = whole("max_records", max_records)
    capacity = whole("capacity", capacity)
    if capacity < max_records:
        raise WrongArgument(f"capacity: {capacity} records are fewer than one batch (max_records={max_records})")
    return ShareConsumerSettings(
        bootstrap_servers=arguments.addresses(bootstrap_servers),
        security=way.security,
        notes=way.notes,
        client_id=way.client_id,
        group=arguments.group_name(group),
        topics=topic_names(topics),
        max_records=max_records,
        acquire_mode=_acquire_mode(acquire_mode),
        max_wait=_wait(max_wait),
        max_bytes=whole("max_bytes", max_bytes),
        capacity=capacity,
        prefetch=prefetch,
        acknowledging=_acknowledging(acknowledgement),
        renew=renew,
        client_rack=client_rack,
        request_timeout=float(arguments.seconds(request_timeout, "request_timeout")),
        close_timeout=float(arguments.seconds(close_timeout, "close_timeout")),
    )


def topic_names(topics: object) -> tuple[str, ...]:
    """Return topics by name; a single one may be given as it is.

    Raises:
        WrongArgument: none is named, or what is given is a pattern or cannot be a topic's name.
    """
    given: Any = (topics,) if isinstance(topics, str | re.Pattern) else topics
    try:
        each: tuple[Any, ...] = tuple(dict.fromkeys(given))
    except TypeError:
        raise WrongArgument(f"topics: {topics!r} are not names of topics; write ['orders']") from None
    if not each:
        raise WrongArgument("topics: none is named; write ['orders']")
    for topic in each:
        is_pattern = isinstance(topic, re.Pattern)
        shown = topic.pattern if is_pattern else topic
        if is_pattern or (isinstance(topic, str) and _PATTERN.search(topic)):
            raise WrongArgument(
                f"topics: {shown!r} is a pattern, and share groups have none; name each topic (KIP-932)"
            )
        if not isinstance(topic, str) or not _TOPIC.fullmatch(topic) or topic in (".", ".."):
            raise WrongArgument(
                f"topics: {topic!r} is not the name of a topic: up to 249 letters, digits, dots, underscores, dashes"
            )
    return each


def refuse_unknown(names: Sequence[str]) -> None:
    """Say where arguments belong that a share consumer does not have.

    Raises:
        WrongArgument: it is a setting of the group, or has another name here.
        TypeError: nobody has such an argument.
    """
    for name in names:
        plain = _SUFFIX.sub("", _PREFIX.sub("", name.replace(".", "_")))
        advice = _ELSEWHERE.get(plain)
        if advice is None:
            raise TypeError(f"ShareConsumer() got an unexpected keyword argument {name!r}")
        raise WrongArgument(f"{name}: {advice}")


def whole(name: str, given: object) -> int:
    """Return a whole number above 0.

    Raises:
        WrongArgument: it is none, or too great for the wire.
    """
    if not isinstance(given, int) or isinstance(given, bool) or not 0 < given <= MOST:
        raise WrongArgument(f"{name}: {given!r} is not a whole number from 1 to {MOST}")
    return given


def _wait(given: object) -> float:
    if not isinstance(given, int | float) or isinstance(given, bool) or not 0 <= given <= LONGEST_WAIT:
        raise WrongArgument(f"max_wait: {given!r} is not a number of seconds from 0 to {LONGEST_WAIT:.0f}")
    return float(given)


def _acquire_mode(given: object) -> AcquireMode:
    if isinstance(given, AcquireMode):
        return given
    by_name = {mode.name.lower(): mode for mode in AcquireMode}
    mode = by_name.get(given.lower()) if isinstance(given, str) else None
    if mode is None:
        raise WrongArgument(f"acquire_mode: {given!r} is none of {', '.join(by_name)}")
    return mode


def _acknowledging(given: object) -> Acknowledging:
    try:
        return Acknowledging(given)  # type: ignore[arg-type]
    except ValueError:
        raise WrongArgument(f'acknowledgement: {given!r} is neither "explicit" nor "implicit"') from None

"""What each Kafka release advertises and does differently, as data.

In: a release such as "4.2.1". Out: its API versions, features, group configurations and quirks.
Must never: hold a rule that was not seen on a real broker of that release or read in its source.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

import msgspec

Range = tuple[int, int]

# asked of real brokers; 4.1.2 whole, the others as what changed since the release before
_APIS_4_1: Final[Mapping[int, Range]] = {
    0: (0, 13), 1: (4, 18), 2: (1, 10), 3: (0, 13), 8: (2, 9), 9: (1, 9), 10: (0, 6), 11: (0, 9), 12: (0, 4),
    13: (0, 5), 14: (0, 5), 15: (0, 6), 16: (0, 5), 17: (0, 1), 18: (0, 4), 19: (2, 7), 20: (1, 6), 21: (0, 2),
    22: (0, 5), 23: (2, 4), 24: (0, 5), 25: (0, 4), 26: (0, 5), 27: (1, 1), 28: (0, 5), 29: (1, 3), 30: (1, 3),
    31: (1, 3), 32: (1, 4), 33: (0, 2), 34: (1, 2), 35: (1, 4), 36: (0, 2), 37: (0, 3), 38: (1, 3), 39: (1, 2),
    40: (1, 2), 41: (1, 3), 42: (0, 2), 43: (0, 2), 44: (0, 1), 45: (0, 1), 46: (0, 0), 47: (0, 0), 48: (0, 1),
    49: (0, 1), 50: (0, 0), 51: (0, 0), 55: (0, 2), 57: (0, 2), 60: (0, 2), 61: (0, 0), 64: (0, 0), 65: (0, 0),
    66: (0, 2), 68: (0, 1), 69: (0, 1), 74: (0, 1), 75: (0, 0), 76: (1, 1), 77: (1, 1), 78: (1, 1), 79: (1, 1),
    80: (0, 0), 81: (0, 0), 83: (0, 0), 84: (0, 0), 85: (0, 0), 86: (0, 0), 87: (0, 0), 90: (0, 0), 91: (0, 0),
    92: (0, 0),
}  # fmt: skip
_APIS_4_2: Final = {
    **_APIS_4_1,
    2: (1, 11),
    8: (2, 10),
    9: (1, 10),
    27: (1, 2),
    78: (1, 2),
    79: (1, 2),
    80: (0, 1),
    85: (0, 1),
    87: (0, 1),
    88: (0, 0),
    89: (0, 0),
    90: (0, 1),
}
_APIS_4_3: Final = {**_APIS_4_2, 35: (1, 5)}
_APIS_4_4: Final = {**_APIS_4_3, 18: (0, 5), 28: (0, 6), 42: (0, 3), 88: (0, 1), 89: (0, 1), 93: (0, 0), 94: (0, 0)}

# Kafka's codes for where a configuration's value comes from, and for its type
DEFAULT_CONFIG: Final = 5
GROUP_CONFIG: Final = 8
BOOLEAN, STRING, INT = 1, 2, 3


class ConfigDefault(msgspec.Struct, frozen=True):
    """A group configuration: its value where nobody set one, its type, and the broker's name of the default."""

    value: str
    config_type: int
    synonym: str


def _configs(*rows: tuple[str, str, int], broker_names: bool) -> Mapping[str, ConfigDefault]:
    own = {"share.auto.offset.reset", "share.isolation.level", "share.renew.acknowledge.enable"}
    return {
        name: ConfigDefault(
            value,
            config_type,
            f"group.{name}" if broker_names and name not in own and not name.startswith("errors.") else name,
        )
        for name, value, config_type in rows
    }


_SHARE_4_1: Final = (
    ("share.auto.offset.reset", "latest", STRING),
    ("share.heartbeat.interval.ms", "5000", INT),
    ("share.isolation.level", "read_uncommitted", STRING),
    ("share.record.lock.duration.ms", "30000", INT),
    ("share.session.timeout.ms", "45000", INT),
    ("consumer.heartbeat.interval.ms", "5000", INT),
    ("consumer.session.timeout.ms", "45000", INT),
    ("streams.heartbeat.interval.ms", "5000", INT),
    ("streams.num.standby.replicas", "0", INT),
    ("streams.session.timeout.ms", "45000", INT),
)
_SHARE_4_2: Final = (*_SHARE_4_1, ("streams.initial.rebalance.delay.ms", "3000", INT))
_SHARE_4_3: Final = (
    *_SHARE_4_2,
    ("share.assignment.interval.ms", "1000", INT),
    ("share.delivery.count.limit", "5", INT),
    ("share.partition.max.record.locks", "2000", INT),
    ("share.renew.acknowledge.enable", "true", BOOLEAN),
    ("consumer.assignment.interval.ms", "1000", INT),
    ("streams.assignment.interval.ms", "1000", INT),
)
_SHARE_4_4: Final = (
    *_SHARE_4_3,
    ("errors.deadletterqueue.copy.record.enable", "false", BOOLEAN),
    ("errors.deadletterqueue.topic.name", "", STRING),
    ("streams.assignor.name", "sticky", STRING),
    ("streams.rack.aware.assignment.tags", "", 7),
)


class Release(msgspec.Struct, frozen=True):
    """One Kafka release.

    Attributes:
        apis: API key → first and last version advertised.
        features: name → first and last level supported; `finalized` name → level.
        group_configs: name → default.
        counts_deliveries: leaders and share coordinators keep the delivery-complete count (KAFKA-19797; 4.2).
        alters: AlterShareGroupOffsets works; else it answers error 0 with no rows (4.1).
        alter_counts: it stores a delivery-complete count of 0 (KAFKA-20034; 4.2.1).
        colon_in_group: FindCoordinator takes group ids with a colon (KAFKA-20183; 4.2.1).
        fences_no_epoch: reading state with leader epoch −1 gives error 74 (KAFKA-20694 left 4.3.0 without).
        refuses_negative_epoch: it gives error 42 (KAFKA-20743; 4.4).
        added_start: start offset of a partition that was added to a topic the group knows (KAFKA-20742; 4.4).
        unknown_first: unknown topics stand before the known ones in the answer to API 90 (4.1).
        isolates_poison: records that were delivered often are handed out in smaller numbers (4.2).
        leaving_counts: what a member held when it left counts as delivered (4.2).
        assigns_nothing: a group whose last member left gets an assignment once more, an empty one (4.4).
        waits_for_no_partition: a partition index past the end is looked for until the retries are used up (4.2).
        release_wakes: released records wake fetches that wait; their first answer is an empty row (4.1).
        old_connection_ends_session: also one that its member has opened again on another connection (4.1).
        limits_member_id: a member id has at most 36 characters (4.2); before, share sessions take only those that are
            a UUID in base64, and answer −1 to others.
        unknown_topic_fails: a fetch that adds an unknown topic id, or whose session has a topic that was deleted, gets
            the error −1 as a whole, and counts as one of its session (4.1).
        explains_in_fetch: errors of acknowledgements that a fetch carries have a text (4.2).
        answers_no_fetch: a fetch of no records that carries acknowledgements is answered at once (4.2).
    """

    name: str
    apis: Mapping[int, Range]
    features: Mapping[str, Range]
    finalized: Mapping[str, int]
    group_configs: Mapping[str, ConfigDefault]
    counts_deliveries: bool = True
    alters: bool = True
    alter_counts: bool = True
    colon_in_group: bool = True
    fences_no_epoch: bool = True
    refuses_negative_epoch: bool = False
    added_start: int = -1
    unknown_first: bool = False
    isolates_poison: bool = True
    leaving_counts: bool = True
    assigns_nothing: bool = True
    waits_for_no_partition: bool = True
    release_wakes: bool = False
    old_connection_ends_session: bool = False
    limits_member_id: bool = True
    answers_no_fetch: bool = True
    unknown_topic_fails: bool = False
    explains_in_fetch: bool = True


def _features(metadata: int, share: int) -> Mapping[str, Range]:
    return {
        "group.version": (0, 1),
        "kraft.version": (0, 1),
        "metadata.version": (7, metadata),
        "share.version": (0, share),
        **({} if metadata < 29 else {"streams.version": (0, 1)}),
        "transaction.version": (0, 2),
        "eligible.leader.replicas.version": (0, 1),
    }


def _finalized(features: Mapping[str, Range]) -> Mapping[str, int]:
    return {name: highest for name, (_, highest) in features.items() if name != "kraft.version"}


def release(name: str) -> Release:
    """Return what a Kafka release does.

    Args:
        name: "4.1.2", "4.2.0", "4.3.1", "4.4.0" and the releases between them.

    Raises:
        ValueError: not a release that can be simulated.
    """
    match = re.fullmatch(r"4\.([1-4])\.(\d+)", name)
    if match is None:
        raise ValueError(f"{name!r} cannot be simulated; take a Kafka release from 4.1.0 to 4.4, such as 4.4.0")
    minor, patch = int(match[1]), int(match[2])
    number = (minor, patch)
    apis = {1: _APIS_4_1, 2: _APIS_4_2, 3: _APIS_4_3, 4: _APIS_4_4}[minor]
    features = _features({1: 27, 2: 29, 3: 30, 4: 33}[minor], 2 if minor == 4 else 1)
    configs = {1: _SHARE_4_1, 2: _SHARE_4_2, 3: _SHARE_4_3, 4: _SHARE_4_4}[minor]
    return Release(
        name,
        apis,
        features,
        _finalized(features),
        _configs(*configs, broker_names=minor >= 3),
        counts_deliveries=minor >= 2,
        alters=minor >= 2,
        alter_counts=number >= (2, 1),
        colon_in_group=number >= (2, 1),
        fences_no_epoch=number != (3, 1),
        refuses_negative_epoch=minor >= 4,
        added_start=0 if minor >= 4 else -1,
        unknown_first=minor == 1,
        isolates_poison=minor >= 2,
        leaving_counts=minor >= 2,
        assigns_nothing=minor >= 4,
        waits_for_no_partition=minor >= 2,
        release_wakes=minor == 1,
        old_connection_ends_session=minor == 1,
        limits_member_id=minor >= 2,
        answers_no_fetch=minor >= 2,
        unknown_topic_fails=minor == 1,
        explains_in_fetch=minor >= 2,
    )

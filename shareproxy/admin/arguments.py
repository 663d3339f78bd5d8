"""Check what a caller gave, before anything is sent.

In: names, selections, offsets, addresses. Out: the same in one shape. Must never: ask anyone.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from typing import Final

from shareproxy.admin.errors import WrongArgument
from shareproxy.admin.targets import Earliest, Latest, Selection, Shift, Target, ToOffset, ToTime
from shareproxy.cluster.addresses import Address, parse_addresses
from shareproxy.cluster.errors import PropertiesError
from shareproxy.cluster.own_connection import OwnConnection, connection_from_file
from shareproxy.cluster.security import Security
from shareproxy.lag.model import SourceChoice
from shareproxy.protocol.ids import GroupId

# the greatest offset that the wire can carry
MOST: Final = 2**63 - 1
# bytes of a name that the wire can carry
LONGEST_NAME: Final = 2**15 - 1
# characters of a wrong name that an error repeats
MOST_SHOWN: Final = 100


def addresses(bootstrap_servers: str | Sequence[str]) -> tuple[Address, ...]:
    """Return the brokers to ask first.

    Raises:
        WrongArgument: an address is not `HOST:PORT`.
    """
    text = bootstrap_servers if isinstance(bootstrap_servers, str) else ",".join(bootstrap_servers)
    try:
        return parse_addresses(text)
    except ValueError as error:
        raise WrongArgument(f"bootstrap_servers: {error}") from None


def connection(
    command_config: str | os.PathLike[str] | None, security: Security | None, client_id: str
) -> OwnConnection:
    """Return how connections are made.

    Raises:
        WrongArgument: both ways to say it were used, or the file cannot be.
    """
    if security is not None:
        if command_config:
            raise WrongArgument("give command_config or security, not both: each says how connections are secured")
        return OwnConnection(security, client_id)
    try:
        return connection_from_file(command_config, client_id)
    except PropertiesError as error:
        raise WrongArgument(f"command_config: {error}") from error


def source(choice: SourceChoice | str) -> SourceChoice:
    """Return where lag may be taken from."""
    try:
        return SourceChoice(choice)
    except ValueError:
        words = ", ".join(choice.value for choice in SourceChoice)
        raise WrongArgument(f"lag_source: {choice!r} is none of {words}") from None


def seconds(timeout: float, name: str = "timeout") -> float:
    """Return a number of seconds above 0."""
    if not _is_seconds(timeout):
        raise WrongArgument(f"{name}: {timeout!r} is not a number of seconds above 0")
    return timeout


def names(what: str, given: str | Collection[str]) -> tuple[str, ...]:
    """Return names without doubles; a single one may be given as it is."""
    found = (given,) if isinstance(given, str) else tuple(dict.fromkeys(given))
    for name in found:
        if not _is_name(name):
            raise WrongArgument(f"{what}: {_shown(name)} is not a name")
    return found


def some_names(what: str, given: str | Collection[str]) -> tuple[str, ...]:
    """Return names without doubles, at least one."""
    found = names(what, given)
    if not found:
        raise WrongArgument(f"{what}: none is named")
    return found


def group_name(group: str) -> GroupId:
    """Return the name of one group."""
    if not _is_name(group):
        raise WrongArgument(f"group: {_shown(group)} is not the name of a group")
    return GroupId(group)


def selection(topics: str | Selection | None) -> dict[str, frozenset[int] | None] | None:
    """Return the partitions that are meant, by topic; `None` are all, of a topic or at all."""
    if topics is None:
        return None
    if not isinstance(topics, Mapping):
        topics = dict.fromkeys(names("topics", topics))
    if not topics:
        raise WrongArgument("topics: none is named; leave it out for all topics of the group")
    names("topics", topics)
    chosen: dict[str, frozenset[int] | None] = {}
    for topic, partitions in topics.items():
        if partitions is not None and not partitions:
            raise WrongArgument(f"topics: no partition of {topic!r} is named; use None for all of them")
        for partition in partitions or ():
            if not _is_offset(partition):
                raise WrongArgument(f"topics: {partition!r} is not a partition of {topic!r}; they count from 0")
        chosen[topic] = None if partitions is None else frozenset(partitions)
    return chosen


def target(given: Target) -> Target:
    """Return the target, whose numbers make sense."""
    match given:
        case ToOffset(offset) if not _is_offset(offset):
            raise WrongArgument(f"target: {offset!r} is not an offset; they count from 0")
        case Shift(by) if not _is_whole(by):
            raise WrongArgument(f"target: {by!r} is not a number of offsets")
        case ToTime(time) if not _has_zone(time):
            raise WrongArgument(
                f"target: {time!r} has no time zone; write datetime(…, tzinfo=UTC), or call .astimezone() on it"
            )
        case Earliest() | Latest() | ToOffset() | Shift() | ToTime():
            return given
    raise WrongArgument(f"target: {given!r} is none of Earliest, Latest, ToOffset, ToTime, Shift")


def offsets(given: Mapping[tuple[str, int], int]) -> dict[tuple[str, int], int]:
    """Return new offsets by topic and partition."""
    if not given:
        raise WrongArgument("offsets: none is given; write {('topic', 0): 42}")
    checked: dict[tuple[str, int], int] = {}
    for key, offset in given.items():
        if not _is_partition(key):
            raise WrongArgument(f"offsets: {key!r} is not a topic and a partition; write ('topic', 0)")
        if not _is_offset(offset):
            raise WrongArgument(f"offsets: {offset!r} is not an offset for {key[0]}-{key[1]}; they count from 0")
        checked[key] = offset
    selection({topic: [partition for name, partition in checked if name == topic] for topic, _ in checked})
    return checked


# callers without a type checker give anything


def _is_name(given: object) -> bool:
    if not isinstance(given, str):
        return False
    try:
        return 0 < len(given.encode()) <= LONGEST_NAME
    except UnicodeEncodeError:
        return False


def _shown(name: object) -> str:
    text = repr(name)
    return text if len(text) <= MOST_SHOWN else f"{text[:MOST_SHOWN]}… ({len(text)} characters)"


def _is_seconds(given: object) -> bool:
    return isinstance(given, int | float) and not isinstance(given, bool) and 0 < given < float("inf")


def _is_whole(given: object) -> bool:
    return isinstance(given, int) and not isinstance(given, bool)


def _is_offset(given: object) -> bool:
    return isinstance(given, int) and not isinstance(given, bool) and 0 <= given <= MOST


def _is_partition(given: object) -> bool:
    return isinstance(given, tuple) and len(given) == 2 and _is_name(given[0]) and _is_offset(given[1])


def _has_zone(given: object) -> bool:
    return isinstance(given, datetime) and given.tzinfo is not None

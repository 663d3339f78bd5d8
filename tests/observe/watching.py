"""Engines and directories whose answers a test writes down."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Collection, Mapping, Sequence
from contextlib import asynccontextmanager
from datetime import UTC, datetime

import msgspec
from prometheus_client.parser import text_string_to_metric_families

from shareproxy.cluster.errors import ClusterError
from shareproxy.lag.descriptions import GroupDescription, Member
from shareproxy.lag.model import GroupError, GroupLag, LagReport, PartitionLag, Source, Status
from shareproxy.observe.collector import CollectorSettings
from shareproxy.observe.exporter import Exporter
from shareproxy.observe.exposition import Format
from shareproxy.protocol.ids import GroupId, NodeId, TopicId

TOPIC_ID = TopicId(bytes(range(1, 17)))


def row(topic: str = "t", partition: int = 0, lag: int | None = 7, **more: object) -> PartitionLag:
    """Return a partition with 11 offsets from 0 on, of which `lag` are not complete; without a lag it is unknown."""
    known: dict[str, object] = {"start_offset": 0, "end_offset": 11, "delivery_complete_count": 11 - (lag or 0)}
    known |= {"source": Source.BROKER, "exact": True}
    unknown: dict[str, object] = {"status": Status.NO_START_OFFSET}
    fields = (unknown if lag is None else known) | more
    return PartitionLag(topic, fields.pop("topic_id", TOPIC_ID), partition, lag=lag, **fields)  # type: ignore[arg-type]


def member(*topics: str) -> Member:
    """Return a member that subscribes to topics."""
    return Member("id", "client", "/127.0.0.1", None, 1, topics, ())


class Watched:
    """An engine and a directory in one; groups, errors and descriptions are set by the test."""

    def __init__(self) -> None:
        self.lags: dict[str, GroupLag] = {}
        self.members: dict[str, tuple[Member, ...]] = {}
        self.described: dict[str, GroupDescription] = {}
        self.problems: list[str] = []
        self.unlisted: set[str] = set()
        self.extra: list[GroupLag] = []
        self.failure: Exception | None = None
        self.describe_failure: ClusterError | None = None
        self.asked: list[tuple[str, ...]] = []

    def put(
        self,
        group: str,
        *rows: PartitionLag,
        state: str | None = "Stable",
        error: GroupError | None = None,
        members: Sequence[Member] = (),
    ) -> None:
        """Set what is found of a group from the next look on."""
        self.lags[group] = GroupLag(GroupId(group), state, error, rows)
        self.members[group] = tuple(members)

    async def groups(self, deadline: float) -> tuple[Sequence[GroupId], Sequence[str]]:
        """List the groups."""
        if self.failure is not None:
            raise self.failure
        return [GroupId(name) for name in self.lags if name not in self.unlisted], self.problems

    async def describe(self, groups: Sequence[GroupId], deadline: float) -> Mapping[GroupId, GroupDescription]:
        """Describe groups."""
        if self.describe_failure is not None:
            raise self.describe_failure
        return {
            group: self.described.get(
                group, GroupDescription(group, "Stable", 1, 1, "simple", NodeId(1), self.members.get(group, ()))
            )
            for group in groups
        }

    async def report(
        self, groups: Sequence[str] | None, *, topics: Collection[str] | None = None, timeout: float | None = None
    ) -> LagReport:
        """Report on groups."""
        assert groups is not None
        self.asked.append(tuple(groups))
        missing = GroupError(69, "GROUP_ID_NOT_FOUND", "it does not exist")
        found = [self.lags.get(name) or GroupLag(GroupId(name), None, missing) for name in groups]
        return LagReport("cluster-1", datetime.now(UTC), (*found, *self.extra))


def an_exporter(watched: Watched, settings: CollectorSettings = CollectorSettings(), **more: object) -> Exporter:  # noqa: B008
    """Return an exporter that only looks when it is told to."""
    return Exporter(watched, watched, settings, **more)  # type: ignore[arg-type]


def text(exporter: Exporter) -> str:
    """Return the page in the text format."""
    pieces, length = exporter.answer(Format.TEXT, gzip=False)
    page = b"".join(pieces)
    assert len(page) == length
    return page.decode()


def samples(exporter: Exporter, name: str) -> dict[tuple[str, ...], float]:
    """Return the values of one metric by label values, in the order of the page.

    Two samples with the same labels are an error.
    """
    found: dict[tuple[str, ...], float] = {}
    for family in text_string_to_metric_families(text(exporter)):
        for sample in family.samples:
            if sample.name == name:
                key = tuple(sample.labels.values())
                assert key not in found, f"{name}{sample.labels} stands twice"
                found[key] = sample.value
    return found


@asynccontextmanager
async def aged(exporter: Exporter, seconds: float) -> AsyncIterator[None]:
    """Let the newest snapshot be older."""
    collector = exporter.collector
    snapshot = collector._snapshot
    assert snapshot is not None
    collector._snapshot = msgspec.structs.replace(snapshot, monotonic=asyncio.get_running_loop().time() - seconds)
    yield
    collector._snapshot = snapshot

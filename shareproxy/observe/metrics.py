"""Turn a snapshot into metric families: the names, labels and units that dashboards and alerts are written against.

In: a snapshot. Out: families with their lines, made in slices of the event loop's time.
Must never: write a sample for something unknown, two samples with the same labels, or hold the loop.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, Literal

from shareproxy.lag.model import PartitionLag, Status
from shareproxy.lag.slices import STEP_ROWS, Slices
from shareproxy.observe.exposition import Family, Kind
from shareproxy.observe.labels import Labels
from shareproxy.observe.snapshot import GroupView, Snapshot

Granularity = Literal["partition", "topic", "group"]

_KNOWN: Final = (("true", True), ("false", False))


class Families:
    """The metrics of Kafka's share groups, empty."""

    def __init__(self) -> None:
        self.lag = Family(
            "kafka_sharegroup_lag",
            "Offsets from the share start offset to the high watermark that are not delivery-complete; "
            "no sample where it is unknown.",
        )
        # a gauge by nature; linters keep the suffix _sum for histograms, and leave untyped metrics alone
        self.lag_sum = Family(
            "kafka_sharegroup_lag_sum",
            "Sum of the known lags; kafka_sharegroup_partitions tells whether these are all.",
            Kind.UNTYPED,
        )
        self.partitions = Family(
            "kafka_sharegroup_partitions", "Partitions of the group by whether their lag is known."
        )
        self.status = Family(
            "kafka_sharegroup_partition_status", "Why the lag of a partition is unknown or not what it seems; always 1."
        )
        self.start_offset = Family("kafka_sharegroup_start_offset", "Share-partition start offset.")
        self.delivery_complete = Family(
            "kafka_sharegroup_delivery_complete", "Delivery-complete offsets from the start offset on."
        )
        self.completed = Family(
            "kafka_sharegroup_completed_offsets_total",
            "Offsets completed: start offset and delivery-complete count together, never going back.",
            Kind.COUNTER,
        )
        self.resets = Family(
            "kafka_sharegroup_offset_resets_total",
            "Partitions whose start offset was seen to move back.",
            Kind.COUNTER,
        )
        self.open = Family(
            "kafka_sharegroup_open_transaction_offsets",
            "Offsets of open transactions: high watermark minus last stable offset.",
        )
        self.unavailable = Family(
            "kafka_sharegroup_unavailable_offsets", "Offsets that the lag counts although retention deleted them."
        )
        self.margin = Family(
            "kafka_sharegroup_retention_margin_offsets",
            "Start offset minus log start offset; below 0 retention has deleted offsets that were waiting.",
        )
        self.oldest_age = Family(
            "kafka_sharegroup_oldest_record_age_seconds", "Age of the first waiting record by its own timestamp."
        )
        self.consumable = Family(
            "kafka_sharegroup_consumable_lag", "Offsets with a record that a member of the group can still be given."
        )
        self.phantom = Family(
            "kafka_sharegroup_phantom_offsets", "Offsets that the lag counts although no member will see a record."
        )
        self.subscribed = Family(
            "kafka_sharegroup_topic_subscribed",
            "Whether a member subscribes to the topic; no sample while the group has no members.",
        )
        self.members = Family("kafka_sharegroup_members", "Members of the group.")
        self.info = Family("kafka_sharegroup_info", "State, coordinator and dead-letter topic; always 1.", Kind.INFO)
        self.error = Family("kafka_sharegroup_error", "Why the group has no whole answer; always 1.")
        self.current_offset = Family("kafka_topic_partition_current_offset", "High watermark of the partition.")
        self.oldest_offset = Family("kafka_topic_partition_oldest_offset", "Log start offset of the partition.")

    def all(self) -> list[Family]:
        """Return the families in the order of the page."""
        return list(vars(self).values())


class _Totals:
    """Sums over some partitions of a group."""

    __slots__ = ("completed", "known", "lag", "total")

    def __init__(self) -> None:
        self.lag = self.known = self.total = 0
        self.completed: int | None = None

    def add(self, row: PartitionLag, completed: int | None) -> None:
        self.total += 1
        if row.lag is not None:
            self.known += 1
            self.lag += row.lag
        if completed is not None:
            self.completed = completed + (self.completed or 0)


async def families_of(
    snapshot: Snapshot, labels: Labels, *, granularity: Granularity = "partition", cluster_label: str = ""
) -> list[Family]:
    """Write the samples of a snapshot.

    Args:
        snapshot: what to show.
        labels: escapes names, and counts what it had to replace.
        granularity: what has series of its own.
        cluster_label: value of the label `cluster`, empty for no such label.
    """
    writer = _Writer(labels, granularity, cluster_label)
    for view in snapshot.groups.values():
        await writer.group(view)
    await writer.topics()
    return writer.finished()


class _Writer:
    def __init__(self, labels: Labels, granularity: Granularity, cluster_label: str) -> None:
        self._labels, self._granularity = labels, granularity
        self._constant = f'cluster="{labels.escape(cluster_label)}",' if cluster_label else ""
        self._families = Families()
        self._slices = Slices()
        self._groups: set[str] = set()
        self._ends: dict[tuple[str, int], int] = {}
        self._log_starts: dict[tuple[str, int], int] = {}

    def finished(self) -> list[Family]:
        families = self._families.all()
        for family in families:
            family.end()
        return families

    async def group(self, view: GroupView) -> None:
        """Write all samples of one group."""
        name = self._labels.escape(view.lag.group)
        if name in self._groups:
            return  # two broken names that look the same once they are mended
        self._groups.add(name)
        families, only_group = self._families, f'{self._constant}group="{name}"'
        self._about_group(view, only_group)
        families.resets.add(f"{{{only_group}}}", view.resets)
        of_topic: dict[str, _Totals] = {}
        rows, completed = view.lag.partitions, view.completed
        for begin in range(0, len(rows), STEP_ROWS):
            end = begin + STEP_ROWS
            for row, done in zip(rows[begin:end], completed[begin:end], strict=True):
                key = row.topic if self._granularity != "group" else ""
                totals = of_topic.get(key)
                if totals is None:
                    totals = of_topic[key] = _Totals()
                totals.add(row, done)
            if self._granularity == "partition":
                self._rows(only_group, rows[begin:end], completed[begin:end])
            await self._slices.turn()
        self._sums(of_topic, only_group)
        subscribed = view.subscribed()
        if subscribed is not None and self._granularity != "group":
            for topic in of_topic:
                families.subscribed.add(self._of_topic(only_group, topic), int(topic in subscribed))
        await self._slices.turn()

    def _about_group(self, view: GroupView, only_group: str) -> None:
        families, description = self._families, view.description
        if view.members is not None:
            families.members.add(f"{{{only_group}}}", view.members)
        state, coordinator, dead_letters = view.state or "", "", ""
        if description is not None and description.coordinator is not None:
            coordinator = str(description.coordinator)
        if view.lag.visible is not None and view.lag.visible.dead_letter is not None:
            dead_letters = self._labels.escape(view.lag.visible.dead_letter.topic)
        about = f'state="{self._labels.escape(state)}",coordinator_id="{coordinator}",dlq_topic="{dead_letters}"'
        families.info.add(f"{{{only_group},{about}}}", 1)
        if view.lag.error is not None:
            families.error.add(f'{{{only_group},error="{self._labels.escape(view.lag.error.name)}"}}', 1)

    def _sums(self, of_topic: dict[str, _Totals], only_group: str) -> None:
        families, topicless = self._families, self._granularity == "group"
        for topic, totals in of_topic.items():
            labels = f"{{{only_group}}}" if topicless else self._of_topic(only_group, topic)
            if totals.known:
                families.lag_sum.add(labels, totals.lag)
            for text, known in _KNOWN:
                count = totals.known if known else totals.total - totals.known
                families.partitions.add(f'{labels[:-1]},known="{text}"}}', count)
            if self._granularity != "partition" and totals.completed is not None:
                families.completed.add(labels, totals.completed)

    def _rows(self, only_group: str, rows: Iterable[PartitionLag], completed: Iterable[int | None]) -> None:
        families, ends = self._families, self._ends
        topic, prefix = None, ""
        for row, done in zip(rows, completed, strict=True):
            if row.topic != topic:
                topic = row.topic
                prefix = f'{{{only_group},topic="{self._labels.escape(topic)}",partition="'
            labels = f'{prefix}{row.partition}"}}'
            if row.lag is not None:
                families.lag.add(labels, row.lag)
            if row.status is not Status.OK:
                families.status.add(f'{labels[:-1]},status="{row.status.value}"}}', 1)
            if row.start_offset is not None:
                families.start_offset.add(labels, row.start_offset)
            if row.delivery_complete_count is not None:
                families.delivery_complete.add(labels, row.delivery_complete_count)
            if done is not None:
                families.completed.add(labels, done)
            if row.end_offset is not None:
                key = (row.topic, row.partition)
                if row.end_offset > ends.get(key, -1):
                    ends[key] = row.end_offset
            if row.visible is not None:
                self._visible(row, labels)

    def _visible(self, row: PartitionLag, labels: str) -> None:
        families, seen = self._families, row.visible
        assert seen is not None
        if seen.open_transaction_offsets is not None:
            families.open.add(labels, seen.open_transaction_offsets)
        if seen.unavailable_offsets is not None:
            families.unavailable.add(labels, seen.unavailable_offsets)
        if seen.oldest_record_age_seconds is not None:
            families.oldest_age.add(labels, seen.oldest_record_age_seconds)
        if seen.consumable_lag is not None:
            families.consumable.add(labels, seen.consumable_lag)
        if seen.phantom_offsets is not None:
            families.phantom.add(labels, seen.phantom_offsets)
        if seen.log_start_offset is not None:
            self._log_starts[row.topic, row.partition] = seen.log_start_offset
            if row.start_offset is not None:
                families.margin.add(labels, row.start_offset - seen.log_start_offset)

    async def topics(self) -> None:
        """Write what belongs to topics, once however many groups read them."""
        families = self._families
        for offsets, family in ((self._ends, families.current_offset), (self._log_starts, families.oldest_offset)):
            for number, ((topic, partition), offset) in enumerate(offsets.items()):
                name = self._labels.escape(topic)
                family.add(f'{{{self._constant}topic="{name}",partition="{partition}"}}', offset)
                if number % STEP_ROWS == 0:
                    await self._slices.turn()

    def _of_topic(self, only_group: str, topic: str) -> str:
        return f'{{{only_group},topic="{self._labels.escape(topic)}"}}'

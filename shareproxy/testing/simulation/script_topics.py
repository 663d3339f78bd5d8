"""Topics, records, transactions, compaction and deletion, as a test writes them down.

In: calls with the names that `ShareDriver` gives them. Out: offsets. Must never: wait.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from shareproxy.protocol.ids import topic_id_text
from shareproxy.testing.driver import Topic as TopicDescription
from shareproxy.testing.simulation.membership import refresh
from shareproxy.testing.simulation.script import Script, locked


class TopicScript(Script):
    """What can be done to topics and their records."""

    @locked
    def create_topic(
        self, topic: str, partitions: int = 1, replication: int = 1, configs: Mapping[str, str] | None = None
    ) -> TopicDescription:
        """Create a topic, its leaders on the nodes in turn.

        Raises:
            ValueError: it exists.
        """
        self._state.topics.create(topic, partitions, replication).configs.update(configs or {})
        self._refresh_groups()
        return self.describe_topic(topic)

    @locked
    def add_partitions(self, topic: str, total: int) -> TopicDescription:
        """Raise a topic's partition count to `total`; groups with members begin with the new partitions at once."""
        self._state.topics.add_partitions(topic, total)
        self._refresh_groups()
        return self.describe_topic(topic)

    @locked
    def delete_topic(self, topic: str) -> None:
        """Delete a topic, and the state that groups have of it. Created again, it has another id."""
        self._state.groups.forget_topic(self._state.topics.delete(topic).topic_id)
        self._refresh_groups()

    @locked
    def describe_topic(self, topic: str) -> TopicDescription:
        """Return a topic's id and leaders."""
        found = self._state.topics.get(topic)
        leaders = {index: row.leader for index, row in enumerate(found.partitions)}
        return TopicDescription(topic_id_text(found.topic_id), leaders)

    @locked
    def produce(
        self,
        topic: str,
        partition: int | Iterable[int] = 0,
        count: int = 1,
        *,
        values: Sequence[str] | None = None,
        timestamp: int | None = None,
    ) -> dict[int, list[int]]:
        """Write the same records to each partition given, one batch per partition, and return each partition's offsets.

        Args:
            topic: the topic.
            partition: one or many.
            count: how many records, unless `values` are given.
            values: the records' values.
            timestamp: of all of them, milliseconds; None for now.
        """
        return self._write(topic, partition, count, values, timestamp, None)

    @locked
    def produce_transaction(
        self,
        topic: str,
        partition: int | Iterable[int] = 0,
        count: int = 1,
        *,
        commit: bool = True,
        leave_open: bool = False,
        values: Sequence[str] | None = None,
        transactional_id: str = "driver",
        timestamp: int | None = None,
    ) -> dict[int, list[int]]:
        """Write records in one transaction and commit or abort it, or leave it open for `end_transaction`."""
        producer_id = self._state.producer_id(transactional_id)
        offsets = self._write(topic, partition, count, values, timestamp, producer_id)
        if not leave_open:
            self.end_transaction(commit=commit, transactional_id=transactional_id)
        return offsets

    @locked
    def end_transaction(self, *, commit: bool, transactional_id: str = "driver") -> None:
        """Commit or abort a transaction that was left open: its partitions get a marker."""
        producer_id, now = self._state.producer_id(transactional_id), self._state.clock()
        for topic in self._state.topics.by_name.values():
            for row in topic.partitions:
                row.log.end_transaction(producer_id, commit=commit, timestamp=now, leader_epoch=row.leader_epoch)
        self._state.wake()

    def _write(
        self,
        topic: str,
        partition: int | Iterable[int],
        count: int,
        values: Sequence[str] | None,
        timestamp: int | None,
        producer_id: int | None,
    ) -> dict[int, list[int]]:
        now = self._state.clock() if timestamp is None else timestamp
        found: dict[int, list[int]] = {}
        texts = None if values is None else [value.encode() for value in values]
        for index in [partition] if isinstance(partition, int) else partition:
            row = self._state.topics.partition(topic, index)
            offsets = row.log.append(
                count if texts is None else len(texts),
                now,
                leader_epoch=row.leader_epoch,
                producer_id=-1 if producer_id is None else producer_id,
                transactional=producer_id is not None,
                values=texts,
            )
            found[index] = list(offsets)
        self._state.wake()
        return found

    @locked
    def delete_records(self, topic: str, partition: int, before_offset: int) -> int:
        """Move a partition's log start offset up, and return it; −1 means the high watermark."""
        log = self._state.topics.partition(topic, partition).log
        return log.delete_before(log.high_watermark if before_offset == -1 else before_offset)

    @locked
    def compact(self, topic: str, partition: int, keep: Iterable[int]) -> None:
        """Take away all records but those at the offsets given, as the log cleaner does; markers stay."""
        self._state.topics.partition(topic, partition).log.compact(keep)

    @locked
    def list_offsets(
        self, topics: Mapping[str, Iterable[int]], *, earliest: bool = False, committed: bool = False
    ) -> dict[tuple[str, int], int]:
        """Return each partition's high watermark, last stable offset (`committed`) or log start offset (`earliest`)."""
        found = {}
        for topic, partitions in topics.items():
            for index in partitions:
                log = self._state.topics.partition(topic, index).log
                if earliest:
                    found[topic, index] = log.log_start_offset
                else:
                    found[topic, index] = log.last_stable_offset if committed else log.high_watermark
        return found

    # -- leaders ------------------------------------------------------------------------------------------------------

    @locked
    def move_leader(self, topic: str, partition: int, node: int | None) -> None:
        """Let another node lead a partition, or nobody (None); also of an internal topic, whose leaders coordinate.

        What the old leader of a share partition held in memory is lost, as in a real cluster.
        """
        if node is not None and node not in self._state.brokers:
            raise ValueError(f"there is no node {node}; there are {sorted(self._state.brokers)}")
        self._state.topics.partition(topic, partition).lead(node)
        self._state.leader_lost(self._state.topics.get(topic), partition)

    def _refresh_groups(self) -> None:
        for group in list(self._state.groups.share_groups()):
            if group.members:
                refresh(self._state, group)

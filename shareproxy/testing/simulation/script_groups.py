"""Share groups and consumer groups, as a test writes them down.

In: calls with the names that `ShareDriver` gives them. Out: what a client would see. Must never: wait.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from shareproxy.testing.driver import Ack, Acks, GroupListing, Record, SharePartition
from shareproxy.testing.simulation.answer_share_offsets import alter
from shareproxy.testing.simulation.cluster_state import GROUP_TOPIC
from shareproxy.testing.simulation.consumer import SimulatedConsumer
from shareproxy.testing.simulation.groups import CommittedOffset, ConsumerGroup, ShareGroup, member_of
from shareproxy.testing.simulation.membership import assign_late, refresh, remove
from shareproxy.testing.simulation.script import locked
from shareproxy.testing.simulation.script_topics import TopicScript
from shareproxy.testing.simulation.share_state import UNKNOWN, StateBatch
from shareproxy.testing.simulation.sharing import end_session, give_back, wake_for_released


class GroupScript(TopicScript):
    """What can be done to groups."""

    @locked
    def set_group_config(self, group: str, configs: Mapping[str, str]) -> None:
        """Set a group's configuration, such as {"share.auto.offset.reset": "earliest"}; the group need not exist."""
        self._state.groups.configs.setdefault(group, {}).update(configs)

    # -- members ------------------------------------------------------------------------------------------------------

    @locked
    def join(
        self,
        group: str,
        topics: Sequence[str],
        *,
        member: str | None = None,
        client_id: str | None = None,
        client_host: str = "/127.0.0.1",
        rack: str | None = None,
    ) -> str:
        """Let a member join a share group, or change what it subscribes to, and return its member id.

        The topics are initialised: their partitions have state, without a start offset as yet.
        """
        found = self._state.groups.make_share(group)
        found.joined += 1
        number = found.joined
        member_id = member or f"{group}-member-{number}"
        found.members[member_id] = member_of(
            member_id, topics, client_id or f"consumer-{group}-{number}", client_host, rack
        )
        found.group_epoch += 1
        refresh(self._state, found)
        return member_id

    @locked
    def leave(self, group: str, member: str) -> None:
        """Let a member leave; what it held is released, and written."""
        found = self._share_group(group)
        if member not in found.members:
            raise ValueError(f"group {group!r} has no member {member!r}; it has {sorted(found.members)}")
        self._release(found, member, leaving=True)
        del found.members[member]
        found.group_epoch += 1
        refresh(self._state, found)

    @locked
    def expire_locks(self, group: str, member: str | None = None) -> None:
        """Let the record locks of a member run out, or of all members: what they hold is released, and written."""
        self._release(self._share_group(group), member, leaving=False)

    def _release(self, group: ShareGroup, member: str | None, *, leaving: bool) -> None:
        by_id, freed = self._state.topics.by_id, set()
        for topic_id, partitions in group.partitions.items():
            topic = by_id.get(topic_id)
            for index, row in partitions.items():
                if topic is not None and row.leader is not None and (held := row.leader.held_by(member)):
                    give_back(self._state, group, topic, index, held, leaving=leaving)
                    freed.add((topic_id, index))
        if leaving:
            wake_for_released(self._state, freed)
        else:
            self._state.wake()

    @locked
    def hold_assignments(self, group: str, *, held: bool = True) -> None:
        """Let the coordinator assign nothing to members that come to a share group, until it is told to go on."""
        if held:
            self._state.assignments_held.add(group)
            return
        self._state.assignments_held.discard(group)
        assign_late(self._state, group)

    @locked
    def fence(self, group: str, member: str) -> None:
        """Let the coordinator forget a member, as if its session had timed out; its records stay locked."""
        found = self._share_group(group)
        if member not in found.members:
            raise ValueError(f"group {group!r} has no member {member!r}; it has {sorted(found.members)}")
        remove(self._state, found, found.members[member])

    @locked
    def end_share_sessions(self, group: str, member: str | None = None, *, node: int | None = None) -> int:
        """Let nodes forget share sessions, of a member or of all members; what was held is released.

        Returns:
            how many there were.
        """
        count = 0
        for broker in self._state.brokers.values():
            for session in broker.sessions:
                if session.group == group and member in (None, session.member) and node in (None, broker.node_id):
                    end_session(self._state, broker, session)
                    count += 1
        return count

    @locked
    def open_consumer(
        self, group: str, topics: Sequence[str], properties: Mapping[str, str] | None = None
    ) -> SimulatedConsumer:
        """Return a share consumer that keeps its records acquired between calls; it joins with its first poll."""
        return SimulatedConsumer(self, self._state, group, topics, properties or {})

    def share_consume(
        self,
        group: str,
        topics: Sequence[str],
        acks: Acks | None = None,
        *,
        otherwise: Ack = "accept",
        max_records: int | None = None,
        timeout: float = 30.0,
        properties: Mapping[str, str] | None = None,
    ) -> list[Record]:
        """Join a share group, get records, acknowledge each as `acks` say, and leave. Nothing waits for `timeout`.

        Raises:
            ValueError: an acknowledgement was refused.
        """
        with self.open_consumer(group, topics, properties) as consumer:
            polled = consumer.poll(acks, otherwise=otherwise, max_records=max_records)
        if polled.errors:
            raise ValueError("; ".join(f"{where}: {why}" for where, why in polled.errors.items()))
        return polled.records

    # -- offsets ------------------------------------------------------------------------------------------------------

    @locked
    def alter_offsets(self, group: str, offsets: Mapping[str, Mapping[int, int]]) -> None:
        """Set start offsets of a share group without members; Kafka 4.1 silently does nothing.

        Raises:
            ValueError: the group has members.
        """
        found = self._state.groups.share(group)
        if found is not None and found.members:
            raise ValueError(f"group {group!r} has members; let them leave first")
        if not self._state.coordinator_release(group).alters:
            return
        found = self._state.groups.make_share(group)
        for topic, of_topic in offsets.items():
            for partition, offset in of_topic.items():
                self._state.topics.partition(topic, partition)
                alter(self._state, found, self._state.topics.get(topic), partition, offset)

    @locked
    def set_share_state(
        self,
        group: str,
        topic: str,
        partition: int | Iterable[int] = 0,
        *,
        start_offset: int = UNKNOWN,
        delivery_complete_count: int = UNKNOWN,
        leader_epoch: int = 0,
        state_epoch: int = 1,
        batches: Sequence[tuple[int, int, int, int]] = (),
    ) -> None:
        """Put state into the share coordinator, whether or not a leader would ever write it.

        Args:
            group: share group; it need not exist.
            topic: its topic, which must.
            partition: one or many.
            start_offset: −1 for none.
            delivery_complete_count: −1 for unknown.
            leader_epoch: of the last write.
            state_epoch: of the last reset.
            batches: first offset, last offset, state (0 available, 2 acknowledged, 4 archived …), delivery count.
        """
        found, of_topic = self._state.groups.make_share(group), self._state.topics.get(topic)
        self._state.initialise(found, of_topic)
        rows = tuple(StateBatch(*batch) for batch in batches)
        for index in [partition] if isinstance(partition, int) else partition:
            row = self._state.share_partition(found, of_topic, index)
            stored = row.stored
            stored.state_epoch, stored.leader_epoch = state_epoch, leader_epoch
            stored.start_offset, stored.delivery_complete_count = start_offset, delivery_complete_count
            stored.batches, stored.fence = rows, leader_epoch
            row.leader = None

    @locked
    def delete_offsets(self, group: str, topics: Sequence[str]) -> None:
        """Make a share group forget these topics."""
        found = self._share_group(group)
        for topic in topics:
            found.partitions.pop(self._state.topics.get(topic).topic_id, None)

    @locked
    def delete_group(self, group: str) -> None:
        """Delete a group of any kind that has no members.

        Raises:
            ValueError: it has members, or there is none.
        """
        found = self._state.groups.by_name.get(group)
        if found is None:
            raise ValueError(f"there is no group {group!r}")
        if found.members:
            raise ValueError(f"group {group!r} has members; let them leave first")
        del self._state.groups.by_name[group]

    @locked
    def list_share_group_offsets(self, group: str) -> list[SharePartition]:
        """Return start offsets and lags as Kafka's admin client shows them: what is unknown is None."""
        found = self._state.groups.share(group)
        if found is None:
            return []
        rows = []
        counted = self._state.coordinator_release(group).counts_deliveries
        for topic_id, partitions in found.partitions.items():
            topic = self._state.topics.by_id[topic_id]
            for index, row in partitions.items():
                start, count = row.stored.start_offset, row.stored.delivery_complete_count
                lag = topic.partitions[index].log.high_watermark - start - count
                known = counted and start >= 0 and count >= 0 and lag >= 0
                rows.append(
                    SharePartition(
                        topic.name,
                        index,
                        start if start >= 0 else None,
                        row.stored.leader_epoch,
                        lag if known else None,
                    )
                )
        return sorted(rows, key=lambda row: (row.topic, row.partition))

    @locked
    def list_share_groups(self) -> list[GroupListing]:
        """List the share groups."""
        return [GroupListing(group.name, "Share", "share", group.state) for group in self._state.groups.share_groups()]

    def _share_group(self, name: str) -> ShareGroup:
        found = self._state.groups.share(name)
        if found is None:
            raise ValueError(f"there is no share group {name!r}; join, share_consume or alter_offsets make one")
        return found

    # -- groups of the older kinds ------------------------------------------------------------------------------------

    @locked
    def commit_offsets(self, group: str, offsets: Mapping[str, Mapping[int, int]], *, kind: str = "classic") -> None:
        """Let a consumer group commit offsets, by topic and partition.

        Args:
            group: its name; it need not exist.
            offsets: the next offsets to read.
            kind: "classic" or "consumer" (KIP-848).
        """
        found = self._consumer_group(group, kind)
        for topic, of_topic in offsets.items():
            for partition, offset in of_topic.items():
                epoch = self._state.topics.partition(topic, partition).leader_epoch
                found.committed[topic, partition] = CommittedOffset(offset, epoch)

    def _consumer_group(self, group: str, kind: str) -> ConsumerGroup:
        self._state.internal_topic(GROUP_TOPIC)
        return self._state.groups.make_consumer(group, kind)

    @locked
    def join_consumer_group(
        self,
        group: str,
        topics: Sequence[str],
        *,
        kind: str = "consumer",
        member: str | None = None,
        client_id: str | None = None,
        client_host: str = "/127.0.0.1",
        rack: str | None = None,
    ) -> str:
        """Let a member join a consumer or classic group, and return its member id."""
        found = self._consumer_group(group, kind)
        found.joined += 1
        number = found.joined
        member_id = member or f"{group}-member-{number}"
        found.members[member_id] = member_of(
            member_id, topics, client_id or f"consumer-{group}-{number}", client_host, rack
        )
        found.group_epoch += 1
        found.assign(self._state.topics.by_name)
        return member_id

    @locked
    def leave_consumer_group(self, group: str, member: str) -> None:
        """Let a member of a consumer or classic group leave."""
        found = self._state.groups.by_name.get(group)
        if found is None or isinstance(found, ShareGroup) or member not in found.members:
            raise ValueError(f"there is no member {member!r} of a consumer group {group!r}")
        del found.members[member]
        found.group_epoch += 1
        found.assign(self._state.topics.by_name)

    def consume(self, group: str, topics: Sequence[str], *, max_records: int | None = None) -> list[Record]:
        """Read with a classic consumer from what is committed, or the earliest offset; commit, and leave."""
        with self._state.lock:
            found = self._consumer_group(group, "classic")
            got: list[Record] = []
            for topic in topics:
                for index, row in enumerate(self._state.topics.get(topic).partitions):
                    log = row.log
                    committed = found.committed.get((topic, index))
                    at = log.log_start_offset if committed is None else committed.offset
                    for batch in log.batches_from(at, log.high_watermark):
                        if max_records is not None and len(got) >= max_records:
                            break
                        if batch.control is None:
                            got += [
                                Record(topic, index, offset, batch.value(offset).decode())
                                for offset in batch.offsets()
                                if offset >= at
                            ]
                        at = batch.last_offset + 1
                    self.commit_offsets(group, {topic: {index: at}})
            return got

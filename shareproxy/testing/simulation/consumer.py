"""A share consumer that lives inside the simulation: it gets records and acknowledges them as Kafka's client does.

In: polls and acknowledgements. Out: records, and the reasons why acknowledgements failed. Must never: wait for records.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import Final, Protocol, Self

from shareproxy.testing.driver import Ack, Acks, Polled, Record
from shareproxy.testing.simulation.cluster_state import ClusterState
from shareproxy.testing.simulation.share_partition import Delivery, WriteRefused
from shareproxy.testing.simulation.share_state import RecordState
from shareproxy.testing.simulation.topics import Topic

MAX_POLL_RECORDS: Final = 500
_STATES: Final[Mapping[str, RecordState]] = {
    "accept": RecordState.ACKNOWLEDGED,
    "release": RecordState.AVAILABLE,
    "reject": RecordState.ARCHIVED,
}
_FENCED: Final = "NotLeaderOrFollowerException: Error in write state RPC. The leader epoch in the request is older"

Place = tuple[str, int]
"""Topic and partition."""


class Membership(Protocol):
    """What a consumer needs of the cluster's script."""

    def join(self, group: str, topics: Sequence[str], *, client_id: str | None = None) -> str:
        """Let a member join."""
        ...

    def leave(self, group: str, member: str) -> None:
        """Let a member leave."""
        ...


class SimulatedConsumer:
    """A share consumer that stays in its group; lives as long as a `with` block."""

    def __init__(
        self,
        cluster: Membership,
        state: ClusterState,
        group: str,
        topics: Sequence[str],
        properties: Mapping[str, str],
    ) -> None:
        self._cluster, self._state, self._group, self._topics = cluster, state, group, tuple(topics)
        self._client_id = properties.get("client.id")
        self._most = int(properties.get("max.poll.records", MAX_POLL_RECORDS))
        self._held: dict[tuple[str, int, int], Record] = {}
        self._gaps: dict[Place, list[int]] = {}
        self.member_id: str | None = None

    def poll(
        self,
        acks: Acks | None = None,
        *,
        otherwise: Ack = "accept",
        max_records: int | None = None,
        timeout: float = 30.0,
    ) -> Polled:
        """Get records and acknowledge them; those marked "none" stay acquired.

        It returns at once where nothing (more) is to be had, whatever the timeout, and after a "none".
        """
        del timeout  # nothing will come by waiting
        with self._state.lock:
            if self.member_id is None:
                self.member_id = self._cluster.join(self._group, self._topics, client_id=self._client_id)
            got: list[Record] = []
            errors: dict[str, str] = {}
            while (max_records is None or len(got) < max_records) and not self._held:
                batch = self._fetch(self.member_id)
                if not batch:
                    errors |= self._commit({})
                    break
                self._held |= {(record.topic, record.partition, record.offset): record for record in batch}
                got += batch
                errors |= self.acknowledge(acks, otherwise=otherwise)
            return Polled(got, errors)

    def acknowledge(self, acks: Acks | None = None, *, otherwise: Ack = "none") -> dict[str, str]:
        """Acknowledge held records, and return the failures by "topic-partition"."""
        acks = acks or {}
        with self._state.lock:
            states: dict[Place, list[tuple[int, RecordState]]] = {}
            for (topic, partition, offset), _ in list(self._held.items()):
                ack = acks.get(f"{topic}-{partition}-{offset}", acks.get(offset, otherwise))
                if ack != "none":
                    states.setdefault((topic, partition), []).append((offset, _STATES[ack]))
                    del self._held[topic, partition, offset]
            return self._commit(states)

    def close(self) -> None:
        """Leave the group; what is still held becomes available again."""
        if self.member_id is not None:
            self._cluster.leave(self._group, self.member_id)
            self.member_id = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    # -- underneath ---------------------------------------------------------------------------------------------------

    def _fetch(self, member: str) -> list[Record]:
        """Take what is there of all assigned partitions, one after the other, until it is enough."""
        group = self._state.groups.make_share(self._group)
        rules = self._state.rules(self._group)
        got: list[Record] = []
        for name, partitions in group.members[member].assignment.items():
            topic = self._state.topics.get(name)
            for partition in partitions:
                leader = topic.partitions[partition].leader
                if len(got) >= self._most or leader is None or not self._state.brokers[leader].answers:
                    continue
                share = self._state.leader_of(group, topic, partition)
                log, isolates = topic.partitions[partition].log, self._state.release_of(leader).isolates_poison
                for delivery in share.acquire(log, rules, member, self._most - len(got), isolates_poison=isolates):
                    got += self._records(topic, partition, delivery)
        return got

    def _records(self, topic: Topic, partition: int, delivery: Delivery) -> list[Record]:
        log, got = topic.partitions[partition].log, []
        there: set[int] = set()
        for batch in log.batches_from(delivery.first_offset, delivery.last_offset + 1):
            if batch.control is not None:
                continue
            for offset in batch.offsets():
                if delivery.first_offset <= offset <= delivery.last_offset:
                    there.add(offset)
                    value = batch.value(offset).decode(errors="replace")
                    got.append(Record(topic.name, partition, offset, value, delivery.delivery_count))
        gaps = [o for o in range(delivery.first_offset, delivery.last_offset + 1) if o not in there]
        if gaps:
            self._gaps.setdefault((topic.name, partition), []).extend(gaps)
        return got

    def _commit(self, states: Mapping[Place, Sequence[tuple[int, RecordState]]]) -> dict[str, str]:
        """Send acknowledgements, with those of offsets that hold no record: the client reports these as gaps."""
        group, errors = self._state.groups.make_share(self._group), {}
        rules = self._state.rules(self._group)
        for name, partition in {**states, **(self._gaps if not states else {})}:
            rows = list(states.get((name, partition), ()))
            rows += [(offset, RecordState.ARCHIVED) for offset in self._gaps.pop((name, partition), ())]
            topic = self._state.topics.get(name)
            leader = self._state.leader_of(group, topic, partition)
            writer = self._state.writer(group, topic, partition)
            try:
                leader.acknowledge(_ranges(rows), rules, writer)
            except WriteRefused:
                errors[f"{name}-{partition}"] = _FENCED
        return errors


def _ranges(rows: Sequence[tuple[int, RecordState]]) -> list[tuple[int, int, RecordState]]:
    """Join neighbouring offsets with the same state."""
    found: list[tuple[int, int, RecordState]] = []
    for offset, state in sorted(rows):
        if found and found[-1][1] == offset - 1 and found[-1][2] == state:
            found[-1] = (found[-1][0], offset, state)
        else:
            found.append((offset, offset, state))
    return found

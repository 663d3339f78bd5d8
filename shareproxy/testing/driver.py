"""Method calls come in; what Kafka's own Java clients did and answered goes out.

Sets up share-group state, and gives a second opinion on what a client sees. One JVM per driver, started once.
Must never be used to talk to a cluster that is not a test's own.
"""

import contextlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Literal, Self

from shareproxy.testing.driver_process import DriverError, DriverProcess
from shareproxy.testing.kafka import LocalKafka
from shareproxy.testing.kafka_jars import KafkaFailed

__all__ = [
    "Cluster",
    "DriverError",
    "GroupDescription",
    "GroupListing",
    "OpenConsumer",
    "Polled",
    "Record",
    "ShareDriver",
    "SharePartition",
    "Topic",
]

Ack = Literal["accept", "release", "reject", "none"]
# What to do with a record: by its offset (any topic and partition) or by "topic-partition-offset", which wins.
Acks = Mapping[int | str, Ack]
# Some partitions, by topic.
Partitions = Mapping[str, Iterable[int]]

ANSWER_TIMEOUT = 90.0  # seconds beyond a command's own timeout; the clients give up by themselves after 60


@dataclass(frozen=True, slots=True)
class Record:
    """A record that a consumer got; `delivery_count` is None for a consumer that is not a share consumer."""

    topic: str
    partition: int
    offset: int
    value: str
    delivery_count: int | None = None


@dataclass(frozen=True, slots=True)
class Polled:
    """What a share consumer got, and which acknowledgements failed: "topic-partition" → reason."""

    records: list[Record]
    errors: dict[str, str]


@dataclass(frozen=True, slots=True)
class SharePartition:
    """One row of the Java admin client's answer; None where it has no value (4.1's client knows no lag at all)."""

    topic: str
    partition: int
    start_offset: int | None
    leader_epoch: int | None
    lag: int | None


@dataclass(frozen=True, slots=True)
class Topic:
    """A topic's id (as Kafka prints it) and the leader of each partition."""

    topic_id: str
    leaders: dict[int, int | None]


@dataclass(frozen=True, slots=True)
class GroupListing:
    """One row of the list of groups; `type` is such as "Share"."""

    group: str
    type: str | None
    protocol: str
    state: str | None


@dataclass(frozen=True, slots=True)
class GroupDescription:
    """A share group's state, the node id of its group coordinator, and its members' partitions by member id."""

    group: str
    state: str
    coordinator: int
    members: dict[str, list[str]]


@dataclass(frozen=True, slots=True)
class Cluster:
    """A cluster as its clients see it: id, and node id → "host:port"."""

    cluster_id: str
    nodes: dict[int, str]


class ShareDriver:
    """Kafka's Java clients, connected to one bootstrap address; lives as long as a `with` block."""

    def __init__(
        self,
        kafka: LocalKafka | Path,
        bootstrap_servers: str | None = None,
        client_properties: Mapping[str, str] | None = None,
    ):
        """Start the JVM.

        Args:
            kafka: a running cluster, whose jars and (by default) address are used; or a directory made by `jars`.
            bootstrap_servers: "host:port[,…]", needed with a directory.
            client_properties: Java client properties, such as `client_properties("alice", …)` of kafka_security.

        Raises:
            MissingTool: no JDK.
            KafkaFailed: the driver could not be compiled.
        """
        jar_dir = kafka.jar_dir if isinstance(kafka, LocalKafka) else kafka
        if bootstrap_servers is None:
            if not isinstance(kafka, LocalKafka):
                raise KafkaFailed("ShareDriver needs bootstrap_servers when it is given a directory of jars.")
            bootstrap_servers = kafka.bootstrap_servers
        self._client = {"bootstrap.servers": bootstrap_servers, **(client_properties or {})}
        self._jvm = DriverProcess(jar_dir)
        self._owns_jvm = True

    def connected_to(self, bootstrap_servers: str, client_properties: Mapping[str, str] | None = None) -> "ShareDriver":
        """Return a driver in the same JVM that talks to another address, or as another user; it need not be closed."""
        other = object.__new__(ShareDriver)
        other._client = {"bootstrap.servers": bootstrap_servers, **(client_properties or {})}
        other._jvm = self._jvm
        other._owns_jvm = False
        return other

    def close(self) -> None:
        """Close all clients in order, then end the JVM; one made by `connected_to` leaves that to the first."""
        if self._owns_jvm:
            self._jvm.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    # -- topics and records -------------------------------------------------------------------------------------------

    def create_topic(
        self, topic: str, partitions: int = 1, replication: int = 1, configs: Mapping[str, str] | None = None
    ) -> Topic:
        """Create a topic and wait until each partition has a leader."""
        configs = configs or {}
        return _topic(
            self._do("create_topic", topic=topic, partitions=partitions, replication=replication, configs=configs)
        )

    def delete_topic(self, topic: str) -> None:
        """Delete a topic."""
        self._do("delete_topic", topic=topic)

    def add_partitions(self, topic: str, total: int) -> Topic:
        """Raise a topic's partition count to `total` and wait until each has a leader."""
        return _topic(self._do("add_partitions", topic=topic, total=total))

    def describe_topic(self, topic: str) -> Topic:
        """Return a topic's id and leaders."""
        return _topic(self._do("describe_topic", topic=topic))

    def produce(
        self,
        topic: str,
        partition: int | Iterable[int] = 0,
        count: int = 1,
        *,
        values: Sequence[str] | None = None,
        keys: Sequence[str] = (),
        acks: Literal["all", "1", "0"] = "all",
        idempotent: bool | None = None,
    ) -> dict[int, list[int]]:
        """Write the same records to each partition given, one batch per partition, and return each partition's offsets.

        Args:
            topic: the topic.
            partition: one or many.
            count: how many records ("value-0", …), unless `values` are given.
            values: the records' values.
            keys: the first records' keys; the others have none.
            acks: with "0" every offset is -1.
            idempotent: None for what goes with `acks`.
        """
        idempotent = acks == "all" if idempotent is None else idempotent
        more = {"acks": acks, "idempotent": idempotent, "keys": list(keys)}
        return self._send("produce", topic, partition, count, values, **more)

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
    ) -> dict[int, list[int]]:
        """Write records in one transaction and commit or abort it, or leave it open for `end_transaction`."""
        offsets = self._send("begin_transaction", topic, partition, count, values, transactional_id=transactional_id)
        if not leave_open:
            self.end_transaction(commit=commit, transactional_id=transactional_id)
        return offsets

    def end_transaction(self, *, commit: bool, transactional_id: str = "driver") -> None:
        """Commit or abort a transaction that was left open."""
        self._do("end_transaction", commit=commit, transactional_id=transactional_id)

    def delete_records(self, topic: str, partition: int, before_offset: int) -> int:
        """Move a partition's log start offset up, and return it; -1 means the high watermark."""
        return int(self._do("delete_records", topic=topic, partition=partition, before_offset=before_offset))

    def list_offsets(
        self, topics: Partitions, *, earliest: bool = False, committed: bool = False
    ) -> dict[tuple[str, int], int]:
        """Return each partition's high watermark, last stable offset (`committed`) or log start offset (`earliest`)."""
        asked = {topic: list(partitions) for topic, partitions in topics.items()}
        found = self._do("list_offsets", topics=asked, earliest=earliest, committed=committed)
        return {(topic, p): found[f"{topic}-{p}"] for topic, partitions in asked.items() for p in partitions}

    # -- consuming ----------------------------------------------------------------------------------------------------

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
        """Join a share group, get records, acknowledge each as `acks` say, commit, and leave.

        A new group begins at the end unless `set_group_config` set share.auto.offset.reset. Kafka hands out whole
        producer batches, so more than `max_records` may come; leaving releases those marked "none".

        Args:
            group: the share group.
            topics: what to subscribe to.
            acks: what to do with which record.
            otherwise: what to do with the rest.
            max_records: stop after so many; None to go on until `timeout`, which a release makes loop.
            timeout: seconds; then it returns with what it has.
            properties: more consumer properties.

        Raises:
            DriverError: a client failed, or an acknowledgement did (type "AcknowledgeFailed").
        """
        with self.open_consumer(group, topics, properties) as consumer:
            polled = consumer.poll(acks, otherwise=otherwise, max_records=max_records, timeout=timeout)
        if polled.errors:
            raise DriverError("AcknowledgeFailed", "; ".join(f"{p}: {why}" for p, why in polled.errors.items()))
        return polled.records

    def open_consumer(
        self, group: str, topics: Sequence[str], properties: Mapping[str, str] | None = None
    ) -> "OpenConsumer":
        """Open a share consumer that keeps its records acquired between calls; it joins with its first poll."""
        name = self._do("open_consumer", group=group, topics=list(topics), properties=dict(properties or {}))
        return OpenConsumer(self, str(name))

    def consume(
        self,
        group: str,
        topics: Sequence[str],
        *,
        max_records: int | None = None,
        timeout: float = 30.0,
        properties: Mapping[str, str] | None = None,
    ) -> list[Record]:
        """Read with a classic consumer from the earliest offset, commit, and leave."""
        arguments = {"group": group, "topics": list(topics), "properties": dict(properties or {})}
        rows = self._do("consume", max_records=max_records, timeout=timeout, **arguments)
        return [Record(**row) for row in rows]

    # -- groups -------------------------------------------------------------------------------------------------------

    def set_group_config(self, group: str, configs: Mapping[str, str]) -> None:
        """Set a group's configuration, such as {"share.auto.offset.reset": "earliest"}; wait until a broker has it."""
        self._do("set_group_config", group=group, configs=dict(configs))

    def list_share_groups(self) -> list[GroupListing]:
        """List the share groups."""
        return [GroupListing(**row) for row in self._do("list_groups", share_only=True)]

    def list_groups(self) -> list[GroupListing]:
        """List the groups of every type."""
        return [GroupListing(**row) for row in self._do("list_groups", share_only=False)]

    def describe_group(self, group: str) -> GroupDescription:
        """Return a share group's state and members."""
        found = self._do("describe_group", group=group)
        members = {member["member_id"]: member["partitions"] for member in found["members"]}
        return GroupDescription(found["group"], found["state"], found["coordinator"], members)

    def list_share_group_offsets(self, group: str, topics: Partitions | None = None) -> list[SharePartition]:
        """Return the Java admin client's offsets of a share group, by topic and partition.

        Args:
            group: the share group.
            topics: which partitions; None for all that are initialised.
        """
        asked = None if topics is None else {topic: list(partitions) for topic, partitions in topics.items()}
        return [SharePartition(**row) for row in self._do("list_share_group_offsets", group=group, topics=asked)]

    def alter_offsets(self, group: str, offsets: Mapping[str, Mapping[int, int]]) -> None:
        """Set start offsets, by topic and partition, of a group without members. Kafka 4.1 silently does nothing."""
        wanted = {topic: {str(p): offset for p, offset in of.items()} for topic, of in offsets.items()}
        self._do("alter_offsets", group=group, offsets=wanted)

    def delete_offsets(self, group: str, topics: Sequence[str]) -> None:
        """Make a group without members forget these topics."""
        self._do("delete_offsets", group=group, topics=list(topics))

    def delete_group(self, group: str) -> None:
        """Delete a share group without members."""
        self._do("delete_group", group=group)

    # -- rights and brokers -------------------------------------------------------------------------------------------

    def add_acl(self, principal: str, resource: str, name: str, operation: str, permission: str = "ALLOW") -> None:
        """Add one ACL, such as ("User:alice", "GROUP", "g1", "DESCRIBE"), and wait until a broker has it.

        The name of the one CLUSTER is "kafka-cluster".
        """
        names = {"principal": principal, "resource": resource, "name": name}
        self._do("add_acl", operation=operation, permission=permission, **names)

    def remove_acl(self, principal: str, resource: str, name: str, operation: str, permission: str = "ALLOW") -> int:
        """Remove one ACL, and return how many were found (0 or 1)."""
        names = {"principal": principal, "resource": resource, "name": name}
        return int(self._do("remove_acl", operation=operation, permission=permission, **names))

    def create_scram_user(self, name: str, password: str, mechanism: str = "SCRAM-SHA-256") -> None:
        """Create a SCRAM user, or change the password."""
        self._do("create_scram_user", name=name, password=password, mechanism=mechanism)

    def describe_cluster(self) -> Cluster:
        """Return the cluster's id and its nodes' addresses as this client is told them."""
        found = self._do("describe_cluster")
        return Cluster(
            found["cluster_id"], {node["node_id"]: f"{node['host']}:{node['port']}" for node in found["nodes"]}
        )

    # -- underneath ---------------------------------------------------------------------------------------------------

    def _send(
        self,
        op: str,
        topic: str,
        partition: int | Iterable[int],
        count: int,
        values: Sequence[str] | None,
        **more: object,
    ) -> dict[int, list[int]]:
        partitions = [partition] if isinstance(partition, int) else list(partition)
        values = [f"value-{i}" for i in range(count)] if values is None else list(values)
        offsets = self._do(op, topic=topic, partitions=partitions, values=values, **more)
        return {int(p): of for p, of in offsets.items()}

    # The answer is JSON of a shape that only the calling method knows.
    def _do(self, op: str, **arguments: object) -> Any:
        own_time = arguments.get("timeout")
        timeout = ANSWER_TIMEOUT + (own_time if isinstance(own_time, float | int) else 0)
        return self._jvm.ask({"op": op, "client": self._client, **arguments}, timeout)


class OpenConsumer:
    """A share consumer that stays in its group; lives as long as a `with` block."""

    def __init__(self, driver: ShareDriver, name: str):
        self._driver = driver
        self._name = name

    def poll(
        self,
        acks: Acks | None = None,
        *,
        otherwise: Ack = "accept",
        max_records: int | None = None,
        timeout: float = 30.0,
    ) -> Polled:
        """Get records, acknowledge and commit them as `share_consume` does; those marked "none" stay acquired.

        Kafka forbids polling while records are held, so it returns at once after a "none", and while any are held.
        """
        arguments = {"acks": _ack_names(acks), "otherwise": otherwise, "max_records": max_records, "timeout": timeout}
        found = self._driver._do("poll", consumer=self._name, **arguments)
        return Polled([Record(**row) for row in found["records"]], found["errors"])

    def acknowledge(self, acks: Acks | None = None, *, otherwise: Ack = "none") -> dict[str, str]:
        """Acknowledge held records, commit, and return the failures by "topic-partition"."""
        found = self._driver._do("acknowledge", consumer=self._name, acks=_ack_names(acks), otherwise=otherwise)
        return {str(partition): str(why) for partition, why in found.items()}

    def close(self) -> None:
        """Leave the group; what is still held becomes available again."""
        self._driver._do("close_consumer", consumer=self._name)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with contextlib.suppress(DriverError) if kind else contextlib.nullcontext():
            self.close()


def _topic(found: Mapping[str, Any]) -> Topic:
    return Topic(found["topic_id"], {row["partition"]: row["leader"] for row in found["partitions"]})


def _ack_names(acks: Acks | None) -> dict[str, Ack]:
    return {str(key): ack for key, ack in (acks or {}).items()}

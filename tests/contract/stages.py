"""What a scenario needs of a cluster, real or simulated, to put share groups into a state.

In: nothing. Out: the methods that `ShareDriver` and `SimulatedCluster` have in common. Must never: know which it is.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Protocol, Self

from shareproxy.testing.driver import Ack, Acks, Polled, Record


class Consumer(Protocol):
    """A share consumer that stays in its group."""

    def __enter__(self) -> Self: ...

    def __exit__(self, kind: Any, error: Any, trace: Any, /) -> None: ...

    def poll(
        self,
        acks: Acks | None = None,
        *,
        otherwise: Ack = "accept",
        max_records: int | None = None,
        timeout: float = 30,
    ) -> Polled:
        """Get records, and acknowledge those that are not marked "none"."""
        ...

    def acknowledge(self, acks: Acks | None = None, *, otherwise: Ack = "none") -> dict[str, str]:
        """Acknowledge held records, and return the failures."""
        ...

    def close(self) -> None:
        """Leave."""
        ...


class Stage(Protocol):
    """A cluster on which scenarios are played."""

    def create_topic(self, topic: str, partitions: int = 1, replication: int = 1) -> Any: ...

    def add_partitions(self, topic: str, total: int) -> Any: ...

    def delete_topic(self, topic: str) -> None: ...

    def produce(self, topic: str, partition: int | Iterable[int] = 0, count: int = 1) -> dict[int, list[int]]: ...

    def produce_transaction(
        self,
        topic: str,
        partition: int | Iterable[int] = 0,
        count: int = 1,
        *,
        commit: bool = True,
        leave_open: bool = False,
        transactional_id: str = "driver",
    ) -> dict[int, list[int]]: ...

    def end_transaction(self, *, commit: bool, transactional_id: str = "driver") -> None: ...

    def delete_records(self, topic: str, partition: int, before_offset: int) -> int: ...

    def set_group_config(self, group: str, configs: Mapping[str, str]) -> None: ...

    def open_consumer(self, group: str, topics: Sequence[str]) -> Consumer: ...

    def share_consume(
        self,
        group: str,
        topics: Sequence[str],
        acks: Acks | None = None,
        *,
        otherwise: Ack = "accept",
        max_records: int | None = None,
    ) -> list[Record]: ...

    def consume(self, group: str, topics: Sequence[str], *, max_records: int | None = None) -> list[Record]: ...

    def list_share_group_offsets(self, group: str) -> Sequence[Any]: ...

    def alter_offsets(self, group: str, offsets: Mapping[str, Mapping[int, int]]) -> None: ...

    def delete_offsets(self, group: str, topics: Sequence[str]) -> None: ...

    def delete_group(self, group: str) -> None: ...

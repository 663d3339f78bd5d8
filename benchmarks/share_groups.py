"""Make a share group with many partitions for the benchmarks."""

from __future__ import annotations

from shareproxy.testing.driver import ShareDriver
from shareproxy.testing.kafka import LocalKafka
from tests.support.scenarios import many_partitions

DRAINED_TOPIC = "bench-topic"


def group_with_partitions(kafka: LocalKafka, group: str, partitions: int) -> None:
    """Initialise a group in which each partition has a known lag."""
    with ShareDriver(kafka) as driver:
        many_partitions(driver, DRAINED_TOPIC, group, partitions)

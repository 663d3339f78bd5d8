"""Measure how much more six tasks do than two, with a sink that takes 2 ms for each record."""

from __future__ import annotations

from benchmarks.drain.contestants import Member
from benchmarks.drain.figures import Figure, show
from benchmarks.drain.load import fill
from benchmarks.drain.sinks import member_command, new_group
from shareproxy.testing.driver import ShareDriver
from shareproxy.testing.kafka import LocalKafka

TOPIC, PARTITIONS_OF_IT = "bench-elastic", 4
RECORDS, SIZE = 80_000, 100
WINDOW_MS, SHORTEST_MS = 10_000, 2_000
BOUND = 2.5


def compare(kafka: LocalKafka, *, rounds: int, share: float = 1.0) -> None:
    """Run it and print the table."""
    window = max(int(WINDOW_MS * share), SHORTEST_MS)
    found = []
    with ShareDriver(kafka) as driver, Member("elastic", member_command("elastic")) as member:
        driver.create_topic(TOPIC, partitions=PARTITIONS_OF_IT)
        fill(kafka.bootstrap_servers, TOPIC, RECORDS, SIZE)
        for _ in range(rounds):
            member.start("elastic", kafka.bootstrap_servers, new_group(driver), TOPIC, window)
            found.append(member.result(window))
    for row in found:
        print(f"records/s: two tasks {row['two']:,.0f}, six {row['six']:,.0f}")
    ratios = [row["six"] / row["two"] for row in found]
    show("Elastic", [Figure("six tasks ÷ two tasks, 2 ms for each record, 4 partitions", ratios, BOUND)])

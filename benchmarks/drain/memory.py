"""Measure the memory of a task that has nothing to do, and of members whose sink does not come back."""

from __future__ import annotations

from benchmarks.drain.contestants import Member
from benchmarks.drain.figures import Figure, show
from benchmarks.drain.load import PARTITIONS, fill
from benchmarks.drain.sinks import member_command, new_group
from shareproxy.testing.driver import ShareDriver
from shareproxy.testing.kafka import LocalKafka

IDLE, FULL = "bench-idle", "bench-stalled"
FEW, MANY = 1, 21
RECORDS, FEWEST, SIZE = 500_000, 10_000, 1_000
STALL_MS, SHORTEST_MS = 20_000, 5_000
# what is held: 500 records of a sink task, 2,000 of a consumer that fetches ahead, 1 kB each, and a fetch being decoded
TASK_BOUND, STALLED_BOUND = 3.0, 16.0
MIB = 1024 * 1024


def compare(kafka: LocalKafka, *, rounds: int, share: float = 1.0) -> None:
    """Run it and print the table."""
    servers = kafka.bootstrap_servers
    stall = max(int(STALL_MS * share), SHORTEST_MS)
    records = max(int(RECORDS * share) // PARTITIONS * PARTITIONS, FEWEST)
    tasks: list[float] = []
    growth: dict[str, list[float]] = {"stalled-sink": [], "stalled-consumer": []}
    with ShareDriver(kafka) as driver:
        driver.create_topic(IDLE, partitions=PARTITIONS)
        driver.create_topic(FULL, partitions=PARTITIONS)
        fill(servers, FULL, records, SIZE)
        for _ in range(rounds):
            few, many = (_measure("idle", driver, servers, IDLE, count) for count in (FEW, MANY))
            tasks.append((many - few) / (MANY - FEW))
            for name, values in growth.items():
                values.append(_measure(name, driver, servers, FULL, stall))
    waiting = f"MiB more while {records * SIZE / 1e6:,.0f} MB wait"
    show(
        "Memory",
        [
            Figure(f"MiB for each idle task, of {MANY - FEW}", tasks, TASK_BOUND, at_least=False),
            Figure(f"stalled sink, {waiting}", growth["stalled-sink"], STALLED_BOUND, at_least=False),
            Figure(
                f"stalled caller of a consumer with prefetch, {waiting}",
                growth["stalled-consumer"],
                STALLED_BOUND,
                at_least=False,
            ),
        ],
    )


def _measure(name: str, driver: ShareDriver, servers: str, topic: str, count: int) -> float:
    """Return MiB; memory once taken is rarely given back, so each has a process of its own."""
    with Member(name, member_command(name)) as member:
        member.start(name, servers, new_group(driver), topic, count)
        return float(member.result(count)["bytes"] / MIB)

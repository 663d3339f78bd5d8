"""Compare share consumers: records a second, processor time of a record, and how old a record is when it comes."""

from __future__ import annotations

import itertools
import statistics
import threading
import time
from contextlib import ExitStack
from typing import Any

from benchmarks.drain.contestants import NAMES, Member
from benchmarks.drain.load import PARTITIONS, fill, trickle
from shareproxy.testing.driver import ShareDriver
from shareproxy.testing.kafka import LocalKafka

SIZES = {100: 200_000, 1_024: 60_000}
LATENCY_RECORDS = 600
PAUSE = 0.005
JOIN_SECONDS = 6.0
_number = itertools.count()

Results = dict[str, list[dict[str, Any]]]


def compare(kafka: LocalKafka, *, rounds: int, share: float = 1.0) -> None:
    """Run all, interleaved, and print the tables."""
    with ExitStack() as stack:
        driver = stack.enter_context(ShareDriver(kafka))
        members = {name: stack.enter_context(Member(name)) for name in NAMES}
        tables: list[tuple[int, Results]] = []
        for size, full in SIZES.items():
            count = max(int(full * share) // PARTITIONS * PARTITIONS, PARTITIONS)
            topic = f"bench-drain-{size}"
            driver.create_topic(topic, partitions=PARTITIONS)
            fill(kafka.bootstrap_servers, topic, count, size)
            results: Results = {name: [] for name in members}
            # the first round warms JVM and page cache up
            for round_ in range(rounds + 1):
                for name, member in members.items():
                    group = _group(driver)
                    member.start("drain", kafka.bootstrap_servers, group, topic, count)
                    found = member.result(count)
                    if round_:
                        results[name].append(found)
            tables.append((size, results))
        latencies = _latencies(kafka, driver, members, rounds, share)
    for size, results in tables:
        _print_throughput(size, results)
    _print_latencies(latencies)


def _latencies(
    kafka: LocalKafka, driver: ShareDriver, members: dict[str, Member], rounds: int, share: float
) -> Results:
    results: Results = {name: [] for name in members}
    count = max(int(LATENCY_RECORDS * share), 20)
    for _ in range(rounds):
        for name, member in members.items():
            topic, group = f"bench-latency-{next(_number)}", _group(driver)
            driver.create_topic(topic, partitions=PARTITIONS)
            member.start("latency", kafka.bootstrap_servers, group, topic, count)
            time.sleep(JOIN_SECONDS)  # nobody tells from outside when each of them fetches
            writing = threading.Thread(target=trickle, args=(kafka.bootstrap_servers, topic, count, PAUSE))
            writing.start()
            results[name].append(member.result(count))
            writing.join()
    return results


def _group(driver: ShareDriver) -> str:
    group = f"bench-drain-{next(_number)}"
    driver.set_group_config(group, {"share.auto.offset.reset": "earliest"})
    return group


def _print_throughput(size: int, results: Results) -> None:
    print(f"\n| records of {size} bytes | records/s | lowest … highest | µs of processor time a record | ours ÷ it |")
    print("|---|---|---|---|---|")
    speed = {name: [row["records"] / row["seconds"] for row in rows] for name, rows in results.items()}
    ours = statistics.median(speed["ours"])
    for name, rows in results.items():
        speeds = speed[name]
        cpu = statistics.median(row["cpu"] / row["records"] * 1e6 for row in rows)
        median = statistics.median(speeds)
        print(
            f"| {NAMES[name]} | {median:,.0f} | {min(speeds):,.0f} … {max(speeds):,.0f} | {cpu:.1f} |"
            f" {ours / median:.2f} |"
        )


def _print_latencies(results: Results) -> None:
    print("\n| from the producer to the handler | p50, ms | lowest … highest | ours ÷ it |")
    print("|---|---|---|---|")
    ours = statistics.median(row["p50"] for row in results["ours"])
    for name, rows in results.items():
        p50 = [row["p50"] * 1e3 for row in rows]
        median = statistics.median(p50)
        print(f"| {NAMES[name]} | {median:.2f} | {min(p50):.2f} … {max(p50):.2f} | {ours * 1e3 / median:.2f} |")

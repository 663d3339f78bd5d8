"""Compare the sink worker with the bare consumer, and its PostgreSQL sink with a loop written by hand."""

from __future__ import annotations

import asyncio
import itertools
import statistics
import sys
from collections.abc import Mapping, Sequence
from contextlib import ExitStack

from benchmarks.drain.contestants import Member
from benchmarks.drain.figures import Figure, ratios, show
from benchmarks.drain.load import PARTITIONS, fill
from benchmarks.drain.postgresql_loop import CREATE, TABLE
from shareproxy.testing.driver import ShareDriver
from shareproxy.testing.kafka import LocalKafka
from tests.support.postgresql import postgresql_programs, postgresql_server

# a run must be longer than the tenth of a second in which a task gathers acknowledgements
SIZES = {100: 300_000, 1_024: 200_000}
ROWS = 30_000
ROW_BYTES = 100
WORKER_BOUND, POSTGRESQL_BOUND = 0.8, 0.9
_number = itertools.count()


def compare(kafka: LocalKafka, *, rounds: int, share: float = 1.0) -> None:
    """Run all, interleaved, and print the tables."""
    figures: list[Figure] = []
    with ShareDriver(kafka) as driver:
        names = ("consumer", "consumer-commit", "noop", "noop-implicit")
        for size, full in SIZES.items():
            speeds = _speeds(kafka, driver, dict.fromkeys(names, ()), size, full * share, rounds)
            for name, words in (("noop", "sink worker over a no-op sink"), ("noop-implicit", "… implicit mode")):
                what = f"{words} ÷ bare consumer, {size} bytes"
                figures.append(Figure(what, ratios(speeds[name], speeds["consumer"]), WORKER_BOUND))
                what = f"… ÷ bare consumer that waits for the answer to each batch, {size} bytes"
                figures.append(Figure(what, ratios(speeds[name], speeds["consumer-commit"]), WORKER_BOUND))
        figures.append(_postgresql(kafka, driver, rounds, share))
    show("Sinks", figures)


def _postgresql(kafka: LocalKafka, driver: ShareDriver, rounds: int, share: float) -> Figure:
    what = "PostgreSQL sink ÷ executemany loop over the bare consumer"
    if postgresql_programs() is None:
        print("PostgreSQL's server is not installed: its sink is not measured", file=sys.stderr)
        return Figure(what, (), POSTGRESQL_BOUND)
    with postgresql_server() as url:
        asyncio.run(_execute(url, CREATE))
        members = dict.fromkeys(("executemany", "postgresql"), (url,))
        speeds = _speeds(kafka, driver, members, ROW_BYTES, ROWS * share, rounds, truncate=url)
    return Figure(what, ratios(speeds["postgresql"], speeds["executemany"]), POSTGRESQL_BOUND)


def _speeds(
    kafka: LocalKafka,
    driver: ShareDriver,
    members: Mapping[str, Sequence[str]],
    size: int,
    records: float,
    rounds: int,
    *,
    truncate: str = "",
) -> dict[str, list[float]]:
    """Return records a second of each round, by member."""
    count = max(int(records) // PARTITIONS * PARTITIONS, PARTITIONS)
    topic = f"bench-sinks-{next(_number)}"
    driver.create_topic(topic, partitions=PARTITIONS)
    fill(kafka.bootstrap_servers, topic, count, size)
    speeds: dict[str, list[float]] = {name: [] for name in members}
    micros: dict[str, list[float]] = {name: [] for name in members}
    with ExitStack() as stack:
        running = {
            name: stack.enter_context(Member(name, member_command(name, *arguments)))
            for name, arguments in members.items()
        }
        # the first round warms brokers and page cache up
        for round_ in range(rounds + 1):
            # who comes first has the quieter broker; it is somebody else each time
            for name in list(running)[:: 1 if round_ % 2 else -1]:
                if truncate:
                    asyncio.run(_execute(truncate, f"TRUNCATE {TABLE}"))
                running[name].start("drain", kafka.bootstrap_servers, new_group(driver), topic, count)
                found = running[name].result(count)
                if round_:
                    speeds[name].append(found["records"] / found["seconds"])
                    micros[name].append(found["cpu"] / found["records"] * 1e6)
                if truncate:
                    asyncio.run(_check(truncate, count))
    print(f"\n{size} bytes, µs of processor time a record: {_medians(micros, '.1f')}")
    print(f"{size} bytes, records/s: {_medians(speeds, ',.0f')}", flush=True)
    return speeds


def member_command(name: str, *arguments: str) -> list[str]:
    """Return what runs one kind of member."""
    return [sys.executable, "-m", "benchmarks.drain.sink_member", name, *arguments]


def new_group(driver: ShareDriver) -> str:
    """Return a group that has read nothing yet and starts at the first record."""
    group = f"bench-sinks-{next(_number)}"
    driver.set_group_config(group, {"share.auto.offset.reset": "earliest"})
    return group


async def _execute(url: str, statement: str) -> None:
    import asyncpg

    connection = await asyncpg.connect(url)
    try:
        await connection.execute(statement)
    finally:
        await connection.close()


async def _check(url: str, count: int) -> None:
    """A sink that leaves rows out is fast."""
    import asyncpg

    connection = await asyncpg.connect(url)
    try:
        found = await connection.fetchval(f"SELECT count(*) FROM {TABLE}")
    finally:
        await connection.close()
    if found != count:
        raise RuntimeError(f"the table holds {found} rows instead of {count}")


def _medians(values: Mapping[str, list[float]], form: str) -> str:
    return ", ".join(f"{name} {statistics.median(rows):{form}}" for name, rows in values.items() if rows)

"""Run every client through the proxy, and write what worked (`python -m tests.interop.table`, or `make interop`).

In: the clients' folders, and CLIENT, CLUSTER and CASE (names with commas between) to run less. Out: docs/interop.md
after a run of everything, else the same text on stdout; exit code 1 if something failed.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import signal
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from shareproxy.testing.kafka_jars import KafkaFailed, MissingTool
from tests.interop.cases import CASES, MANY_NODES, Run
from tests.interop.client import Client, ClientFailed, clients
from tests.interop.clusters import MORE_SHAPES, SHAPES, Fronted, Shape, fronted
from tests.interop.page import Mark, Outcome, Table, page
from tests.interop.program import Skipped
from tests.interop.sealed import namespace_command

PAGE = Path(__file__).parent.parent.parent / "docs" / "interop.md"
# clients mostly wait, for groups above all; more at a time would make them wait for the processor
AT_A_TIME = 3


def main(arguments: Sequence[str]) -> int:
    """Run what was chosen, and return 0 if nothing failed."""
    options = _options(arguments)
    found = clients(options.client)
    sealed = bool(namespace_command())
    if not sealed:
        _say("network namespaces are not allowed here: clients' sockets are looked at instead, which is less sure")
    _say("building clients")
    missing = {client.folder: why for client in found if (why := client.make_ready())}
    for folder, why in missing.items():
        _say(f"{folder}: left out, {why}")
    tables = []
    for name in options.cluster or SHAPES:
        shape = (SHAPES | MORE_SHAPES)[name]
        _say(f"starting Kafka: {shape.title}")
        with fronted(shape, direct=options.direct) as cluster:
            tables.append(asyncio.run(_table(shape, cluster, found, missing, options)))
    text = page(tables, sealed=sealed)
    if options.client or options.cluster or options.case or options.direct:
        sys.stdout.write(text)
    else:
        PAGE.write_text(text, encoding="utf-8")
    outcomes = [outcome for table in tables for row in table.rows.values() for outcome in row]
    return int(any(outcome.mark is Mark.FAILED for outcome in outcomes))


async def _table(
    shape: Shape, cluster: Fronted, found: Sequence[Client], missing: Mapping[str, str], options: argparse.Namespace
) -> Table:
    cases = [case for case in options.case or CASES if shape.nodes > 1 or case not in MANY_NODES]
    gate = asyncio.Semaphore(options.jobs)

    async def row(client: Client) -> list[Outcome]:
        if client.folder in missing:
            return [Outcome(Mark.SKIPPED, f"{client.name}: {missing[client.folder]}")] * len(cases)
        return await asyncio.gather(*(_outcome(Run(client, cluster), case, gate) for case in cases))

    rows = await asyncio.gather(*map(row, found))
    titles = [CASES[case][0] for case in cases]
    return Table(shape.title, titles, dict(zip((client.name for client in found), rows, strict=True)))


async def _outcome(run: Run, case: str, gate: asyncio.Semaphore) -> Outcome:
    title, check = CASES[case]
    async with gate:
        began = time.monotonic()
        try:
            note = await check(run)
            outcome = Outcome(Mark.PASSED, f"{run.client.name}, {title}: {note}" if note else "")
        except Skipped as why:
            outcome = Outcome(Mark.SKIPPED, f"{run.client.name}, {title}: {why}")
        except Exception as why:  # a case that cannot be run must not end the others
            said = why if isinstance(why, ClientFailed) else f"{type(why).__name__}: {why}"
            outcome = Outcome(Mark.FAILED, f"{run.client.name}, {title}: {said}")
        _say(f"{outcome.mark.value} {run.client.folder} {case} {time.monotonic() - began:.1f} s {outcome.why}")
        return outcome


def _options(arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.interop.table", description="Run every client.")
    names = {
        "client": [client.folder for client in clients()],
        "cluster": [*SHAPES, *MORE_SHAPES],
        "case": list(CASES),
    }
    for name, known in names.items():
        chosen = [part for part in os.environ.get(name.upper(), "").split(",") if part]
        parser.add_argument(f"--{name}", action="append", choices=known, default=chosen, help="more than once for more")
    parser.add_argument("--direct", action="store_true", help="without the proxy, to compare")
    parser.add_argument("--jobs", type=int, default=AT_A_TIME, help="clients at a time")
    options = parser.parse_args(arguments)
    for name, known in names.items():
        for chosen in getattr(options, name):
            if chosen not in known:
                parser.error(f"there is no {name} {chosen!r}; there are: {', '.join(known)}")
    return options


def _say(text: str) -> None:
    sys.stderr.write(f"{text}\n")


def stop_on_signals() -> None:
    """Let SIGTERM and SIGINT end this process by KeyboardInterrupt, so that what it has started ends with it.

    Where a shell starts it in the background, Python leaves SIGINT ignored.
    """
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGTERM, lambda number, frame: signal.raise_signal(signal.SIGINT))


if __name__ == "__main__":
    stop_on_signals()
    try:
        sys.exit(main(sys.argv[1:]))
    except (MissingTool, KafkaFailed) as failure:
        sys.exit(str(failure))
    except KeyboardInterrupt:
        sys.exit(130)

"""Time what the lag engine does with 10,000 partitions of one group, beside encoding and decoding its messages."""

from __future__ import annotations

import asyncio
import statistics
import sys
import time
from typing import Any

from benchmarks.lag_scale import simulated_cluster

PARTITIONS = 10_000
ROUNDS = 15
TIMEOUT = 60.0


class CodecTime:
    """Processor time of this process inside the codec."""

    def __init__(self) -> None:
        self.seconds = 0.0

    def watch(self, module: Any, name: str) -> None:
        """Measure a function of a module from now on."""
        inner = getattr(module, name)

        def measured(*args: Any, **more: Any) -> Any:
            start = time.process_time()
            try:
                return inner(*args, **more)
            finally:
                self.seconds += time.process_time() - start

        setattr(module, name, measured)


async def look(address: str, source: str) -> None:
    """Look at the group again and again, and print the medians."""
    from shareproxy.cluster import connection
    from shareproxy.cluster.addresses import parse_addresses
    from shareproxy.cluster.cluster import Cluster
    from shareproxy.lag.engine import LagEngine
    from shareproxy.lag.model import SourceChoice

    codec = CodecTime()
    codec.watch(connection, "encode_request")
    codec.watch(connection, "decode_response")
    whole, inside = [], []
    async with Cluster(parse_addresses(address)) as cluster:
        engine = LagEngine(cluster, source=SourceChoice(source), timeout=TIMEOUT)
        for number in range(ROUNDS + 3):
            codec.seconds, start = 0.0, time.process_time()
            report = await engine.report(["group-0000"])
            spent = time.process_time() - start
            if report.groups[0].partitions_known != PARTITIONS:
                raise RuntimeError(f"{report.groups[0].partitions_known} of {PARTITIONS} partitions are known")
            if number >= 3:
                whole.append(spent)
                inside.append(codec.seconds)
    own = [(a - b) / PARTITIONS * 1e6 for a, b in zip(whole, inside, strict=True)]
    print(
        f"  {source:8} engine above the codec: {statistics.median(own):5.1f} µs per partition "
        f"({min(own):.1f} … {max(own):.1f}, {len(own)} looks; at most 25); "
        f"codec {statistics.median(inside) / PARTITIONS * 1e6:.1f} µs; "
        f"whole look {statistics.median(whole) * 1e3:.0f} ms of processor time"
    )


def main() -> int:
    """Measure each source against simulated nodes in another process."""
    print(f"{PARTITIONS} partitions of one group, 3 simulated nodes")
    with simulated_cluster(3, 1, PARTITIONS) as address:
        for source in ("auto", "summary"):
            asyncio.run(look(address, source))
    return 0


if __name__ == "__main__":
    sys.exit(main())

"""Run the benchmarks of draining: `python -m benchmarks.drain [--only NAME …] [--rounds N] [--share S]`."""

from __future__ import annotations

import argparse
import sys

from benchmarks.drain import consumers, elastic, memory, sinks
from shareproxy.testing.kafka import LocalKafka

PARTS = {"consumers": consumers, "sinks": sinks, "elastic": elastic, "memory": memory}


def main() -> int:
    """Print the tables."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.drain", description=__doc__)
    parser.add_argument("--only", choices=PARTS, action="append", help="may be given more than once")
    parser.add_argument("--rounds", type=int, default=5, help="counted rounds of each contestant")
    parser.add_argument("--share", type=float, default=1.0, help="part of the records, on a busy machine")
    arguments = parser.parse_args()
    with LocalKafka("4.4.0", progress=lambda text: print(text, file=sys.stderr)) as kafka:
        for name, part in PARTS.items():
            if name in (arguments.only or PARTS):
                part.compare(kafka, rounds=arguments.rounds, share=arguments.share)
    return 0


if __name__ == "__main__":
    sys.exit(main())

"""Give the frames of real brokers that the tests keep.

In: tests/vectors. Out: requests and answers without their size. Must never: change them.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

from shareproxy.proxy.requests import header_end

VECTORS: Final = Path(__file__).parents[1] / "tests" / "vectors"


class Recorded(NamedTuple):
    """One exchange: the frames without their size."""

    api_key: int
    version: int
    request: bytes
    response: bytes

    @property
    def body_start(self) -> int:
        """Where the request's body begins."""
        return header_end(self.request)


def recorded_frames() -> Iterator[Recorded]:
    """Yield the exchanges that a broker took part in, each one once."""
    seen: set[Recorded] = set()
    for file in sorted(VECTORS.glob("*.json")):
        for step in json.loads(file.read_text(encoding="utf-8"))["steps"]:
            for row in [step, *step.get("derivation", [])]:
                for exchange in row.get("exchanges", []):
                    recorded = Recorded(
                        exchange["key"],
                        exchange["version"],
                        bytes.fromhex(exchange["request"]),
                        bytes.fromhex(exchange["response"]),
                    )
                    if recorded not in seen:
                        seen.add(recorded)
                        yield recorded

"""What a cluster was asked, for tests and benchmarks to look at.

In: each request as it arrives. Out: counts, and the messages where they are kept. Must never: grow without bound.
"""

from __future__ import annotations

from collections import Counter, deque
from typing import Any, NamedTuple

from shareproxy.protocol.message import Request

MOST_KEPT = 10_000


class Received(NamedTuple):
    """One request that a node got; `message` is None for an API that the simulation does not know."""

    node_id: int
    api_key: int
    api_version: int
    client_id: str | None
    principal: str
    message: Request[Any] | None


class RequestRecord:
    """Counts of all requests, and the last ten thousand of them."""

    def __init__(self) -> None:
        self.last: deque[Received] = deque(maxlen=MOST_KEPT)
        self._counts: Counter[tuple[int, int]] = Counter()

    def add(self, received: Received) -> None:
        """Take one request."""
        self.last.append(received)
        self._counts[received.node_id, received.api_key] += 1

    def count(self, api_key: int | None = None, node: int | None = None) -> int:
        """Count requests of an API to a node; None for all."""
        return sum(
            number
            for (node_id, key), number in self._counts.items()
            if api_key in (None, key) and node in (None, node_id)
        )

    def by_api(self, node: int | None = None) -> dict[int, int]:
        """Return API key → number of requests."""
        found: Counter[int] = Counter()
        for (node_id, key), number in self._counts.items():
            if node in (None, node_id):
                found[key] += number
        return dict(sorted(found.items()))

    def messages(self, kind: type[Request[Any]]) -> list[Any]:
        """Return the requests of a class among the last ten thousand, in order."""
        return [received.message for received in self.last if isinstance(received.message, kind)]

    def clear(self) -> None:
        """Begin again at nothing."""
        self.last.clear()
        self._counts.clear()

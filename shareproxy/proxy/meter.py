"""Count what the proxy does, for its metrics.

In: calls and plain additions from the data path. Out: one dict that can be sent as JSON and added to those of other
processes. Must never: cost the data path more than one look into a dict per frame, or grow with what clients send.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable, Mapping, Sequence
from time import perf_counter
from typing import Any, Final

from shareproxy.protocol.api_names import api_name
from shareproxy.proxy.close import CloseReason

MeterDict = dict[str, dict[str, Any]]
"""What `Meter.to_dict` returns; see there."""

# One chunk of so many is timed: two looks at the clock cost as much as the rest of the counting. The number is odd, or
# where requests and answers alternate all samples would be of one kind.
SAMPLE_EVERY: Final = 61
# Brokers answer only APIs that they know, under a hundred; one that answers more of them is counted under OTHER.
MAX_APIS: Final = 256
OTHER: Final = -1
UNKNOWN: Final = "unknown"

# Seconds. What is added is tens of microseconds; a step of that size shows a change.
LATENCY_BOUNDS: Final = (0.00001, 0.000025, 0.00005, 0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.01, 0.1)
# From a connect in the same rack to the limit of five seconds.
CONNECT_BOUNDS: Final = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0)
# From a look that is shared with another client's to the limit of three seconds.
LOOKUP_BOUNDS: Final = (0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0)


class ApiCounts(dict[int, list[float]]):
    """By api_key: requests that ended, their bytes, their answers' bytes, requests that were lost, and of the timed
    ones how many there were and the seconds they took. The data path adds to the lists in place.
    """

    __slots__ = ()

    def __missing__(self, api_key: int) -> list[float]:
        if len(self) > MAX_APIS and api_key != OTHER:
            return self[OTHER]
        counts = self[api_key] = [0, 0, 0, 0, 0, 0.0]
        return counts


class Histogram:
    """Count values by size.

    Args:
        bounds: upper bounds, ascending; the last bucket has none.
    """

    __slots__ = ("bounds", "counts", "sum")

    def __init__(self, bounds: Sequence[float]) -> None:
        self.bounds, self.counts, self.sum = tuple(bounds), [0] * (len(bounds) + 1), 0.0

    def add(self, value: float) -> None:
        """Count one value."""
        self.counts[bisect_left(self.bounds, value)] += 1
        self.sum += value

    def to_dict(self) -> dict[str, Any]:
        """Return it for JSON; `counts` are not cumulative."""
        return {"bounds": list(self.bounds), "counts": list(self.counts), "sum": self.sum}


class Meter:
    """The counters of one process; one object, no locks.

    Attributes:
        apis: see `ApiCounts`.
        until_sample: chunks until the next one that is timed.
        client_bytes: bytes received from clients. Connections report a few seconds late.
        broker_bytes: the same from brokers.
        loop_delay: how late the event loop was at the last look of the sweep, in seconds.
        lag_rows: returns the number of rows whose lag was found, by source.
        max_connections: returns how many clients may be connected.
        open_files: returns open file descriptors and their limit, None where the system does not tell.
    """

    def __init__(self) -> None:
        self.apis = ApiCounts()
        self.until_sample = SAMPLE_EVERY
        self.client_bytes = self.broker_bytes = 0
        self.loop_delay = 0.0
        self.lag_rows: Callable[[], Mapping[str, int]] = dict
        self.max_connections: Callable[[], int] = int
        self.open_files: Callable[[], tuple[int, int] | None] = lambda: None
        self.latency_to_broker = Histogram(LATENCY_BOUNDS)
        self.latency_to_client = Histogram(LATENCY_BOUNDS)
        self._opened: dict[str, int] = {}
        self._open: dict[str, int] = {}
        self._closed: dict[str, int] = {}
        self._connects: dict[str, int] = {}
        self._connect_seconds = Histogram(CONNECT_BOUNDS)
        self._lookups: dict[str, int] = {}
        self._unknown_rows = 0
        self._lookup_seconds = Histogram(LOOKUP_BOUNDS)

    def begin_sample(self) -> float:
        """Return the time at which a chunk came whose turn to be timed it is."""
        self.until_sample = SAMPLE_EVERY
        return perf_counter()

    def client_came(self, listener: str) -> None:
        """Count a client's connection.

        Args:
            listener: `bootstrap`, or the node id that the port or host name belongs to.
        """
        self._opened[listener] = self._opened.get(listener, 0) + 1
        self._open[listener] = self._open.get(listener, 0) + 1

    def client_went(self, listener: str) -> None:
        """Count a connection whose sockets are both closed."""
        self._open[listener] -= 1

    def closed(self, reason: CloseReason) -> None:
        """Count why a connection was closed; once for each that came."""
        self._closed[reason.value] = self._closed.get(reason.value, 0) + 1

    def lost(self, api_keys: Iterable[int]) -> None:
        """Count requests whose connection closed before their answer came; keys that no broker has answered are one."""
        for api_key in api_keys:
            self.apis[api_key if api_key in self.apis else OTHER][3] += 1

    def answered(self, api_key: int, seconds: float) -> None:
        """Note how long a broker took for one of the requests that are timed."""
        counts = self.apis[api_key]
        counts[4] += 1
        counts[5] += seconds

    def connected(self, outcome: str, seconds: float) -> None:
        """Count one search for a broker on behalf of a client, all of its attempts together.

        Args:
            outcome: `connected`, or the value of the reason for which the client is then closed.
            seconds: what it took, name resolution and TLS included.
        """
        self._connects[outcome] = self._connects.get(outcome, 0) + 1
        if outcome == "connected":
            self._connect_seconds.add(seconds)

    def looked_up(self, outcome: str, seconds: float, unknown: int) -> None:
        """Count one look-up of a group's lag for a client.

        Args:
            outcome: `found` for all rows, `partial`, `unknown` for none, `timeout` or `error`.
            seconds: what it took.
            unknown: number of rows whose lag was not found.
        """
        self._lookups[outcome] = self._lookups.get(outcome, 0) + 1
        self._lookup_seconds.add(seconds)
        self._unknown_rows += unknown

    def to_dict(self) -> MeterDict:
        """Return everything for JSON.

        Returns:
            `counters` by name and label value, which only grow; `gauges` of the same form, to be summed up;
            `highest` and `lowest` by name, of which the extreme counts; `histograms` by name and label value, each
            with `bounds`, `counts` and `sum`. Where a metric has no label the label value is empty.
        """
        by_name = [(_name(api_key), counts) for api_key, counts in sorted(self.apis.items())]
        files = self.open_files()
        return {
            "counters": {
                "connections_opened": dict(self._opened),
                "connections_closed": dict(self._closed),
                "requests": {name: counts[0] for name, counts in by_name},
                "request_bytes": {name: counts[1] for name, counts in by_name},
                "answer_bytes": {name: counts[2] for name, counts in by_name},
                "lost_requests": {name: counts[3] for name, counts in by_name if counts[3]},
                "timed_answers": {name: counts[4] for name, counts in by_name if counts[4]},
                "timed_answer_seconds": {name: counts[5] for name, counts in by_name if counts[4]},
                "received_bytes": {"client": self.client_bytes, "broker": self.broker_bytes},
                "broker_connects": dict(self._connects),
                "lag_lookups": dict(self._lookups),
                "lag_rows": {**self.lag_rows(), UNKNOWN: self._unknown_rows},
            },
            "gauges": {"connections": dict(self._open), "max_connections": {"": self.max_connections()}},
            "highest": {"loop_delay_seconds": self.loop_delay} | ({"open_fds": files[0]} if files else {}),
            "lowest": {"max_fds": files[1]} if files else {},
            "histograms": {
                "added_latency_seconds": {
                    "to_broker": self.latency_to_broker.to_dict(),
                    "to_client": self.latency_to_client.to_dict(),
                },
                "broker_connect_seconds": {"": self._connect_seconds.to_dict()},
                "lag_lookup_seconds": {"": self._lookup_seconds.to_dict()},
            },
        }


def merge(parts: Iterable[MeterDict]) -> MeterDict:
    """Add up what several processes counted; the parts stay as they are."""
    merged: MeterDict = {"counters": {}, "gauges": {}, "highest": {}, "lowest": {}, "histograms": {}}
    for part in parts:
        for kind in ("counters", "gauges"):
            for name, values in part[kind].items():
                into = merged[kind].setdefault(name, {})
                for label, value in values.items():
                    into[label] = into.get(label, 0) + value
        for kind, choose in (("highest", max), ("lowest", min)):
            for name, value in part[kind].items():
                merged[kind][name] = choose(merged[kind].get(name, value), value)
        for name, histograms in part["histograms"].items():
            into = merged["histograms"].setdefault(name, {})
            for label, histogram in histograms.items():
                into[label] = _added(into.get(label), histogram)
    return merged


def retired(part: MeterDict) -> MeterDict:
    """Return what stays in the sum when the process is gone: what it has done, not what it is doing."""
    return part | {"gauges": {}, "highest": {}, "lowest": {}}


def _added(first: dict[str, Any] | None, second: dict[str, Any]) -> dict[str, Any]:
    if first is None or first["bounds"] != second["bounds"]:
        return second
    counts = [one + other for one, other in zip(first["counts"], second["counts"], strict=True)]
    return {"bounds": first["bounds"], "counts": counts, "sum": first["sum"] + second["sum"]}


def _name(api_key: int) -> str:
    return "other" if api_key == OTHER else api_name(api_key)

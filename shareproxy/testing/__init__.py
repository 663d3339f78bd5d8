"""Clusters to test against: a simulated one (`SimulatedCluster`), a real Kafka from Maven (`kafka`), its Java clients;
and a relay with network faults (`FaultyRelay`).

`from shareproxy.testing import SimulatedCluster`; the other submodules are imported by name, so that nothing costs
time that is not used.
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from shareproxy.testing.relay import FaultyRelay
    from shareproxy.testing.simulated import SimulatedCluster

__all__ = ["FaultyRelay", "SimulatedCluster"]


def __getattr__(name: str) -> object:
    if name == "FaultyRelay":
        from shareproxy.testing.relay import FaultyRelay

        return FaultyRelay
    if name == "SimulatedCluster":
        from shareproxy.testing.simulated import SimulatedCluster

        return SimulatedCluster
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")

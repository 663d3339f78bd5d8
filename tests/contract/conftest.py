"""A real and a simulated cluster of one release side by side, for all stories of that release."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from shareproxy.testing import SimulatedCluster
from shareproxy.testing.driver import ShareDriver
from shareproxy.testing.kafka import LocalKafka
from tests.contract.wire import Wire, first_address
from tests.support.real_kafka import CONTRACT_VERSIONS, require_kafka


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark every test of this directory as one that needs a real Kafka."""
    here = Path(__file__).parent
    for item in items:
        if here in item.path.parents:
            item.add_marker("kafka")


@dataclass(frozen=True)
class Pair:
    """Two clusters that shall answer alike: stages to play on, and wires to ask through."""

    version: str
    real_stage: ShareDriver
    simulated_stage: SimulatedCluster
    real_wire: Wire
    simulated_wire: Wire


@pytest.fixture(scope="session", params=CONTRACT_VERSIONS)
def pair(request: pytest.FixtureRequest) -> Iterator[Pair]:
    """Both clusters of one release, with one node each."""
    require_kafka()
    version = str(request.param)
    with (
        LocalKafka(version) as kafka,
        ShareDriver(kafka) as driver,
        SimulatedCluster(1, version, internal_partitions=4) as simulated,
    ):
        wires = Wire(first_address(kafka.bootstrap_servers)), Wire(first_address(simulated.bootstrap_servers))
        yield Pair(version, driver, simulated, *wires)
        for wire in wires:
            wire.close()

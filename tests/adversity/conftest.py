"""Proxies in front of fake brokers on both event loops, and real clusters for faults that are a broker's."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import pytest

from shareproxy.testing.driver import ShareDriver
from shareproxy.testing.kafka import LocalKafka
from tests.proxy.conftest import LOOPS, broker, certificates, proxies
from tests.support.real_kafka import VERSIONS, require_kafka

__all__ = ["broker", "certificates", "proxies"]

WITH_SOCKETS = (
    "test_certificates.py",
    "test_every_cut.py",
    "test_half_open.py",
    "test_networks.py",
    "test_nothing_stays.py",
)
WITH_KAFKA = ("test_broker_faults.py", "test_flood.py", "test_worker_killed.py")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark the tests here that need a real Kafka."""
    here = Path(__file__).parent
    for item in items:
        if item.path.parent == here and item.path.name in WITH_KAFKA:
            item.add_marker("kafka")


def pytest_asyncio_loop_factories(
    config: pytest.Config, item: pytest.Item
) -> Mapping[str, Callable[[], asyncio.AbstractEventLoop]]:
    """Run what touches sockets on both loops."""
    return LOOPS if item.path.name in WITH_SOCKETS else {"asyncio": asyncio.new_event_loop}


@pytest.fixture(scope="session")
def three_nodes() -> Iterator[LocalKafka]:
    """A three-node cluster of the newest version, which gives up a dead broker within seconds."""
    require_kafka()
    quick = {"broker.session.timeout.ms": 6000}
    with LocalKafka(VERSIONS[-1], nodes=3, properties=quick) as cluster:
        yield cluster


@pytest.fixture(scope="session")
def driver(three_nodes: LocalKafka) -> Iterator[ShareDriver]:
    """Java clients connected to the brokers themselves."""
    with ShareDriver(three_nodes) as driver:
        yield driver

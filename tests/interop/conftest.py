"""One real broker and a proxy in front of it, for clients that other people wrote."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from pathlib import Path

import pytest

from shareproxy.testing.driver import ShareDriver
from shareproxy.testing.kafka import LocalKafka
from tests.support.real_kafka import VERSIONS, require_kafka
from tests.support.running_proxy import RunningProxy, running_proxy

_numbers = itertools.count(1)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark the tests of this directory that start a real Kafka."""
    here = Path(__file__).parent
    for item in items:
        if here in item.path.parents and "kafka" in getattr(item, "fixturenames", ()):
            item.add_marker("kafka")


@pytest.fixture(scope="session", params=sorted({VERSIONS[0], VERSIONS[-1]}))
def kafka(request: pytest.FixtureRequest) -> Iterator[LocalKafka]:
    """A one-node cluster, of the oldest and of the newest supported version."""
    require_kafka()
    with LocalKafka(str(request.param)) as cluster:
        yield cluster


@pytest.fixture(scope="session")
def proxy(kafka: LocalKafka) -> Iterator[RunningProxy]:
    """A proxy in front of it."""
    with running_proxy(kafka.bootstrap_servers) as proxy:
        yield proxy


@pytest.fixture(scope="session")
def driver(kafka: LocalKafka) -> Iterator[ShareDriver]:
    """Java clients connected to the broker itself."""
    with ShareDriver(kafka) as driver:
        yield driver


@pytest.fixture
def topic(driver: ShareDriver) -> str:
    """A new topic with three partitions."""
    name = f"topic-{next(_numbers)}"
    driver.create_topic(name, 3)
    return name


@pytest.fixture
def group() -> str:
    """A group name that no other test has."""
    return f"group-{next(_numbers)}"

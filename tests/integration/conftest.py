"""Real clusters for the tests here, started when first asked for; pytest groups tests so that few live at a time."""

import itertools
from collections.abc import Iterator
from pathlib import Path

import pytest

from shareproxy.testing.driver import ShareDriver
from shareproxy.testing.kafka import LocalKafka, Security
from tests.support.real_kafka import VERSIONS, require_kafka

SECURITY = Security(
    users={"admin": "admin-secret", "alice": "alice-secret"},
    tls=True,
    client_auth="requested",
    authorizer=True,
    super_users=("admin",),
)
_numbers = itertools.count(1)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark every test of this directory as one that needs a real Kafka."""
    here = Path(__file__).parent
    for item in items:
        if here in item.path.parents:
            item.add_marker("kafka")


@pytest.fixture(scope="session", params=VERSIONS)
def kafka_version(request: pytest.FixtureRequest) -> str:
    """Each supported version in turn."""
    require_kafka()
    return str(request.param)


@pytest.fixture(scope="session")
def kafka(kafka_version: str) -> Iterator[LocalKafka]:
    """A one-node cluster without security, shared by all tests of a version: use names of your own."""
    with LocalKafka(kafka_version) as cluster:
        yield cluster


@pytest.fixture(scope="session")
def driver(kafka: LocalKafka) -> Iterator[ShareDriver]:
    """Java clients of the same version, connected to `kafka`."""
    with ShareDriver(kafka) as driver:
        yield driver


@pytest.fixture(scope="session")
def secure_kafka(kafka_version: str) -> Iterator[LocalKafka]:
    """A one-node cluster with SASL, TLS and an authorizer: super user admin, and alice who may do nothing."""
    with LocalKafka(kafka_version, security=SECURITY) as cluster:
        yield cluster


@pytest.fixture(scope="session")
def secure_driver(secure_kafka: LocalKafka) -> Iterator[ShareDriver]:
    """Java clients with every right, connected to `secure_kafka`."""
    with ShareDriver(secure_kafka) as driver:
        yield driver


@pytest.fixture(scope="module")
def three_nodes() -> Iterator[LocalKafka]:
    """A three-node cluster of the newest version, for one test module."""
    require_kafka()
    with LocalKafka(VERSIONS[-1], nodes=3) as cluster:
        yield cluster


@pytest.fixture(scope="module")
def three_nodes_driver(three_nodes: LocalKafka) -> Iterator[ShareDriver]:
    """Java clients connected to `three_nodes`."""
    with ShareDriver(three_nodes) as driver:
        yield driver


@pytest.fixture
def topic() -> str:
    """A topic name that no other test has."""
    return f"topic-{next(_numbers)}"


@pytest.fixture
def group() -> str:
    """A group name that no other test has."""
    return f"group-{next(_numbers)}"

"""The one place that decides whether tests with a real Kafka run here, and on which versions."""

import os

import pytest

from shareproxy.testing.kafka import SUPPORTED_VERSIONS
from shareproxy.testing.kafka_jars import MissingTool, find_tool

# A comma-separated choice, to try one version while working on it.
_CHOSEN = tuple(v for v in os.environ.get("SHAREPROXY_TEST_KAFKA", "").split(",") if v)
VERSIONS = _CHOSEN or SUPPORTED_VERSIONS
# 4.2.0 has bugs that no other release has (KAFKA-20034, KAFKA-20183), so the simulation is held against it as well.
CONTRACT_VERSIONS = _CHOSEN or tuple(sorted({*SUPPORTED_VERSIONS, "4.2.0"}))


def require_kafka() -> None:
    """Skip the test where Java or Maven is missing; in CI that is a failure, so that no run is green by skipping."""
    try:
        for tool in ("java", "javac", "mvn"):
            find_tool(tool)
    except MissingTool as missing:
        if os.environ.get("CI"):
            pytest.fail(str(missing))
        pytest.skip(str(missing))

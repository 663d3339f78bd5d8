"""The compose file really brings up Kafka and shareproxy, usable from this machine."""

from __future__ import annotations

import json
import os
import subprocess
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from shareproxy.testing.driver import ShareDriver
from shareproxy.testing.kafka import SHARE_GROUP_COMMAND, LocalKafka
from shareproxy.testing.ports import ports_side_by_side
from tests.support.scenarios import kip_1226_layout

pytestmark = [pytest.mark.container, pytest.mark.kafka, pytest.mark.timeout(900)]

CHECKOUT = Path(__file__).parents[2]
NODE_PORTS = 4
UP_SECONDS = 800


class Project:
    """The compose project of one test run, with names and ports of its own."""

    def __init__(self) -> None:
        ports = ports_side_by_side(NODE_PORTS + 2)
        self.bootstrap_port, self.http_port = ports[0], ports[1]
        self.bootstrap_servers = f"127.0.0.1:{self.bootstrap_port}"
        self._environment = os.environ | {
            "COMPOSE_PROJECT_NAME": f"shareproxy-test-{os.getpid()}",
            "BOOTSTRAP_PORT": str(self.bootstrap_port),
            "HTTP_PORT": str(self.http_port),
            "NODE_PORTS": f"{ports[2]}-{ports[-1]}",
        }

    def compose(self, *arguments: str) -> str:
        """Run docker compose and return what it printed."""
        done = subprocess.run(
            ["docker", "compose", *arguments],
            cwd=CHECKOUT,
            env=self._environment,
            capture_output=True,
            text=True,
            check=False,
            timeout=UP_SECONDS,
        )
        assert done.returncode == 0, f"docker compose {' '.join(arguments)}:\n{done.stdout}{done.stderr}"
        return done.stdout


@pytest.fixture(scope="module")
def project(container_engine: None) -> Iterator[Project]:
    """Bring the project up, and take it away with its volumes."""
    project = Project()
    try:
        project.compose("up", "-d", "--build", "--wait")
        yield project
    finally:
        project.compose("down", "--volumes", "--timeout", "5")


def test_both_services_become_healthy(project: Project) -> None:
    """`--wait` came back, and the probe of the image says ready."""
    services = [json.loads(line) for line in project.compose("ps", "--format", "json").splitlines()]
    assert {service["Service"]: service["Health"] for service in services} == {
        "kafka": "healthy",
        "shareproxy": "healthy",
    }
    with urllib.request.urlopen(f"http://127.0.0.1:{project.http_port}/readyz", timeout=10) as answer:
        assert answer.read() == b"ready\n"


def test_it_does_not_run_as_root(project: Project) -> None:
    """The service has a user of its own."""
    assert project.compose("exec", "shareproxy", "id", "-u").strip() == "10001"


def test_kafkas_own_tool_gets_the_lag_from_outside(project: Project) -> None:
    """Everything a client on this machine does goes through the published ports."""
    tool = LocalKafka()  # its jars only; the broker runs in the container
    with ShareDriver(tool.jar_dir, project.bootstrap_servers) as driver:
        kip_1226_layout(driver, "orders", "workers")
    arguments = ["--bootstrap-server", project.bootstrap_servers, "--describe", "--group", "workers"]
    done = tool.java(SHARE_GROUP_COMMAND, *arguments)
    heading, row = (line.split() for line in done.stdout.splitlines() if line.strip())
    assert dict(zip(heading, row, strict=True))["LAG"] == "7", done.stdout + done.stderr

"""docs/how-to/run-in-front-of-tls-and-scram.md, followed to the letter but for names, ports and the folder."""

from __future__ import annotations

import json
import re
import shlex
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import pytest

from shareproxy.config import load_settings
from shareproxy.testing.driver import ShareDriver
from shareproxy.testing.kafka import LocalKafka, Security, client_properties
from shareproxy.testing.kafka_node import free_ports, write_properties
from tests.support import scenarios
from tests.support.real_kafka import VERSIONS, require_kafka
from tests.support.waiting import wait_until

HOW_TO = Path(__file__).parent.parent.parent / "docs" / "how-to"
PAGE = (HOW_TO / "run-in-front-of-tls-and-scram.md").read_text(encoding="utf-8")
BALANCER = (HOW_TO / "run-behind-one-load-balancer.md").read_text(encoding="utf-8")
FOLDER = "/etc/shareproxy"
SCRIPTS = {
    "kafka-configs.sh": "org.apache.kafka.tools.ConfigCommand",
    "kafka-acls.sh": "org.apache.kafka.tools.AclCommand",
    "kafka-share-groups.sh": "org.apache.kafka.tools.consumer.group.ShareGroupCommand",
}
TOPIC, GROUP = "orders", "order-workers"


@dataclass
class Reader:
    """A person with a cluster, a folder and the page.

    Attributes:
        kafka: the cluster.
        folder: instead of /etc/shareproxy, and where commands are run.
        ports: of the proxy: bootstrap, first of the nodes, HTTP.
    """

    kafka: LocalKafka
    folder: Path
    ports: tuple[int, int, int]

    def here(self, text: str) -> str:
        """Return a piece of the page with the names of this machine."""
        bootstrap, node, http = self.ports
        broker = self.kafka.listeners["SASL_SSL"]
        for old, new in (
            ("kafka-1.example:9093,kafka-2.example:9093", broker),
            ("kafka-1.example:9093", broker),
            ("proxy.example", "localhost"),
            ("0.0.0.0:19092", f"127.0.0.1:{bootstrap}"),
            ("19092", str(bootstrap)),
            ("19100-19131", f"{node}-{node + 1}"),
            ("9464", str(http)),
            (FOLDER, str(self.folder)),
        ):
            text = text.replace(old, new)
        return text

    def blocks(self, language: str) -> Iterator[str]:
        """Yield the page's blocks of a language."""
        for block in re.findall(rf"^```{language}\n(.*?)^```", PAGE, re.DOTALL | re.MULTILINE):
            yield self.here(block)

    def write_files(self) -> None:
        """Write each block that begins with a file's name."""
        for language in ("properties", "toml"):
            for block in self.blocks(language):
                name, _, text = block.removeprefix("# ").partition("\n")
                (self.folder / name).write_text(text)

    def commands(self) -> Iterator[list[str]]:
        """Yield the commands of the page in order."""
        for block in self.blocks("sh"):
            for line in block.splitlines():
                yield shlex.split(line)

    def run(self, command: list[str]) -> str:
        """Run one command and return what it printed; it must succeed."""
        program, *arguments = command
        if program in SCRIPTS:
            arguments = [str(self.folder / a) if a.endswith(".properties") else a for a in arguments]
            done = self.kafka.java(SCRIPTS[program], *arguments)
        else:
            if program == "shareproxy":
                command = [sys.executable, "-m", "shareproxy", *arguments]
            done = subprocess.run(command, cwd=self.folder, capture_output=True, text=True, timeout=60)
        assert done.returncode == 0, f"{command}\n{done.stdout}{done.stderr}"
        return done.stdout


@pytest.fixture(scope="module")
def reader(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Reader]:
    """A cluster with TLS, SCRAM and rights, and alice who may read her topic and her group."""
    require_kafka()
    security = Security(
        users={"admin": "admin-secret", "alice": "alice-secret"}, tls=True, authorizer=True, super_users=("admin",)
    )
    with LocalKafka(VERSIONS[-1], security=security) as kafka, ShareDriver(kafka) as driver:
        folder = tmp_path_factory.mktemp("etc-shareproxy")
        files = kafka.certificates
        assert files is not None
        (folder / "kafka-ca.pem").write_bytes(files.ca_pem.read_bytes())
        admin = files.ssl_properties() | client_properties("admin", "admin-secret", "SCRAM-SHA-512", "SASL_SSL")
        write_properties(folder / "admin.properties", admin)
        scenarios.kip_1226_layout(driver, TOPIC, GROUP)
        driver.add_acl("User:alice", "GROUP", GROUP, "DESCRIBE")
        driver.add_acl("User:alice", "TOPIC", TOPIC, "ALL")
        bootstrap, node, http = free_ports(3)
        yield Reader(kafka, folder, (bootstrap, node, http))


@pytest.mark.timeout(600)  # it starts ten programs, five of them JVMs
def test_the_page_leads_to_a_proxy_that_works(reader: Reader) -> None:
    """Each command and file in its order; then Java, librdkafka and aiokafka through it."""
    reader.write_files()
    service = None
    try:
        for command in reader.commands():
            if command[:2] == ["shareproxy", "serve"]:
                log = (reader.folder / "log").open("w")
                service = subprocess.Popen([sys.executable, "-m", *command], stdout=log, stderr=log)
                log.close()
            elif command[0] == "curl":
                wait_until(partial(answers, command[-1]), "the proxy is ready")
            elif command[0] == "kafka-share-groups.sh":
                # the tool itself gives up after five seconds, which a busy machine may need
                wait_until(partial(shows_the_lag, reader, command), "Kafka's tool shows the lag", 200)
            else:
                reader.run(command)
        run_python(reader, RDKAFKA)
        for example in reader.blocks("python"):
            run_python(reader, example)
    finally:
        if service is not None:
            service.terminate()
            assert service.wait(30) == 0


def shows_the_lag(reader: Reader, command: list[str]) -> bool:
    """Tell whether the tool's last row is the group's."""
    rows = [line.split() for line in reader.run(command).splitlines() if line.strip()]
    return [*rows[-1][:3], rows[-1][-1]] == [GROUP, TOPIC, "0", "7"]


RDKAFKA = f"""
import pathlib
from confluent_kafka import Producer
client = dict(line.split("=", 1) for line in pathlib.Path("librdkafka.properties").read_text().splitlines())
producer = Producer(client)
failed = []
producer.produce("{TOPIC}", b"x", on_delivery=lambda error, message: failed.append(error))
assert producer.flush(30) == 0
assert failed == [None], failed
"""


def run_python(reader: Reader, text: str) -> None:
    """Run a program in the reader's folder."""
    done = subprocess.run([sys.executable, "-c", text], cwd=reader.folder, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr


def answers(url: str) -> bool:
    """Tell whether an address answers 200."""
    try:
        with urllib.request.urlopen(url, timeout=5) as answer:
            return bool(answer.status == 200)
    except (OSError, urllib.error.HTTPError):
        return False


def test_the_load_balancers_settings_are_settings(tmp_path: Path) -> None:
    """The file of the other page is read without a complaint."""
    (block,) = re.findall(r"^```toml\n(.*?)^```", BALANCER, re.DOTALL | re.MULTILINE)
    (tmp_path / "settings.toml").write_text(block)

    settings = load_settings(tmp_path / "settings.toml")

    assert settings.node_hosts == "b{node_id}.kafka.example"
    assert json.dumps(settings.advertised_port) == "9093"

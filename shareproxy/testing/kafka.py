"""A version, a node count and a security variant come in; a running Kafka cluster on 127.0.0.1 goes out.

KRaft, every node both broker and controller. Synchronous: used by tests, benchmarks and `shareproxy demo`.
Must never leave a process behind, and never throw away the logs of a failure.
"""

import atexit
import hashlib
import os
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Self

from shareproxy.testing.java_process import QUICK_START, JavaProcess, tail
from shareproxy.testing.kafka_jars import (
    KafkaFailed,
    MissingTool,
    Progress,
    classpath,
    find_tool,
    jars,
    java_fingerprint,
    locked,
    replacing,
)
from shareproxy.testing.kafka_node import (
    HOST,
    brokers_seen_by,
    free_ports,
    kafka_uuid,
    quick_properties,
    usual_features,
    write_properties,
)
from shareproxy.testing.kafka_security import Certificates, Security, client_properties, make_certificates

__all__ = [
    "SHARE_GROUP_COMMAND",
    "SUPPORTED_VERSIONS",
    "Certificates",
    "KafkaFailed",
    "LocalKafka",
    "MissingTool",
    "Node",
    "Security",
    "client_properties",
    "jars",
]

# The newest release of each minor version that has share groups. Tests, the demo and the docs read this line.
SUPPORTED_VERSIONS = ("4.1.2", "4.2.2", "4.3.1", "4.4.0")
SHARE_GROUP_COMMAND = "org.apache.kafka.tools.consumer.group.ShareGroupCommand"

START_TIMEOUT = 60.0  # seconds; a loaded two-core machine needs about 10
STOP_GRACE = 20.0  # seconds for an orderly stop of one node
MEMORY_DIR = Path("/dev/shm")  # where there is none, data goes to the temporary directory
MEMORY_NEEDED = 2 * 1024**3  # bytes free; containers often have only 64 MiB there
PORT_TRIES = 4  # a free port can be taken by someone else before the broker binds it

_NOT_STARTED = "This Kafka was not started yet. Use it in a with statement, or call start()."
_BROKER_MAIN = "kafka.Kafka"
_STORAGE_MAIN = "kafka.tools.StorageTool"
_HEAP = "-Xmx384m"
_LOGGING = (
    "-Dorg.slf4j.simpleLogger.showDateTime=true",
    "-Dorg.slf4j.simpleLogger.dateTimeFormat=HH:mm:ss.SSS",
    # Each start prints its whole configuration several times; server.properties lies beside the log.
    "-Dorg.slf4j.simpleLogger.log.org.apache.kafka.common.config=warn",
    "-Dorg.slf4j.simpleLogger.log.kafka.server.KafkaConfig=warn",
)


@dataclass(frozen=True, slots=True)
class Node:
    """One node: its id, the address of its PLAINTEXT listener, and its process id (None while stopped)."""

    node_id: int
    host: str
    port: int
    pid: int | None


class LocalKafka:
    """A Kafka cluster that lives as long as a `with` block (or from `start` to `stop`)."""

    def __init__(
        self,
        version: str = SUPPORTED_VERSIONS[-1],
        nodes: int = 1,
        security: Security | None = None,
        properties: Mapping[str, str | int] | None = None,
        *,
        features: Mapping[str, int] | None = None,
        log_dir: Path | None = None,
        progress: Progress | None = None,
    ):
        """Describe a cluster; nothing is started yet.

        Args:
            version: any released Kafka 4.x.
            nodes: how many, each broker and controller; their ids are 1, 2, ….
            security: listeners beside PLAINTEXT and the authorizer.
            properties: broker properties that go over the harness's own.
            features: feature levels at format time, such as {"share.version": 0}; None for the version's usual ones.
            log_dir: where the nodes' logs go and stay; None for a temporary directory, kept only after a failure.
            progress: called with one line of text before something slow happens.
        """
        self.version = version
        self.security = security or Security()
        self.certificates: Certificates | None = None
        self.cluster_id = kafka_uuid()
        self.keep_logs = log_dir is not None
        self._node_ids = tuple(range(1, nodes + 1))
        self._properties = {name: str(value) for name, value in (properties or {}).items()}
        self._features = features
        self._log_dir = log_dir
        self._progress = progress
        self._root: Path | None = None
        self._data: Path | None = None
        self._ports: dict[tuple[int, str], int] = {}
        self._processes: dict[int, JavaProcess] = {}
        self._jars: Path | None = None

    # -- life ---------------------------------------------------------------------------------------------------------

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.keep_logs = self.keep_logs or (kind is not None and issubclass(kind, Exception))
        self.stop()

    def start(self) -> Self:
        """Start all nodes and return when each of them sees all of them.

        Raises:
            MissingTool: Java, Maven or (with TLS) openssl is not installed.
            KafkaFailed: a node ended or was not ready in time; the message has the end of its log.
        """
        self._jars = jars(self.version, self._progress)
        if self._log_dir:
            self._log_dir.mkdir(parents=True, exist_ok=True)
        self._root = Path(tempfile.mkdtemp(prefix=f"kafka-{self.version}-", dir=self._log_dir))
        self._data = Path(tempfile.mkdtemp(prefix=f"kafka-{self.version}-data-", dir=_quick_storage()))
        atexit.register(self._abandon)
        try:
            if self.security.tls:
                self.certificates = make_certificates(self._root / "certificates")
            for attempt in range(1, PORT_TRIES + 1):
                try:
                    self._start_all()
                    break
                except _PortTaken as taken:
                    self._end_all()
                    if attempt == PORT_TRIES:
                        raise KafkaFailed(f"{taken} Tried {PORT_TRIES} sets of ports.") from None
        except BaseException:
            self.keep_logs = True
            self._abandon()
            raise
        return self

    def stop(self) -> None:
        """End every node and remove its data; its logs go too, unless something failed."""
        if len(self._processes) == 1 and not self.keep_logs:
            (process,) = self._processes.values()
            if process.makes_archive:
                process.signal(signal.SIGCONT)
                process.stop(STOP_GRACE)
        self._abandon()

    def _abandon(self) -> None:
        atexit.unregister(self._abandon)
        # Killed, not asked: the data is thrown away, and an orderly stop of the last controller takes seconds.
        self._end_all()
        if self._root is None:
            return
        if self._data:
            shutil.rmtree(self._data, ignore_errors=True)
        if not self.keep_logs:
            shutil.rmtree(self._root, ignore_errors=True)

    def start_node(self, node_id: int) -> None:
        """Start a stopped node on its old ports and wait until it is ready."""
        self._spawn(node_id)
        try:
            self._wait_ready([node_id])
        except _PortTaken as taken:
            raise KafkaFailed(str(taken)) from None

    def stop_node(self, node_id: int, *, kill: bool = False) -> None:
        """Stop one node, in order (its leaders move first) or with SIGKILL; its data stays for `start_node`."""
        process = self._processes.pop(node_id)
        process.signal(signal.SIGCONT)
        process.stop(0 if kill else STOP_GRACE)

    def freeze_node(self, node_id: int) -> None:
        """Stop one node's process without ending it: its connections stay open and nothing answers."""
        self._processes[node_id].signal(signal.SIGSTOP)

    def thaw_node(self, node_id: int) -> None:
        """Let a frozen node go on."""
        self._processes[node_id].signal(signal.SIGCONT)

    # -- what it is ---------------------------------------------------------------------------------------------------

    @property
    def jar_dir(self) -> Path:
        """The directory with this version's jars."""
        if self._jars is None:
            self._jars = jars(self.version, self._progress)
        return self._jars

    @property
    def bootstrap_servers(self) -> str:
        """The PLAINTEXT addresses of all nodes, as `host:port[,host:port…]`."""
        return self.listeners["PLAINTEXT"]

    @property
    def listeners(self) -> dict[str, str]:
        """The bootstrap servers of each client listener: PLAINTEXT, SASL_PLAINTEXT, SSL, SASL_SSL."""
        return {
            name: ",".join(f"{HOST}:{self._ports[node_id, name]}" for node_id in self._node_ids)
            for name in self.security.listeners()
        }

    @property
    def nodes(self) -> list[Node]:
        """The nodes, in the order of their ids."""
        return [
            Node(node_id, HOST, self._ports[node_id, "PLAINTEXT"], process.pid if process else None)
            for node_id in self._node_ids
            for process in [self._processes.get(node_id)]
        ]

    def log_file(self, node_id: int = 1) -> Path:
        """Return the log of one node."""
        return self._node_dir(node_id) / "server.log"

    def java(
        self,
        main_class: str,
        *args: str,
        stdin: str | None = None,
        env: Mapping[str, str] | None = None,
        timeout: float = 60.0,
        jvm_options: Sequence[str] = ("-Xmx256m", *QUICK_START),
    ) -> subprocess.CompletedProcess[str]:
        """Run one of Kafka's own tools from this version's jars and return what it printed.

        Args:
            main_class: such as `SHARE_GROUP_COMMAND`.
            args: its arguments.
            stdin: text it reads, if any.
            env: variables added to this process's.
            timeout: seconds; then subprocess.TimeoutExpired.
            jvm_options: options before the class name.
        """
        command = [str(find_tool("java")), *jvm_options, "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn"]
        command += ["-cp", classpath(self.jar_dir), main_class, *args]
        return subprocess.run(
            command, input=stdin or "", env=os.environ | (env or {}), capture_output=True, text=True, timeout=timeout
        )

    # -- starting -----------------------------------------------------------------------------------------------------

    def _start_all(self) -> None:
        names = [*self.security.listeners(), "CONTROLLER"]
        wanted = [(node_id, name) for node_id in self._node_ids for name in names]
        self._ports = dict(zip(wanted, free_ports(len(wanted)), strict=True))
        for node_id in self._node_ids:
            self._write_node(node_id)
        for node_id in self._node_ids:
            self._spawn(node_id)
        self._wait_ready(self._node_ids)

    def _write_node(self, node_id: int) -> None:
        # Kafka's storage tool would need a JVM per node. What it writes is the same each time but for one file of ids.
        home, data = self._node_dir(node_id), self._data_dir(node_id)
        home.mkdir(exist_ok=True)
        shutil.rmtree(data, ignore_errors=True)
        shutil.copytree(self._formatted(), data)
        write_properties(home / "server.properties", self._node_properties(node_id))
        meta = {"version": 1, "cluster.id": self.cluster_id, "node.id": node_id, "directory.id": kafka_uuid()}
        write_properties(data / "meta.properties", meta)

    def _node_properties(self, node_id: int) -> dict[str, str]:
        names = self.security.listeners()
        voters = ",".join(f"{i}@{HOST}:{self._ports[i, 'CONTROLLER']}" for i in self._node_ids)
        addresses = [f"{name}://{HOST}:{self._ports[node_id, name]}" for name in (*names, "CONTROLLER")]
        return {
            "process.roles": "broker,controller",
            "node.id": str(node_id),
            "controller.quorum.voters": voters,
            "controller.listener.names": "CONTROLLER",
            "listeners": ",".join(addresses),
            "advertised.listeners": ",".join(addresses[:-1]),
            "listener.security.protocol.map": ",".join(["CONTROLLER:PLAINTEXT", *(f"{n}:{n}" for n in names)]),
            "inter.broker.listener.name": "PLAINTEXT",
            "log.dirs": str(self._data_dir(node_id)),
            **quick_properties(len(self._node_ids)),
            **self.security.broker_properties(self.certificates),
            **self._properties,
        }

    def _formatted(self) -> Path:
        """Return the cached data directory of a formatted node: its feature levels and SCRAM users, without its ids."""
        features = self._features if self._features is not None else usual_features(self.version)
        arguments = [part for name, level in features.items() for part in ("--feature", f"{name}={level}")]
        arguments += self.security.format_arguments()
        digest = hashlib.sha256("\n".join(arguments).encode()).hexdigest()[:12]
        cached = self.jar_dir.parent / f"format-{digest}"
        with locked(cached):
            if not cached.exists():
                with replacing(cached) as fresh:
                    self._format(fresh, arguments)
        return cached / "data"

    def _format(self, directory: Path, arguments: Sequence[str]) -> None:
        config, data = directory / "server.properties", directory / "data"
        # Only where and who: the rest of a node's properties, such as an authorizer, does not shape what is written.
        kept = ("process.roles", "node.id", "listener", "controller.")
        node = {k: v for k, v in self._node_properties(1).items() if k.startswith(kept)} | {"log.dirs": str(data)}
        write_properties(config, node)
        done = self.java(_STORAGE_MAIN, "format", "-t", self.cluster_id, "-c", str(config), *arguments)
        if done.returncode != 0:
            raise KafkaFailed(f"Kafka {self.version} could not format its storage:\n{done.stdout}{done.stderr}")
        (data / "meta.properties").unlink()

    def _spawn(self, node_id: int) -> None:
        process = JavaProcess(
            [_HEAP, *_LOGGING, "-Djava.awt.headless=true"],
            classpath(self.jar_dir),
            [_BROKER_MAIN, str(self._node_dir(node_id) / "server.properties")],
            self.log_file(node_id),
            archive=self.jar_dir.parent / f"broker-{java_fingerprint()}.jsa",
            data=self._data_dir(node_id),
        )
        self._processes[node_id] = process

    def _wait_ready(self, node_ids: Sequence[int]) -> None:
        deadline = time.monotonic() + START_TIMEOUT
        everyone = set(self._processes)
        for node_id in node_ids:
            while not everyone <= brokers_seen_by(self._ports[node_id, "PLAINTEXT"]):
                for other in everyone:
                    self._check_alive(other)
                if time.monotonic() > deadline:
                    raise self._failure(node_id, f"was not ready within {START_TIMEOUT:.0f} s")
                time.sleep(0.02)

    def _check_alive(self, node_id: int) -> None:
        code = self._processes[node_id].exit_code()
        if code is None:
            return
        if "Address already in use" in tail(self.log_file(node_id), 400):
            raise _PortTaken(f"Another program took a port of node {node_id} before Kafka could.")
        raise self._failure(node_id, f"ended with exit code {code} before it was ready")

    def _failure(self, node_id: int, what: str) -> KafkaFailed:
        self.keep_logs = True
        log = self.log_file(node_id)
        return KafkaFailed(
            f"Kafka {self.version}: node {node_id} {what}. Its log is {log}, which ends with:\n{tail(log)}"
        )

    def _end_all(self) -> None:
        while self._processes:
            self._processes.popitem()[1].stop(0)

    def _data_dir(self, node_id: int) -> Path:
        if self._data is None:
            raise KafkaFailed(_NOT_STARTED)
        return self._data / f"node-{node_id}"

    def _node_dir(self, node_id: int) -> Path:
        if self._root is None:
            raise KafkaFailed(_NOT_STARTED)
        return self._root / f"node-{node_id}"


def _quick_storage() -> Path | None:
    # Kafka forces each new log to the disk: a thousand partitions take 12 s there, and 2 s in memory.
    try:
        usage = shutil.disk_usage(MEMORY_DIR)
    except OSError:
        return None
    return MEMORY_DIR if usage.free >= MEMORY_NEEDED and os.access(MEMORY_DIR, os.W_OK) else None


class _PortTaken(Exception):  # noqa: N818 - not an error yet: another port is tried
    """A port that was free a moment ago is not any more."""

"""JSON commands come in; the answers of a JVM that runs ShareDriver.java go out.

Compiles that file once per Kafka version and keeps it beside the jars. Must never wait for an answer without an end.
"""

import contextlib
import hashlib
import json
import queue
import subprocess
import tempfile
import threading
import zipfile
from importlib import resources
from pathlib import Path
from typing import Any

from shareproxy.testing.java_process import JavaProcess, tail
from shareproxy.testing.kafka_jars import KafkaFailed, classpath, find_tool, java_fingerprint, locked, replacing

CLOSE_TIMEOUT = 15.0


class DriverError(Exception):
    """A command failed: `.type` is the Java exception's class name, `.message` its text."""

    def __init__(self, type: str, message: str):
        super().__init__(f"{type}: {message}")
        self.type = type
        self.message = message


class DriverProcess:
    """The process, and one thread that reads its answers so that waiting for one can have an end."""

    def __init__(self, jar_dir: Path):
        self._lock = threading.Lock()
        self._directory = tempfile.TemporaryDirectory(prefix="share-driver-")
        self._log = Path(self._directory.name, "driver.log")
        driver = compiled_driver(jar_dir)
        self._process = JavaProcess(
            ["-Xmx256m", "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn"],
            classpath(jar_dir, driver / "driver.jar"),
            ["ShareDriver"],
            self._log,
            archive=driver / f"driver-{java_fingerprint()}.jsa",
            talk=True,
        )
        self._answers: queue.SimpleQueue[bytes] = queue.SimpleQueue()
        self._reader = threading.Thread(target=self._read, name="share-driver", daemon=True)
        self._reader.start()
        self._closed = False

    def ask(self, command: dict[str, object], timeout: float) -> Any:
        """Send one command and return its value; commands of several threads go one after the other."""
        with self._lock:
            if self._closed:
                raise DriverError("Closed", "This ShareDriver was closed.")
            assert self._process.popen.stdin
            try:
                self._process.popen.stdin.write(json.dumps(command).encode() + b"\n")
                self._process.popen.stdin.flush()
                line = self._answers.get(timeout=timeout)
            except (BrokenPipeError, queue.Empty):
                line = b""
            if not line:
                message = f"No answer to {command['op']}. The driver's log ends with:\n{tail(self._log)}"
                self._end(0)
                raise DriverError("Gone", message)
        answer = json.loads(line)
        if error := answer.get("error"):
            raise DriverError(error["type"], error["message"])
        return answer["ok"]

    def close(self) -> None:
        """Close the clients and end the process; later calls do nothing."""
        if not self._closed:
            with contextlib.suppress(DriverError):
                self.ask({"op": "close"}, CLOSE_TIMEOUT)
        with self._lock:
            self._end(CLOSE_TIMEOUT if self._process.makes_archive else 0)

    def _end(self, grace: float) -> None:
        if not self._closed:
            self._closed = True
            self._process.stop(grace)
            self._reader.join()
            self._directory.cleanup()

    def _read(self) -> None:
        assert self._process.popen.stdout
        with contextlib.suppress(ValueError):  # closed under our feet
            for line in self._process.popen.stdout:
                self._answers.put(line)
        self._answers.put(b"")


def compiled_driver(jar_dir: Path) -> Path:
    """Return the directory with `driver.jar`, compiled for these jars the first time."""
    source = resources.files("shareproxy.testing") / "java" / "ShareDriver.java"
    text = source.read_bytes()
    target = jar_dir.parent / f"driver-{hashlib.sha256(text).hexdigest()[:12]}"
    with locked(target):
        if not target.exists():
            with replacing(target) as fresh:
                (fresh / "ShareDriver.java").write_bytes(text)
                command = [str(find_tool("javac")), "-proc:none", "-nowarn", "-d", str(fresh)]
                command += ["-cp", classpath(jar_dir), str(fresh / "ShareDriver.java")]
                done = subprocess.run(command, capture_output=True, text=True)
                if done.returncode != 0:
                    raise KafkaFailed(f"ShareDriver.java does not compile with {jar_dir}:\n{done.stderr}")
                # A jar, because the JVM's class archive takes no directories.
                with zipfile.ZipFile(fresh / "driver.jar", "w") as jar:
                    for file in sorted(fresh.glob("*.class")):
                        jar.write(file, file.name)
    return target

"""A schema registry of other people's: Apicurio, with the routes of Confluent's, in memory."""

from __future__ import annotations

import contextlib
import subprocess
import tarfile
import tempfile
import urllib.request
from pathlib import Path
from typing import Self

import pytest

from shareproxy.testing.java_process import JavaProcess, tail
from shareproxy.testing.kafka_jars import cache_dir, find_tool, locked, replacing
from shareproxy.testing.ports import ports_side_by_side
from tests.support.waiting import wait_until

# the last that runs with Java 17
VERSION = "2.6.13.Final"
ARTIFACT = f"io.apicurio:apicurio-registry-app:{VERSION}:tar.gz:all"


class RealRegistry:
    """A registry on 127.0.0.1; use it as a context manager.

    Args:
        directory: gets its log.
    """

    def __init__(self, directory: Path) -> None:
        self._home = _fetched()
        self._log = directory / "registry.log"
        self._port = ports_side_by_side(1)[0]
        self.url = f"http://127.0.0.1:{self._port}/apis/ccompat/v7"

    def __enter__(self) -> Self:
        options = ["-Xmx256m", "-Dquarkus.http.host=127.0.0.1", f"-Dquarkus.http.port={self._port}"]
        jar = self._home / f"apicurio-registry-app-{VERSION}-runner.jar"
        self._process = JavaProcess(
            options, str(jar), ["io.quarkus.runner.GeneratedMain"], self._log, archive=self._home / "classes.jsa"
        )
        try:
            wait_until(self._answers, "the registry answers", 120.0)
        except BaseException:
            self._process.stop(0)
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._process.stop(30.0 if self._process.makes_archive else 0.0)

    def _answers(self) -> bool:
        assert self._process.exit_code() is None, f"the registry ended:\n{tail(self._log)}"
        with contextlib.suppress(OSError), urllib.request.urlopen(f"{self.url}/subjects", timeout=5) as answer:
            return bool(answer.status == 200)
        return False


def _fetched() -> Path:
    """Return where it is; it is fetched the first time."""
    home = cache_dir() / "apicurio" / VERSION
    if not home.exists():
        with locked(home):
            if not home.exists():
                with replacing(home) as fresh, tempfile.TemporaryDirectory() as directory:
                    _fetch(Path(directory), fresh)
    return home


def _fetch(directory: Path, target: Path) -> None:
    command = [str(find_tool("mvn")), "-B", "-q", "org.apache.maven.plugins:maven-dependency-plugin:3.8.1:copy"]
    command += [f"-Dartifact={ARTIFACT}", f"-DoutputDirectory={directory}"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, cwd=directory, check=False)
    found = list(directory.glob("*.tar.gz"))
    if done.returncode != 0 or not found:
        pytest.skip(f"Maven does not serve {ARTIFACT}: {done.stdout[:300]}")
    with tarfile.open(found[0]) as packed:
        packed.extractall(target, filter="data")

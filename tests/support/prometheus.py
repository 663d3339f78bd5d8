"""A real Prometheus comes out: from PATH, or Debian's package in the user's cache; and it scrapes what a test names.

Nothing is installed and no rights are needed. Must never skip a test where Prometheus could have been fetched.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import subprocess
import tempfile
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from shareproxy.testing.kafka_jars import cache_dir, locked, replacing
from shareproxy.testing.ports import ports_side_by_side
from tests.support.waiting import wait_until

FETCH_SECONDS = 300.0
STOP_SECONDS = 20.0
CONFIG = """\
global:
  scrape_interval: 1s
scrape_configs:
  - job_name: shareproxy
    static_configs:
      - targets: ["127.0.0.1:{port}"]
"""


class Tools(NamedTuple):
    """Where the two programs are."""

    prometheus: Path
    promtool: Path


def require_prometheus() -> Tools:
    """Return the programs, fetched if need be; skip where there is no way, which in CI is a failure."""
    found = [shutil.which(name) for name in Tools._fields]
    if all(found):
        return Tools(*(Path(path) for path in found if path))
    home = cache_dir() / "prometheus"
    if not home.is_dir():
        with locked(home):
            if not home.is_dir():  # another process may have fetched it while this one waited
                problem = _fetch(home)
                if problem:
                    sentence = f"Prometheus is not on PATH and cannot be fetched: {problem}. Install it, or on Debian: "
                    sentence += "apt-get install prometheus"
                    if os.environ.get("CI"):
                        pytest.fail(sentence)
                    pytest.skip(sentence)
    return Tools(*(home / "usr" / "bin" / name for name in Tools._fields))


def _fetch(home: Path) -> str | None:
    """Unpack Debian's package into the cache; return what went wrong."""
    if not (shutil.which("apt-get") and shutil.which("dpkg-deb")):
        return "this is no Debian"
    with tempfile.TemporaryDirectory() as place:
        # apt's own download user may not write here, which only costs a warning
        done = subprocess.run(
            ["apt-get", "download", "prometheus"],
            cwd=place, capture_output=True, text=True, check=False, timeout=FETCH_SECONDS,
        )  # fmt: skip
        packages = list(Path(place).glob("prometheus_*.deb"))
        if not packages:
            return f"apt-get download: {(done.stderr or done.stdout).strip()[-300:]}"
        with replacing(home) as fresh:
            subprocess.run(
                ["dpkg-deb", "-x", str(packages[0]), str(fresh)], check=True, capture_output=True, timeout=FETCH_SECONDS
            )
    return None


class Prometheus:
    """A running server.

    Args:
        port: of its API.
    """

    def __init__(self, port: int) -> None:
        self._url = f"http://127.0.0.1:{port}"

    def query(self, expression: str) -> dict[tuple[tuple[str, str], ...], float]:
        """Return the values of an instant query by labels, without those that every scraped series has."""
        answer = self._get(f"/api/v1/query?{urllib.parse.urlencode({'query': expression})}")
        assert answer["status"] == "success", answer
        return {
            tuple(sorted((k, v) for k, v in row["metric"].items() if k not in ("__name__", "job", "instance"))): float(
                row["value"][1]
            )
            for row in answer["data"]["result"]
        }

    def target(self) -> dict[str, Any]:
        """Return what it says about the one it scrapes."""
        [target] = self._get("/api/v1/targets")["data"]["activeTargets"]
        assert isinstance(target, dict)
        return target

    def ready(self) -> bool:
        """Whether it answers."""
        try:
            with urllib.request.urlopen(f"{self._url}/-/ready", timeout=10):
                return True
        except OSError:
            return False

    def _get(self, path: str) -> Any:
        with urllib.request.urlopen(self._url + path, timeout=10) as answer:
            return json.load(answer)


@contextlib.contextmanager
def scraping(tools: Tools, port: int, directory: Path) -> Iterator[Prometheus]:
    """Run a Prometheus that scrapes one port each second.

    Args:
        tools: where it is.
        port: whose `/metrics` to scrape.
        directory: for its files.
    """
    config = directory / "prometheus.yml"
    config.write_text(CONFIG.format(port=port))
    [own] = ports_side_by_side(1)
    command = [str(tools.prometheus), f"--config.file={config}", f"--storage.tsdb.path={directory / 'data'}"]
    command += [f"--web.listen-address=127.0.0.1:{own}"]
    with tempfile.TemporaryFile() as log:
        process = subprocess.Popen(command, stdout=log, stderr=log)
        try:
            server = Prometheus(own)

            def ready() -> bool:
                if process.poll() is not None:
                    log.seek(0)
                    pytest.fail(f"Prometheus ended:\n{log.read().decode(errors='replace')}")
                return server.ready()

            wait_until(ready, "Prometheus is ready")
            yield server
        finally:
            process.terminate()
            try:
                process.wait(STOP_SECONDS)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()

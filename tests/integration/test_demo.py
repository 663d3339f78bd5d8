"""The demo, as `make demo` runs it."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.command import clean_environment, run_shareproxy
from tests.support.real_kafka import VERSIONS, require_kafka
from tests.support.waiting import wait_until


@pytest.mark.parametrize("version", [VERSIONS[0], VERSIONS[-1]])
def test_the_demo_ends_with_kafkas_own_tool_printing_lag(version: str) -> None:
    """On the oldest version and on the newest: two partitions, seven to do in each."""
    require_kafka()
    done = run_shareproxy("demo", "--kafka", version, timeout=280)
    assert done.returncode == 0, done.stderr
    heading, *rows = (line.split() for line in done.stdout.splitlines())
    assert heading[-1] == "LAG"
    assert [row[-1] for row in rows] == ["7", "7"]


def test_a_version_that_does_not_exist_is_one_sentence() -> None:
    """Maven's pages of output stay out of sight."""
    require_kafka()
    done = run_shareproxy("demo", "--kafka", "four", timeout=120)
    assert done.returncode == 2
    assert "'four' has no share groups" in done.stderr
    assert "Traceback" not in done.stderr


def test_without_java_it_says_what_to_install(tmp_path: Path) -> None:
    """The message has a command for the common systems."""
    environment = clean_environment() | {"PATH": str(tmp_path), "JAVA_HOME": ""}
    environment.pop("COVERAGE_PROCESS_START", None)
    done = subprocess.run(
        [sys.executable, "-m", "shareproxy", "demo"], capture_output=True, text=True, check=False, env=environment
    )
    assert done.returncode == 2
    assert "apt-get install" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("missing", ["java", "mvn"])
def test_the_check_before_make_names_each_missing_tool(tmp_path: Path, missing: str) -> None:
    """`make demo` and `make test` ask before anything long starts."""
    require_kafka()
    for tool in {"java", "javac", "mvn"} - ({"java", "javac"} if missing == "java" else {"mvn"}):
        os.symlink(subprocess.check_output(["which", tool], text=True).strip(), tmp_path / tool)
    environment = clean_environment() | {"PATH": str(tmp_path), "JAVA_HOME": ""}
    command = [sys.executable, "-m", "shareproxy.testing.tools"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
    assert done.returncode == 2
    assert f"{missing} was not found" in done.stderr


def test_the_demo_stays_up_for_a_worker(tmp_path: Path) -> None:
    """It says how to reach the cluster, and ends in order when it is told to."""
    require_kafka()
    log = tmp_path / "demo.log"
    command = [sys.executable, "-m", "shareproxy", "demo", "--kafka", VERSIONS[-1], "--stay"]
    with log.open("wb") as file:
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=file, env=clean_environment())
    try:
        found = Found(log, process)
        wait_until(lambda: bool(found.address()), "it says how to reach the cluster", seconds=280)
        environment = clean_environment() | {"SHAREPROXY_BOOTSTRAP_SERVER": found.address()}
        lag = [sys.executable, "-m", "shareproxy", "lag", "order-workers", "--output", "json"]
        told = subprocess.run(lag, capture_output=True, check=True, env=environment, timeout=60)
        assert json.loads(told.stdout)["groups"][0]["lag"] == 14
    finally:
        process.terminate()
        code = process.wait(60)
    assert code == 0, log.read_text(encoding="utf-8")


class Found:
    """What a running demo has said."""

    def __init__(self, log: Path, process: subprocess.Popen[bytes]) -> None:
        self._log, self._process = log, process

    def address(self) -> str:
        """Return the address for workers once it was said, else nothing."""
        text = self._log.read_text(encoding="utf-8")
        assert self._process.poll() is None, text
        match = re.search(r"SHAREPROXY_BOOTSTRAP_SERVER=(\S+)", text)
        return match[1] if match else ""

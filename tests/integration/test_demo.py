"""The demo, as `make demo` runs it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.command import clean_environment, run_shareproxy
from tests.support.real_kafka import VERSIONS, require_kafka


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

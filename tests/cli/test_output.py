"""What becomes of output that nobody can take."""

from __future__ import annotations

import signal
import subprocess
import sys

import pytest

from tests.support.command import clean_environment

LAG_WITHOUT_BROKER = f"{sys.executable} -m shareproxy lag g"


def shell(command: str) -> subprocess.CompletedProcess[str]:
    """Run a command line in a shell."""
    return subprocess.run(
        ["bash", "-c", command], capture_output=True, text=True, check=False, env=clean_environment(), timeout=60
    )


@pytest.mark.parametrize(
    "redirection", [">&-", "2>&-", ">&- 2>&-", "2>/dev/full", "2>&1 | true; (exit ${PIPESTATUS[0]})"]
)
def test_the_exit_code_stays_when_output_has_nowhere_to_go(redirection: str) -> None:
    """Usage errors are 2, whoever listens; nothing strays to stdout."""
    done = shell(f"{LAG_WITHOUT_BROKER} {redirection}")
    assert done.returncode == 2
    assert done.stdout == ""
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("page", ["--help", "--version", "lag --help"])
def test_a_page_that_cannot_be_written_is_a_sentence(page: str) -> None:
    """Click prints it, before there is a command."""
    done = shell(f"{sys.executable} -m shareproxy {page} >/dev/full")
    assert done.returncode == 1
    assert done.stderr == "shareproxy: the answer cannot be written: No space left on device\n"


def test_ctrl_c_while_loading_is_silent() -> None:
    """Python's own answer would be a traceback."""
    code = "import os, signal; import shareproxy.cli.start; os.kill(os.getpid(), signal.SIGINT)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == -signal.SIGINT
    assert done.stderr == ""

"""A Docker engine for the tests that need one."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

CHECKOUT = Path(__file__).parents[2]
# a script that takes `up` and `down` may stand beside the checkout, for machines where no engine runs by itself
ENGINE_SCRIPT = Path(os.environ.get("SHAREPROXY_ENGINE_SCRIPT", CHECKOUT.parent / "shared" / "containers" / "engine"))
ENGINE_SECONDS = 900


def _engine_answers() -> bool:
    if shutil.which("docker") is None:
        return False
    commands = (["docker", "info"], ["docker", "compose", "version"])
    return all(subprocess.run(command, capture_output=True, check=False).returncode == 0 for command in commands)


@pytest.fixture(scope="session")
def container_engine() -> Iterator[None]:
    """Make sure that `docker compose` works, or skip where no engine can run."""
    if _engine_answers():
        yield
        return
    if not ENGINE_SCRIPT.exists():
        pytest.skip("no Docker engine runs here, and there is no script that could start one")
    subprocess.run([ENGINE_SCRIPT, "up"], check=True, timeout=ENGINE_SECONDS)
    yield
    subprocess.run([ENGINE_SCRIPT, "down"], check=True, timeout=ENGINE_SECONDS)

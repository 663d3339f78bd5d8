"""The run of the whole table: what it has started ends with it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.interop import sealed
from tests.support.waiting import wait_until

ROOT = Path(__file__).parent.parent.parent
# stands for the table: a client program, and something beside it that has to be ended in order
PROGRAM = """
import asyncio, sys
from tests.interop.sealed import Surroundings, run_free, run_sealed
from tests.interop.table import stop_on_signals

async def main():
    command = ["sh", "-c", "sleep 600 & echo $$ $! > started.new; mv started.new started; wait"]
    if sys.argv[1] == "sealed":
        await run_sealed(command, Surroundings({("127.0.0.2", 9): ("127.0.0.1", 9)}), stdin=b"", timeout=600)
    else:
        await run_free(command, stdin=b"", timeout=600, env=None)

stop_on_signals()
try:
    asyncio.run(main())
except KeyboardInterrupt:
    sys.exit(130)
finally:
    print("the rest is ended in order")
"""

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="there are no signals")


def is_running(pid: int) -> bool:
    """Tell whether a process is there, and not only its exit code."""
    try:
        return "State:\tZ" not in Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return False


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="only Linux shows processes there")
@pytest.mark.parametrize("how", ["free", "sealed"])
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_signal_ends_what_the_table_has_started(tmp_path: Path, number: signal.Signals, how: str) -> None:
    """Also where SIGINT was ignored at its start, as by a shell in the background."""
    if how == "sealed" and not sealed.namespace_command():
        pytest.skip("no network namespaces on this machine")
    command = ["sh", "-c", 'trap "" INT; exec "$@"', "sh", sys.executable, "-c", PROGRAM, how]
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    with subprocess.Popen(command, cwd=tmp_path, env=environment, stdout=subprocess.PIPE, text=True) as process:
        started = tmp_path / "started"
        wait_until(started.exists, "the client program runs")
        pids = [int(pid) for pid in started.read_text().split()]

        process.send_signal(number)
        output, _ = process.communicate(timeout=30)

    assert process.returncode == 130
    assert output == "the rest is ended in order\n"
    wait_until(lambda: not any(map(is_running, pids)), "the client program and its children have ended")

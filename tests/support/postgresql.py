"""Start a PostgreSQL server of its own, from the system's packages.

In: nothing. Out: a server on a free port of 127.0.0.1, with its data in a temporary directory.
Must never: touch a server that runs already, or leave one behind.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from shareproxy.testing.ports import ports_side_by_side
from tests.support.waiting import wait_until

START_SECONDS = 60.0
# where Debian's packages put what is not on the path
INSTALLED = Path("/usr/lib/postgresql")
# the server refuses to run as root
ACCOUNT = "postgres"


def postgresql_programs() -> Path | None:
    """Return the directory with `initdb` and `postgres`, the newest version's; None where there is none."""
    found = shutil.which("initdb")
    if found is not None:
        return Path(found).resolve().parent
    directories = sorted(INSTALLED.glob("*/bin"), key=lambda path: float(path.parent.name))
    return directories[-1] if directories else None


@contextmanager
def postgresql_server() -> Iterator[str]:
    """Run a server; gives its URL, `postgresql://…`, of a user who may do everything.

    It syncs to disk as a server in use does, so that what it says is durable costs what it costs.

    Raises:
        RuntimeError: there is none on this machine, or it did not start.
    """
    programs = postgresql_programs()
    if programs is None:
        raise RuntimeError("PostgreSQL's server is not installed; on Debian: apt-get install postgresql")
    account = ACCOUNT if os.getuid() == 0 else None
    with tempfile.TemporaryDirectory(prefix="postgresql-") as name:
        directory = Path(name)
        if account is not None:
            shutil.chown(directory, account)
        data, port = directory / "data", ports_side_by_side(1)[0]
        making = [str(programs / "initdb"), "-D", str(data), "-U", "postgres", "-A", "trust", "-E", "UTF8", "--no-sync"]
        made = subprocess.run([*making, "--locale=C"], capture_output=True, text=True, user=account, cwd=name)
        if made.returncode:
            raise RuntimeError(f"initdb failed: {made.stderr.strip()[-500:]}")
        command = [str(programs / "postgres"), "-D", str(data), "-h", "127.0.0.1", "-p", str(port), "-k", name]
        log = directory / "log"
        with log.open("wb") as output:
            server = subprocess.Popen(command, stdout=output, stderr=output, user=account, cwd=name)
        try:
            ready = [str(programs / "pg_isready"), "-q", "-h", "127.0.0.1", "-p", str(port)]

            def answers() -> bool:
                if server.poll() is not None:
                    raise RuntimeError(f"PostgreSQL did not start: {log.read_text()[-500:]}")
                return subprocess.run(ready).returncode == 0

            wait_until(answers, "PostgreSQL answers", seconds=START_SECONDS)
            yield f"postgresql://postgres@127.0.0.1:{port}/postgres"
        finally:
            # "fast": it ends sessions that are still open
            server.send_signal(signal.SIGINT)
            server.wait(30)

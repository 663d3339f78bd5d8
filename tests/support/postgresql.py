"""A PostgreSQL server of the test's own, from the system's packages; it never runs as root.

In: nothing. Out: a server on a free port of 127.0.0.1, with its data in a temporary directory.
Must never: touch a server that runs already, or leave one behind.
"""

from __future__ import annotations

import os
import pwd
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from shareproxy.testing.ports import ports_side_by_side

# where Debian's packages put what is not on the path
_INSTALLED = Path("/usr/lib/postgresql")
_MISSING = "PostgreSQL's server is not installed; on Debian: apt-get install postgresql"


class RealPostgresql:
    """A server with an empty database, and the user `tester` who may do everything.

    Args:
        programs: directory of initdb and pg_ctl.
        durable: whether it syncs to disk as a server in use does, so that durable costs what it costs.

    Raises:
        RuntimeError: it did not start.
    """

    def __init__(self, programs: Path, *, durable: bool = False) -> None:
        self._programs, self._durable = programs, durable
        self._user = _user()
        self.directory = Path(tempfile.mkdtemp(prefix="postgresql-"))
        self.port = ports_side_by_side(1)[0]
        if self._user is not None:
            os.chown(self.directory, self._user.pw_uid, self._user.pw_gid)
        try:
            self._run("initdb", "--auth=trust", "--username=tester", "--no-sync", "--encoding=UTF8", "--locale=C")
            self.start()
        except BaseException:
            self.close()
            raise

    @property
    def dsn(self) -> str:
        """Where it is."""
        return f"postgresql://tester@127.0.0.1:{self.port}/postgres"

    def start(self) -> None:
        """Start it, and wait until it can be used."""
        sync = "on" if self._durable else "off"
        options = f"-p {self.port} -c listen_addresses=127.0.0.1 -c fsync={sync} -k {self.directory}"
        self._run("pg_ctl", "start", "-w", "-l", str(self.directory / "log"), "-o", options)

    def stop(self) -> None:
        """End it at once, as a crash would."""
        self._run("pg_ctl", "stop", "-w", "-m", "immediate")

    def close(self) -> None:
        """End it, and remove what it wrote."""
        if (self.directory / "postmaster.pid").exists():
            self.stop()
        shutil.rmtree(self.directory)

    def _run(self, program: str, *arguments: str) -> None:
        user = None if self._user is None else self._user.pw_name
        done = subprocess.run(
            [self._programs / program, "-D", self.directory, *arguments],
            user=user,
            group=None if self._user is None else self._user.pw_gid,
            cwd=self.directory,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,  # the server keeps it open
            stderr=subprocess.DEVNULL,
            timeout=60,
            check=False,
        )
        if done.returncode:
            log = self.directory / "log"
            words = log.read_text(errors="replace")[-500:] if log.exists() else "it wrote no log"
            raise RuntimeError(f"{program} ended with {done.returncode}: {words}")


@contextmanager
def postgresql_server() -> Iterator[str]:
    """Run a durable server; gives its URL, `postgresql://…`, of a user who may do everything.

    Raises:
        RuntimeError: there is none on this machine, or it did not start.
    """
    programs = postgresql_programs()
    if programs is None:
        raise RuntimeError(_MISSING)
    server = RealPostgresql(programs, durable=True)
    try:
        yield server.dsn
    finally:
        server.close()


def postgresql_programs() -> Path | None:
    """Return the directory with `initdb` and `pg_ctl`, the newest version's; None where there is none."""
    found = shutil.which("initdb")
    if found is not None:
        return Path(found).resolve().parent
    directories = sorted(_INSTALLED.glob("*/bin"), key=lambda path: float(path.parent.name))
    return directories[-1] if directories else None


def require_postgresql() -> Path:
    """Return where PostgreSQL's programs are, or skip the test."""
    programs = postgresql_programs()
    if programs is None:
        pytest.skip(_MISSING)
    return programs


def _user() -> pwd.struct_passwd | None:
    """Return who runs the server where we are root, whom it refuses."""
    if os.geteuid() != 0:
        return None
    for name in ("postgres", "nobody"):
        try:
            return pwd.getpwnam(name)
        except KeyError:
            continue
    pytest.skip("PostgreSQL's server does not run as root, and there is no other user here")

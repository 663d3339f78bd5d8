"""A PostgreSQL server of the test's own, from the installed packages; it never runs as root."""

from __future__ import annotations

import os
import pwd
import shutil
import subprocess
import tempfile
from pathlib import Path

import pytest

from shareproxy.testing.ports import ports_side_by_side

_LIBRARY = Path("/usr/lib/postgresql")


class RealPostgresql:
    """A server on 127.0.0.1 with an empty database.

    Args:
        programs: directory of initdb and pg_ctl.
    """

    def __init__(self, programs: Path) -> None:
        self._programs = programs
        self._user = _user()
        self.directory = Path(tempfile.mkdtemp(prefix="postgresql-"))
        self.port = ports_side_by_side(1)[0]
        if self._user is not None:
            os.chown(self.directory, self._user.pw_uid, self._user.pw_gid)
        self._run("initdb", "--auth=trust", "--username=tester", "--no-sync", "--encoding=UTF8", "--locale=C")
        self.start()

    @property
    def dsn(self) -> str:
        """Where it is."""
        return f"postgresql://tester@127.0.0.1:{self.port}/postgres"

    def start(self) -> None:
        """Start it, and wait until it can be used."""
        options = f"-p {self.port} -c listen_addresses=127.0.0.1 -c fsync=off -k {self.directory}"
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
        assert done.returncode == 0, f"{program} ended with {done.returncode}; see {self.directory}/log"


def require_postgresql() -> Path:
    """Return where PostgreSQL's programs are, or skip the test."""
    found = sorted(_LIBRARY.glob("*/bin"), key=lambda path: float(path.parent.name)) if _LIBRARY.exists() else []
    on_path = shutil.which("initdb")
    programs = found[-1] if found else Path(on_path).parent if on_path else None
    if programs is None or not (programs / "initdb").exists():
        pytest.skip("PostgreSQL's server is not installed; apt-get install postgresql")
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

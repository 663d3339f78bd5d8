"""Issue certificates with chosen days of validity, by openssl."""

from __future__ import annotations

import subprocess
from datetime import UTC, datetime, timedelta
from pathlib import Path

from shareproxy.testing.kafka_jars import find_tool

# elliptic keys are made in no time
_NEW_KEY = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1")
_CONFIG = """\
[ca]
default_ca = authority
[authority]
dir = {directory}
database = $dir/index.txt
serial = $dir/serial
new_certs_dir = $dir
default_md = sha256
policy = anything
unique_subject = no
[anything]
commonName = supplied
[leaf]
subjectAltName = IP:127.0.0.1,DNS:localhost
basicConstraints = CA:FALSE
"""


class Authority:
    """A throw-away certificate authority in a directory.

    Attributes:
        certificate: PEM file of the authority itself, valid for a month.
    """

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._config = directory / "authority.cnf"
        self._config.write_text(_CONFIG.format(directory=directory))
        (directory / "index.txt").touch()
        (directory / "serial").write_text("01\n")
        self.certificate, self._key = directory / "authority.pem", directory / "authority-key.pem"
        self._openssl(
            "req", "-x509", *_NEW_KEY, "-nodes", "-batch", "-days", "30", "-subj", "/CN=test authority",
            "-keyout", str(self._key), "-out", str(self.certificate),
        )  # fmt: skip

    def issue(self, path: Path, *, days: int) -> None:
        """Write key and certificate for 127.0.0.1 to one file, valid from sixty days ago until `days` from now."""
        key, request, issued = (path.with_suffix(suffix) for suffix in (".key", ".csr", ".crt"))
        now = datetime.now(UTC)
        begin, end = (f"{now + timedelta(days):%Y%m%d%H%M%SZ}" for days in (-60, days))
        self._openssl(
            "req", *_NEW_KEY, "-nodes", "-batch", "-subj", "/CN=localhost", "-keyout", str(key),
            "-out", str(request),
        )  # fmt: skip
        self._openssl(
            "ca", "-config", str(self._config), "-batch", "-notext", "-cert", str(self.certificate),
            "-keyfile", str(self._key), "-startdate", begin, "-enddate", end, "-extensions", "leaf",
            "-in", str(request), "-out", str(issued),
        )  # fmt: skip
        path.write_text(key.read_text() + issued.read_text())

    @staticmethod
    def _openssl(*arguments: str) -> None:
        done = subprocess.run([str(find_tool("openssl")), *arguments], capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr

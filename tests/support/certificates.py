"""Names come in; a certificate for them, by an authority of its own, goes out.

For tests only: the key has no password.
"""

from __future__ import annotations

import subprocess
from dataclasses import dataclass
from pathlib import Path

from shareproxy.testing.kafka_jars import find_tool


@dataclass(frozen=True)
class Issued:
    """PEM files: the authority's certificate, and one with a key and its certificate."""

    ca_pem: Path
    pem: Path


def issue(directory: Path, *names: str) -> Issued:
    """Make an authority and a certificate.

    Args:
        directory: gets the files.
        names: alternative names as openssl writes them, such as "DNS:*.kafka.example" or "IP:::1".
    """
    openssl = str(find_tool("openssl"))
    ca, ca_key, key, request, certificate = (
        directory / name for name in ("ca.pem", "ca-key.pem", "key.pem", "request.pem", "certificate.pem")
    )
    extensions = directory / "extensions"
    extensions.write_text(f"subjectAltName={','.join(names)}\n")
    new = ["req", "-newkey", "rsa:2048", "-nodes", "-batch"]
    sign = ["x509", "-req", "-days", "2", "-CAcreateserial", "-CA", ca, "-CAkey", ca_key, "-extfile", extensions]
    for command in (
        [*new, "-x509", "-days", "2", "-subj", "/CN=test authority", "-keyout", ca_key, "-out", ca],
        [*new, "-subj", "/CN=proxy", "-keyout", key, "-out", request],
        [*sign, "-in", request, "-out", certificate],
    ):
        subprocess.run([openssl, *map(str, command)], check=True, capture_output=True)
    pem = directory / "proxy.pem"
    pem.write_text(key.read_text() + certificate.read_text())
    return Issued(ca, pem)

"""A certificate for tests with TLS."""

from __future__ import annotations

import ssl
import subprocess
from pathlib import Path
from typing import NamedTuple


class OwnCertificate(NamedTuple):
    """Files with a self-signed certificate for 127.0.0.1 only, its key, and the key under the password `secret`."""

    certificate: Path
    key: Path
    encrypted_key: Path

    def server_context(self, *, client_certificate: bool = False) -> ssl.SSLContext:
        """Return the context of a broker that shows this certificate, and wants it from clients too."""
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cafile=str(self.certificate))
        context.load_cert_chain(self.certificate, self.key)
        if client_certificate:
            context.verify_mode = ssl.CERT_REQUIRED
        return context


def make_certificate(openssl: str, folder: Path) -> OwnCertificate:
    """Make the files with the openssl program."""
    made = OwnCertificate(folder / "cert.pem", folder / "key.pem", folder / "encrypted.pem")
    name = ["-subj", "/CN=test", "-addext", "subjectAltName=IP:127.0.0.1", "-days", "3"]
    new = [openssl, "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-batch", *name]
    encrypt = [openssl, "pkcs8", "-topk8", "-in", str(made.key), "-out", str(made.encrypted_key)]
    for command in (
        [*new, "-keyout", str(made.key), "-out", str(made.certificate)],
        [*encrypt, "-passout", "pass:secret"],
    ):
        subprocess.run(command, check=True, capture_output=True)
    return made

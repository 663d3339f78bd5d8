"""What several test files of this layer need."""

from __future__ import annotations

import shutil

import pytest

from tests.cluster.certificates import OwnCertificate, make_certificate


@pytest.fixture(scope="session")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> OwnCertificate:
    """Make a certificate once."""
    openssl = shutil.which("openssl")
    if openssl is None:
        pytest.skip("no openssl to make certificates with")
    return make_certificate(openssl, tmp_path_factory.mktemp("certificates"))

"""Our own connections are made as a property file says."""

from __future__ import annotations

from pathlib import Path

import pytest

from shareproxy.cluster.errors import PropertiesError
from shareproxy.cluster.own_connection import connection_from_file
from shareproxy.cluster.security import PLAINTEXT


def test_without_a_file() -> None:
    """Plain text, under the name given."""
    found = connection_from_file(None, "me")

    assert (found.security, found.client_id, found.notes) == (PLAINTEXT, "me", ())


def test_with_a_file(tmp_path: Path) -> None:
    """Its security, its name unless another was chosen, and notes on the rest."""
    file = tmp_path / "client.properties"
    file.write_text("security.protocol=PLAINTEXT\nclient.id=theirs\nlinger.ms=5\n")

    default, chosen = connection_from_file(file, "shareproxy"), connection_from_file(str(file), "mine")

    assert (default.client_id, chosen.client_id) == ("theirs", "mine")
    assert default.security == PLAINTEXT
    [note] = default.notes
    assert note.startswith(f"{file}: not used here: linger.ms")


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    """The error names it."""
    with pytest.raises(PropertiesError, match="absent"):
        connection_from_file(tmp_path / "absent", "me")

"""Own connections, from settings and a Java property file."""

from __future__ import annotations

from pathlib import Path

import pytest

from shareproxy.cluster.security import PLAINTEXT
from shareproxy.config import ConfigError, Settings
from shareproxy.connecting import bootstrap_addresses, one_address, own_connection


def write(directory: Path, text: str) -> str:
    """Write a property file and return its path."""
    path = directory / "client.properties"
    path.write_text(text)
    return str(path)


def test_without_a_file_nothing_is_secured() -> None:
    """Plain text under our own name."""
    own = own_connection(Settings())
    assert (own.security, own.client_id, own.notes) == (PLAINTEXT, "shareproxy", ())


def test_the_files_client_id_is_used_unless_the_settings_name_one(tmp_path: Path) -> None:
    """The nearer to the person, the stronger."""
    path = write(tmp_path, "client.id=from-file\n")
    assert own_connection(Settings(command_config=path)).client_id == "from-file"
    assert own_connection(Settings(command_config=path, client_id="mine")).client_id == "mine"


def test_keys_that_do_nothing_are_said(tmp_path: Path) -> None:
    """A typo must not turn TLS into plain text without a word."""
    path = write(tmp_path, "security.protcol=SSL\n")
    own = own_connection(Settings(command_config=path))
    assert own.security == PLAINTEXT
    assert len(own.notes) == 1
    assert "security.protcol" in own.notes[0]
    assert path in own.notes[0]


def test_one_address_is_one() -> None:
    """A listener has one; brokers may be several."""
    addresses = bootstrap_addresses(Settings(bootstrap_server="a:1,[::1]:2"))
    assert [str(address) for address in addresses] == ["a:1", "[::1]:2"]
    with pytest.raises(ConfigError, match="listen: one HOST:PORT is wanted, not 2"):
        one_address("listen", "a:1,b:2")


@pytest.mark.parametrize(
    ("key", "text", "example"),
    [
        ("http", "9464", "127.0.0.1:9464"),
        ("http", "8080", "127.0.0.1:8080"),
        ("http", "localhost", "127.0.0.1:9464"),
        ("http", "99999", "127.0.0.1:9464"),
        ("listen", "localhost", "127.0.0.1:19092"),
    ],
)
def test_example_is_what_somebody_may_have_meant(key: str, text: str, example: str) -> None:
    """The port that was given, or else the one that this setting usually has."""
    with pytest.raises(ConfigError) as caught:
        one_address(key, text)
    assert str(caught.value) == f"{key}: {text!r} is not HOST:PORT; write for instance {example}"

"""Settings: sources, their order, and what a wrong one is told."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from shareproxy.config import ConfigError, Settings, environment_name, flag_name, load_settings, setting_keys


def write(directory: Path, text: str) -> Path:
    """Put a settings file into a directory."""
    path = directory / "shareproxy.toml"
    path.write_text(text, encoding="utf-8")
    return path


def test_defaults_need_no_source() -> None:
    """Nothing given means the documented defaults."""
    assert load_settings() == Settings()


def test_flags_go_over_environment_over_file(tmp_path: Path) -> None:
    """The nearer to the person, the stronger."""
    path = write(tmp_path, 'listen = "a:1"\nhttp = "a:2"\nadvertised_host = "a"\n')
    settings = load_settings(
        path, {"SHAREPROXY_LISTEN": "b:1", "SHAREPROXY_HTTP": "b:2"}, {"listen": "c:1", "http": None}
    )
    assert (settings.listen, settings.http, settings.advertised_host) == ("c:1", "b:2", "a")


def test_sections_have_dotted_keys(tmp_path: Path) -> None:
    """A key inside a table can be set from each source."""
    path = write(tmp_path, "[limits]\nmax_connections = 7\n[log]\nlevel = 'debug'\n")
    settings = load_settings(path, {"SHAREPROXY_LIMITS_CONNECT_TIMEOUT": "2.5"}, {"log.format": "json"})
    assert settings.limits.max_connections == 7
    assert settings.limits.connect_timeout == 2.5
    assert (settings.log.level, settings.log.format) == ("debug", "json")


def test_foreign_variables_are_left_alone() -> None:
    """Kubernetes adds variables with our prefix for a service of that name."""
    assert (
        load_settings(None, {"SHAREPROXY_PORT": "tcp://10.0.0.1:19092", "SHAREPROXY_SERVICE_HOST": "x"}) == Settings()
    )


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ('listn = "a:1"', ["'listn'", "did you mean 'listen'"]),
        ("[limits]\nmax_conections = 1", ["'limits.max_conections'", "'limits.max_connections'"]),
        ("[limits]\nmax_connections = 0", ["limits.max_connections", ">= 1"]),
        ('lag_source = "guess"', ["lag_source", "auto, broker, summary, batches"]),
        ("zzzzzzzzzzzzz = 1", ["known keys: bootstrap_server"]),
        ("listen = \nhttp = 1", ["is not TOML", "line 1"]),
        ("limits = 3", ["'limits' is a table"]),
        ("[limits]\nmax_connections_per_address = -1", ["limits.max_connections_per_address", ">= 0"]),
        ("[limits]\nunauthenticated_timeout = 0", ["limits.unauthenticated_timeout", "> 0"]),
        ("listen = " + "[" * 3_000, ["too deep or too long"]),
        ("node_ids = " + "9" * 5_000, ["too deep or too long"]),
    ],
)
def test_a_wrong_file_is_told_where_and_what(tmp_path: Path, text: str, parts: list[str]) -> None:
    """The error names the file, the key's path and the nearest right name."""
    path = write(tmp_path, text)
    with pytest.raises(ConfigError) as caught:
        load_settings(path)
    assert str(caught.value).startswith(f"{path}: ")
    for part in parts:
        assert part in str(caught.value)


def test_an_unreadable_file_is_named(tmp_path: Path) -> None:
    """A file that is not there, or not text, is an error with its path."""
    with pytest.raises(ConfigError, match="cannot be read: No such file"):
        load_settings(tmp_path / "none.toml")
    path = tmp_path / "binary.toml"
    path.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(ConfigError, match="is not UTF-8"):
        load_settings(path)


@pytest.mark.parametrize(
    ("environment", "flags", "source"),
    [
        ({"SHAREPROXY_LAG_TIMEOUT": "soon"}, {}, "environment variable SHAREPROXY_LAG_TIMEOUT='soon': lag_timeout: "),
        ({"SHAREPROXY_LISTEN": "\udcff"}, {}, "environment variable SHAREPROXY_LISTEN='\\udcff': is not UTF-8"),
        ({}, {"lag_timeout": -1.0}, "flag --lag-timeout: lag_timeout: "),
    ],
)
def test_the_source_of_a_wrong_value_is_named(
    environment: Mapping[str, str], flags: Mapping[str, object], source: str
) -> None:
    """A person can tell which of the sources to mend."""
    with pytest.raises(ConfigError) as caught:
        load_settings(None, environment, flags)
    assert str(caught.value).startswith(source)


def test_each_key_has_a_variable_and_a_flag_of_its_own() -> None:
    """Names made from keys do not collide."""
    keys = [key for key, _ in setting_keys()]
    assert len({environment_name(key) for key in keys}) == len(keys) == len({flag_name(key) for key in keys})

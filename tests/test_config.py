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
        ("[limits]\nmax_connections = 0", ["limits.max_connections: must be a whole number of at least 1"]),
        ('lag_source = "guess"', ["lag_source", "auto, broker, summary, batches"]),
        ("zzzzzzzzzzzzz = 1", ["known keys: bootstrap_server"]),
        ("listen = \nhttp = 1", ["is not TOML", "line 1"]),
        ("limits = 3", ["'limits' is a table"]),
        ("[limits]\nmax_connections_per_address = -1", ["limits.max_connections_per_address: ", "of at least 0"]),
        ("[limits]\nunauthenticated_timeout = 0", ["limits.unauthenticated_timeout: ", "from 0.1 to 86400"]),
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
        ({"SHAREPROXY_LAG_TIMEOUT": "soon"}, {}, "environment variable SHAREPROXY_LAG_TIMEOUT='soon': must be "),
        ({"SHAREPROXY_LISTEN": "\udcff"}, {}, "environment variable SHAREPROXY_LISTEN='\\udcff': is not UTF-8"),
        ({}, {"lag_timeout": -1.0}, "flag --lag-timeout: must be a number of seconds"),
    ],
)
def test_the_source_of_a_wrong_value_is_named(
    environment: Mapping[str, str], flags: Mapping[str, object], source: str
) -> None:
    """A person can tell which of the sources to mend."""
    with pytest.raises(ConfigError) as caught:
        load_settings(None, environment, flags)
    assert str(caught.value).startswith(source)


@pytest.mark.parametrize(
    ("key", "value", "wanted"),
    [
        ("workers", "0", "must be a whole number from 1 to 128"),
        ("workers", "two", "must be a whole number from 1 to 128"),
        ("workers", "129", "must be a whole number from 1 to 128"),
        ("advertised_port", "65536", "must be a whole number from 0 to 65535"),
        ("exporter.stale_after", "0", "must be a whole number of at least 1"),
        ("timeout", "1e-9", "must be a number of seconds, from 0.1 to 86400"),
        ("exporter.interval", "0.09", "must be a number of seconds, from 0.1 to 86400"),
        ("limits.connect_timeout", "0", "must be a number of seconds, from 0.1 to 86400"),
        ("limits.idle_timeout", "0.05", "must be a number of seconds, 0 for no limit, or 0.1 to 86400"),
        ("limits.stalled_timeout", "0.05", "must be a number of seconds, 0 for no limit, or 0.1 to 86400"),
        ("limits.idle_timeout", "-1", "must be a number of seconds, 0 for no limit, or 0.1 to 86400"),
        ("stop_delay", "-1", "must be a number of seconds, from 0 to 86400"),
        ("exporter.enabled", "perhaps", "must be true or false"),
        ("log.level", "loud", "choose one of debug, info, warning, error"),
        ("listen", 19092, "must be text; in a file, in quotes"),
    ],
)
def test_what_is_wanted_is_said_in_words(key: str, value: object, wanted: str) -> None:
    """Once, and without the names of our types."""
    with pytest.raises(ConfigError) as caught:
        load_settings(flags={key: value})
    assert str(caught.value) == f"flag {flag_name(key)}: {wanted}"


def test_seconds_may_be_as_short_as_a_tenth() -> None:
    """Or nothing, where that is the word for no limit or no delay."""
    flags = {"timeout": "0.1", "limits.idle_timeout": "0", "limits.slow_request_timeout": "0.1", "stop_delay": "0"}
    settings = load_settings(flags=flags)
    assert (settings.timeout, settings.limits.idle_timeout, settings.limits.slow_request_timeout) == (0.1, 0.0, 0.1)
    assert load_settings(flags={"limits.idle_timeout": "0.1"}).limits.idle_timeout == 0.1


def test_an_empty_variable_is_not_given_unless_it_is_text(tmp_path: Path) -> None:
    """Compose makes one of a variable that is not set; an empty text may be meant."""
    path = write(tmp_path, "workers = 3\nlisten = 'a:1'\nadvertised_host = 'a'\n[log]\nlevel = 'debug'\n")
    names = ("WORKERS", "LAG_TIMEOUT", "EXPORTER_ENABLED", "LOG_LEVEL", "ADVERTISED_HOST")
    settings = load_settings(path, {f"SHAREPROXY_{name}": "" for name in names})
    assert (settings.workers, settings.lag_timeout, settings.exporter.enabled) == (3, 3.0, True)
    assert (settings.log.level, settings.advertised_host) == ("debug", "")


@pytest.mark.parametrize("source", ["environment", "flags", "number in a file", "list in a file", "no TOML"])
def test_no_error_shows_a_password(tmp_path: Path, source: str) -> None:
    """Logs and terminals are read by others."""
    secret = "4711471147114711"
    path: Path | None = None
    environment, flags = dict[str, str](), dict[str, object]()
    match source:
        case "environment":
            environment = {"SHAREPROXY_TLS_KEY_PASSWORD": f"{secret}\udcff"}
        case "flags":
            flags = {"tls.key_password": f"{secret}\udcff"}
        case "number in a file":
            path = write(tmp_path, f"[tls]\nkey_password = {secret}\n")
        case "list in a file":
            path = write(tmp_path, f"[tls]\nkey_password = ['{secret}']\n")
        case _:
            path = write(tmp_path, f"[tls]\nkey_password = x{secret}\n")

    with pytest.raises(ConfigError) as caught:
        load_settings(path, environment, flags)
    assert secret not in str(caught.value)


def test_each_key_has_a_variable_and_a_flag_of_its_own() -> None:
    """Names made from keys do not collide."""
    keys = [key for key, _ in setting_keys()]
    assert len({environment_name(key) for key in keys}) == len(keys) == len({flag_name(key) for key in keys})


def test_a_file_that_is_not_there_blames_no_flag(tmp_path: Path) -> None:
    """Its path may come from --config, --sink or a variable."""
    with pytest.raises(ConfigError, match=r"none\.toml: cannot be read: No such file or directory; check its path$"):
        load_settings(tmp_path / "none.toml")

"""Flags that several commands share."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest
from click.testing import CliRunner

from shareproxy.cli.main import app
from shareproxy.cli.options import Connection, settings_from, topic_selection
from shareproxy.config import ConfigError, flag_name


@pytest.mark.parametrize(
    ("given", "selection"),
    [
        ([], None),
        (["orders"], {"orders": None}),
        (["orders:0"], {"orders": [0]}),
        (["orders:2,0", "orders:1"], {"orders": [0, 1, 2]}),
        (["orders:1", "orders"], {"orders": None}),
        (["orders", "orders:1"], {"orders": None}),
        (["a:0", "b"], {"a": [0], "b": None}),
    ],
)
def test_topics_and_partitions(given: Sequence[str], selection: dict[str, list[int] | None] | None) -> None:
    """All of a topic wins over some of it."""
    assert topic_selection(given) == selection


@pytest.mark.parametrize("text", ["", ":", ":1", "orders:", "orders:x", "orders:1,", "orders:-1", "orders:1:2"])
def test_what_is_no_topic_is_refused(text: str) -> None:
    """With an example of what to write."""
    with pytest.raises(ConfigError, match="orders:0,1"):
        topic_selection([text])


@pytest.mark.parametrize("number", ["nan", "NaN", "inf", "Infinity"])
@pytest.mark.parametrize("command", [("wait", "g", "--timeout"), ("top", "--batch", "--interval")])
def test_a_number_of_seconds_has_an_end(command: tuple[str, ...], number: str) -> None:
    """Nothing is ever later than NaN or infinity: it would wait for ever."""
    result = CliRunner().invoke(app, [*command, number, "--bootstrap-server", "127.0.0.1:1"])
    assert result.exit_code == 2
    assert f"{number!r} is not a number of seconds; write for instance 30" in result.stderr


@pytest.mark.parametrize("number", ["nan", "inf", "-inf"])
@pytest.mark.parametrize(
    ("variable", "key"), [("SHAREPROXY_TIMEOUT", "timeout"), ("SHAREPROXY_EXPORTER_INTERVAL", "exporter.interval")]
)
def test_seconds_among_the_settings_have_an_end_too(
    variable: str, key: str, number: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Wherever they come from, the sentence says what they have to be."""
    monkeypatch.setenv(variable, number)
    with pytest.raises(ConfigError, match=rf"{variable}='{number}': must be a number of seconds"):
        settings_from(None, {"bootstrap_server": "b:9092"})
    monkeypatch.delenv(variable)
    with pytest.raises(ConfigError, match=f"{flag_name(key)}: must be a number of seconds"):
        settings_from(None, {"bootstrap_server": "b:9092", key: float(number)})


def test_flags_of_the_connection_go_over_environment_and_file(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """What was not given is taken from there, and other flags go with them."""
    file = tmp_path / "shareproxy.toml"
    file.write_text('bootstrap_server = "file:9092"\nclient_id = "me"\n')
    monkeypatch.setenv("SHAREPROXY_BOOTSTRAP_SERVER", "environment:9092")
    settings = Connection("flag:9092", None, str(file)).settings({"timeout": 7.0})
    assert (settings.bootstrap_server, settings.client_id, settings.timeout) == ("flag:9092", "me", 7.0)
    assert Connection(None, None, str(file)).settings({}).bootstrap_server == "environment:9092"

"""Finding sinks and converters by name."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

import pytest

from shareproxy.config import ConfigError
from shareproxy.drain.sink_config import ConnectorSettings, ConverterSettings, load_sink_settings
from shareproxy.drain.sink_loading import BUILT_IN, make_converter, make_sink, sink_names
from tests.support.file_sink import LineSink


class NoSink:
    """Something else."""


class Needy(LineSink):
    """A sink that wants arguments."""

    def __init__(self, needed: Any) -> None:
        super().__init__()


class Clumsy(LineSink):
    """A sink whose check has a bug."""

    @staticmethod
    def check(config: Any) -> None:
        """Ask for what is not there."""
        config["missing"]


def connector(tmp_path: Path, name: str, settings: str = "directory = 'x'") -> ConnectorSettings:
    """Return a connector with a sink of this name."""
    file = tmp_path / "sink.toml"
    file.write_text(
        f'[worker]\n"bootstrap.servers" = "x:1"\n[connectors.orders]\nclass = "{name}"\ntopics = "t"\n'
        f"[connectors.orders.sink]\n{settings}\n"
    )
    return load_sink_settings(file).connectors[0]


def test_a_sink_of_ones_own_is_found_by_module_and_class(tmp_path: Path) -> None:
    """It is made without arguments."""
    assert isinstance(make_sink(connector(tmp_path, "tests.support.file_sink:LineSink")), LineSink)


@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        ("postgres", "there is no sink 'postgres'; did you mean 'postgresql'?"),
        ("zzzz", "there is no sink 'zzzz'; there are files, http"),
        ("no_such_package.sinks:Sink", "there is no module 'no_such_package'; is its package installed"),
        ("tests.support.file_sink:LinesSink", "has no 'LinesSink'; did you mean 'LineSink'?"),
        ("tests.drain.test_sink_loading:NoSink", "is no sink: it has no start and no put and no stop"),
        ("tests.drain.test_sink_loading:Clumsy", "cannot check its settings: KeyError"),
        ("tests.drain.test_sink_loading:Needy", "cannot be made without arguments: TypeError"),
    ],
)
def test_bad_input_a_sink_that_cannot_be_found_or_made(tmp_path: Path, name: str, sentence: str) -> None:
    """The key's place, and what to write."""
    with pytest.raises(ConfigError) as error:
        make_sink(connector(tmp_path, name))

    assert sentence in str(error.value)
    assert '[connectors.orders] "class": ' in str(error.value)


def test_bad_input_a_sink_checks_its_own_settings(tmp_path: Path) -> None:
    """Before anything is connected; its table is named."""
    with pytest.raises(ConfigError, match=r"\[connectors\.orders\.sink\]: directory: is missing"):
        make_sink(connector(tmp_path, "tests.support.file_sink:LineSink", ""))


def test_the_built_in_sinks_have_names() -> None:
    """All of them can be listed."""
    assert set(BUILT_IN) <= set(sink_names())


def test_converters_are_found_by_name() -> None:
    """`raw` leaves bytes as they are."""
    as_json = make_converter("value.converter", ConverterSettings("json"), "here")
    assert as_json is not None
    assert as_json(b'{"a": 1}') == {"a": 1}
    assert make_converter("key.converter", ConverterSettings("raw"), "here") is None


def test_bad_input_a_converter_that_is_not_there() -> None:
    """Place, key, and what there is."""
    with pytest.raises(ConfigError, match=r'^here "value\.converter": .*json'):
        make_converter("value.converter", ConverterSettings("jsonn"), "here")


def test_the_sinks_that_are_there_always_are_those_that_the_package_names() -> None:
    """Else one could not be used where the package is not installed."""
    project = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text())

    assert dict(BUILT_IN) == project["project"]["entry-points"]["shareproxy.sinks"]

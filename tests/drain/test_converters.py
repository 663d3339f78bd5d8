"""Converters by name."""

from __future__ import annotations

import sys
from importlib.metadata import EntryPoint
from typing import Any

import pytest

from shareproxy.drain import converters
from shareproxy.drain.converters import converter


def upper(settings: Any) -> Any:
    """Make a converter, as a package of somebody's would."""
    if "suffix" not in settings:
        raise ValueError("suffix: is missing")
    return lambda data: data.decode().upper() + settings["suffix"]


@pytest.fixture
def installed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two converters of another package, one of them broken."""
    entries = [
        EntryPoint("upper", f"{__name__}:upper", converters.ENTRY_POINTS),
        EntryPoint("broken", "no_such_module_anywhere:made", converters.ENTRY_POINTS),
    ]

    def entry_points(*, group: str, name: str = "") -> list[EntryPoint]:
        return [entry for entry in entries if entry.group == group and name in ("", entry.name)]

    monkeypatch.setattr("importlib.metadata.entry_points", entry_points)
    monkeypatch.setattr(
        EntryPoint, "load", lambda self: upper if self.name == "upper" else __import__("no_such_module")
    )


def test_those_of_the_package_are_there_by_name() -> None:
    """Raw leaves bytes as they are."""
    read = converter("json", {})

    assert read is not None
    assert read(b"[1]") == [1]
    assert converter("raw", {}) is None


def test_settings_that_nobody_reads_are_refused() -> None:
    """They would be ignored otherwise."""
    with pytest.raises(ValueError, match="converter 'json' has no setting 'schema'; leave it out"):
        converter("json", {"schema": 1})


@pytest.mark.usefixtures("installed")
def test_one_of_an_installed_package_gets_its_settings() -> None:
    """And says itself what is wrong with them."""
    read = converter("upper", {"suffix": "!"})

    assert read is not None
    assert read(b"a") == "A!"
    with pytest.raises(ValueError, match="suffix: is missing"):
        converter("upper", {})


@pytest.mark.usefixtures("installed")
@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("xml", "there is no converter 'xml'; there are raw, .*avro, json-schema, broken, upper"),
        ("broken", "'broken' cannot be loaded: Module"),
    ],
)
def test_one_that_is_not_there_is_told(name: str, said: str) -> None:
    """With those that are."""
    with pytest.raises(ValueError, match=said):
        converter(name, {})


def test_packages_that_are_missing_are_told_with_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    """A schema registry is asked with packages that nobody else needs."""
    monkeypatch.setitem(sys.modules, "shareproxy.drain.schema_converter", None)

    with pytest.raises(
        ValueError, match=r"converter 'avro' needs packages .* pip install 'shareproxy\[schema-registry\]'"
    ):
        converter("avro", {})

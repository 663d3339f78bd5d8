"""The reference of the built-in sinks agrees with the code, and each example is a file that is taken."""

from __future__ import annotations

import re
from pathlib import Path

import msgspec
import pytest

from shareproxy.drain.converters import SCHEMA_CONVERTERS
from shareproxy.drain.schema_registry import RegistrySettings
from shareproxy.drain.sink_config import load_sink_settings
from shareproxy.drain.sink_loading import make_converter, make_sink
from shareproxy.drain.sinks.files import FilesSettings
from shareproxy.drain.sinks.http import HttpSettings
from shareproxy.drain.sinks.kafka import KafkaSettings
from shareproxy.drain.sinks.postgresql import PostgresqlSettings
from shareproxy.drain.sinks.s3 import S3Settings
from shareproxy.drain.sinks.settings import settings_of

PAGE = (Path(__file__).parent.parent / "docs" / "reference.md").read_text(encoding="utf-8")
SECTION = PAGE.partition("\n## Built-in sinks\n")[2].partition("\n## ")[0]
SINKS: dict[str, type[msgspec.Struct]] = {
    "postgresql": PostgresqlSettings,
    "http": HttpSettings,
    "files": FilesSettings,
    "kafka": KafkaSettings,
    "s3": S3Settings,
}
CONVERTERS = PAGE.partition("\n### Converters `avro` and `json-schema`\n")[2].partition("\n## ")[0]


def part(name: str) -> str:
    """Return what the page says of a sink."""
    return SECTION.partition(f"### Sink `{name}`\n")[2].partition("\n### ")[0]


def settings_shown(text: str) -> list[tuple[str, str, str]]:
    """Return the rows of a table of settings."""
    return re.findall(r"^\| `([\w.]+)` \| (.+?) \| (.+) \|$", text, re.MULTILINE)


def settings_made(kind: type[msgspec.Struct]) -> list[tuple[str, str, str]]:
    """Return what such a table has to show."""
    return [(each.key, shown(each.default), each.about) for each in settings_of(kind)]


def shown(default: object) -> str:
    """Return a default as the page shows it."""
    if default is msgspec.NODEFAULT:
        return "needed"
    if default in ("", [], {}):
        return "none"
    if isinstance(default, dict):
        return ", ".join(f"`{key}`" for key in default)
    return f"`{default}`"


def test_exactly_the_sinks_are_documented() -> None:
    """In their order."""
    assert re.findall(r"^### Sink `(.+)`$", SECTION, re.MULTILINE) == list(SINKS)


@pytest.mark.parametrize("name", SINKS)
def test_exactly_the_settings_are_documented(name: str) -> None:
    """With default and meaning."""
    assert settings_shown(part(name)) == settings_made(SINKS[name])


@pytest.mark.parametrize("name", SINKS)
def test_the_example_is_taken(name: str, tmp_path: Path) -> None:
    """The sink checks its settings, and the converter is there."""
    (example,) = re.findall(r"```toml\n(.*?)```", part(name), re.DOTALL)
    file = tmp_path / "sink.toml"
    file.write_text(example)

    settings = load_sink_settings(file, {"DB_PASSWORD": "p", "HOOK_TOKEN": "t"})
    (connector,) = settings.connectors

    assert connector.sink_class == name
    make_sink(connector)
    make_converter("value.converter", connector.value_converter, connector.where)


def test_exactly_the_settings_of_the_registry_are_documented() -> None:
    """Both converters have the same."""
    assert settings_shown(CONVERTERS) == settings_made(RegistrySettings)
    assert "### Converters `" + "` and `".join(SCHEMA_CONVERTERS) + "`" in PAGE


def test_the_example_of_a_converter_is_taken(tmp_path: Path) -> None:
    """By a connector that is as it stands there."""
    (example,) = re.findall(r"```toml\n(.*?)```", CONVERTERS, re.DOTALL)
    file = tmp_path / "sink.toml"
    file.write_text(example)

    (connector,) = load_sink_settings(file, {"REGISTRY_PASSWORD": "p"}).connectors

    make_sink(connector)
    assert make_converter("value.converter", connector.value_converter, connector.where) is not None

"""The generator of the typed messages."""

import sys
from pathlib import Path

import pytest

from shareproxy.protocol import generate, schema_files
from shareproxy.protocol.schema_files import load_schema

MESSAGES = Path(generate.__file__).with_name("messages.py")


def test_checked_in_messages_are_current(monkeypatch: pytest.MonkeyPatch) -> None:
    """The module is exactly what the schemas give."""
    monkeypatch.setattr(sys, "argv", ["generate", "--check"])
    assert generate.main() == 0


def test_outdated_messages_are_noticed(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A module that differs in one character is refused, and made right by the generator."""
    monkeypatch.setattr(generate, "__file__", str(tmp_path / "generate.py"))
    copy = tmp_path / "messages.py"
    copy.write_text(MESSAGES.read_text(encoding="utf-8").replace("lag: int = -1", "lag: int = 0"), encoding="utf-8")
    monkeypatch.setattr(sys, "argv", ["generate", "--check"])
    assert generate.main() == 1
    assert "make generate" in capsys.readouterr().err
    monkeypatch.setattr(sys, "argv", ["generate"])
    assert generate.main() == 0
    assert copy.read_bytes() == MESSAGES.read_bytes()


def test_class_names_that_collide_are_refused(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Two messages cannot have a class of the same name."""
    schema = """{{ "apiKey": {key}, "type": "request", "name": "{name}", "validVersions": "0",
      "flexibleVersions": "none", "fields": [ {{ "name": "P", "type": "TryAgainPart", "versions": "0+",
      "fields": [ {{ "name": "X", "type": "int8", "versions": "0+" }} ] }} ] }}"""
    for key, name in enumerate(["TryRequest", "TryAgainRequest"]):
        (tmp_path / f"{name}.json").write_text(schema.format(key=key, name=name), encoding="utf-8")
    monkeypatch.setattr(schema_files, "schema_directory", lambda: tmp_path)
    load_schema.cache_clear()
    with pytest.raises(ValueError, match="class TryAgainPart is needed by"):
        generate.render()
    load_schema.cache_clear()

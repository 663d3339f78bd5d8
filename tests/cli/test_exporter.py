"""`shareproxy exporter`: flags, and what a wrong one is told."""

from __future__ import annotations

import pytest
from click.testing import CliRunner

from shareproxy import service
from shareproxy.cli.exporter import exporter
from shareproxy.config import Exporter, Settings, flag_name

BROKER = ("--bootstrap-server", "127.0.0.1:1")


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> list[Settings]:
    """Keep the settings instead of running."""
    kept: list[Settings] = []
    monkeypatch.setattr(service, "export_until_stopped", kept.append)
    return kept


def test_without_flags_the_defaults_hold(started: list[Settings]) -> None:
    """Nothing but a broker has to be named."""
    assert CliRunner().invoke(exporter, BROKER).exit_code == 0
    assert started == [Settings(bootstrap_server="127.0.0.1:1")]


def test_each_flag_reaches_its_setting(started: list[Settings]) -> None:
    """By the name that an error would use."""
    given = {
        "interval": 5.0, "stale_after": 2, "include_groups": "a", "exclude_groups": "b", "include_topics": "c",
        "exclude_topics": "d", "granularity": "topic", "visible": "offsets", "cluster_label": "e",
    }  # fmt: skip
    flags = [text for key, value in given.items() for text in (flag_name(f"exporter.{key}"), str(value))]
    done = CliRunner().invoke(exporter, [*BROKER, *flags, "--internal-topics", "--http", "0.0.0.0:1"])

    assert done.exit_code == 0, done.output
    assert started[0].exporter == Exporter(**given, internal_topics=True)  # type: ignore[arg-type]
    assert started[0].http == "0.0.0.0:1"


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        (("--interval", "soon"), "flag --interval: must be a number of seconds"),
        (("--granularity", "member"), "choose one of partition, topic, group"),
        (("--stale-after", "0"), "flag --stale-after: must be a whole number of at least 1"),
    ],
)
def test_a_wrong_flag_is_named(started: list[Settings], flags: tuple[str, ...], words: str) -> None:
    """With what to write instead, and exit code 2."""
    done = CliRunner().invoke(exporter, [*BROKER, *flags])
    assert done.exit_code == 2
    assert words in done.stderr
    assert started == []

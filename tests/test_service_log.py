"""The log of the service: its forms, and a reader that goes away."""

from __future__ import annotations

import io
import json
import sys
from collections.abc import Iterator

import pytest
import structlog

from shareproxy.config import Log
from shareproxy.service_log import configure_log


@pytest.fixture(autouse=True)
def usual_log() -> Iterator[None]:
    """Put structlog's own configuration back after each test."""
    yield
    structlog.reset_defaults()


def test_json_has_one_object_a_line(capsys: pytest.CaptureFixture[str]) -> None:
    """A log collector reads level, time, event and the values; stdout stays free."""
    configure_log(Log(format="json"))
    structlog.get_logger().info("serving", listen="a:1")
    captured = capsys.readouterr()
    line = json.loads(captured.err)
    assert (line["event"], line["level"], line["listen"]) == ("serving", "info", "a:1")
    assert line["timestamp"].endswith("Z")
    assert captured.out == ""


def test_text_is_for_people(capsys: pytest.CaptureFixture[str]) -> None:
    """Key and value, without colour when stderr is not a terminal."""
    configure_log(Log(format="text"))
    structlog.get_logger().warning("cluster not reached", error="refused")
    text = capsys.readouterr().err
    assert "cluster not reached" in text
    assert "error=refused" in text
    assert "\x1b" not in text


def test_lines_below_the_level_are_left_out(capsys: pytest.CaptureFixture[str]) -> None:
    """The level is a floor."""
    configure_log(Log(level="error", format="json"))
    structlog.get_logger().warning("not this one")
    assert capsys.readouterr().err == ""


class Broken(io.StringIO):
    """A stream whose reader is gone."""

    def write(self, text: str) -> int:
        raise BrokenPipeError

    def flush(self) -> None:
        raise BrokenPipeError


def test_a_reader_that_went_away_is_no_error(monkeypatch: pytest.MonkeyPatch) -> None:
    """`shareproxy serve 2>&1 | head` must go on serving."""
    configure_log(Log(format="json"))
    monkeypatch.setattr(sys, "stderr", Broken())
    structlog.get_logger().info("nobody reads this")

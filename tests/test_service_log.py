"""The log of the service: its forms, and a reader that goes away."""

from __future__ import annotations

import io
import json
import sys
from collections.abc import Iterator
from typing import Literal

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


@pytest.mark.parametrize("worker", [None, 2])
def test_worker_is_named_in_each_line(capsys: pytest.CaptureFixture[str], worker: int | None) -> None:
    """Several processes write to one log; the supervisor names a worker by itself."""
    configure_log(Log(format="json"), worker=worker)
    structlog.get_logger().info("serving")
    structlog.get_logger().info("worker ended", worker=1)
    lines = [json.loads(line) for line in capsys.readouterr().err.splitlines()]
    assert [line.get("worker") for line in lines] == [worker, 1]


def test_text_is_for_people(capsys: pytest.CaptureFixture[str]) -> None:
    """Key and value, without colour when stderr is not a terminal."""
    configure_log(Log(format="text"))
    structlog.get_logger().warning("cluster not reached", error="refused")
    text = capsys.readouterr().err
    assert "cluster not reached" in text
    assert "error=refused" in text
    assert "\x1b" not in text


@pytest.mark.parametrize("format", ["json", "text"])
def test_names_cannot_forge_a_line(format: Literal["json", "text"], capsys: pytest.CaptureFixture[str]) -> None:
    """Line breaks and control characters in what a client named are written out."""
    configure_log(Log(format=format))
    structlog.get_logger().warning("lag not found", group="x\n2026-11-30 [error] forged\x1b[31m")
    text = capsys.readouterr().err
    assert text.count("\n") == 1
    assert "\x1b" not in text
    assert "x\\n2026" in text


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

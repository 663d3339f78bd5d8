"""What a supervisor and its workers say to each other."""

from __future__ import annotations

import pytest

from shareproxy.config import Limits, Settings, Tls
from shareproxy.workers.messages import (
    Drain,
    Failed,
    FromWorker,
    Hurry,
    Listening,
    Reload,
    Reloaded,
    Report,
    Reported,
    Start,
    ToWorker,
    decode_from_worker,
    decode_to_worker,
    line,
)

SETTINGS = Settings(
    bootstrap_server="a:1",
    limits=Limits(max_connections=3),
    tls=Tls(certificate="c.pem", key_password="line\nbreak"),
    stop_delay=0.5,
)


@pytest.mark.parametrize("message", [Start(2, SETTINGS), Reload(SETTINGS), Report(4), Drain(0.0, 1.5), Hurry()])
def test_worker_understands_its_supervisor(message: ToWorker) -> None:
    """Each message is one line."""
    text = line(message)

    assert text.count(b"\n") == 1
    assert decode_to_worker(text) == message


@pytest.mark.parametrize(
    "message",
    [Listening(), Failed("two\nlines"), Reported(1, "", {"counters": {"requests": {"Fetch": 2.5}}}), Reloaded("")],
)
def test_supervisor_understands_its_worker(message: FromWorker) -> None:
    """Each message is one line."""
    text = line(message)

    assert text.count(b"\n") == 1
    assert decode_from_worker(text) == message

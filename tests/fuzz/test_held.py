"""Measuring what a session holds."""

from __future__ import annotations

from collections import deque

from fuzz.held import held_bytes
from fuzz.messages import to_proxy
from shareproxy.proxy.hints import HintHider
from shareproxy.proxy.session import Session
from tests.proxy.frames import opaque_request


def test_each_object_counts_once() -> None:
    """Shared bytes are there once."""
    data = b"x" * 1_000

    assert held_bytes([data, (data, {"k": data}), deque([data]), memoryview(data)]) == 1_001


def test_bytes_of_a_session() -> None:
    """The start of a request is held until it is whole enough; its inside is not."""
    session = Session(to_proxy)
    empty = held_bytes(session)
    session.receive_from_client(opaque_request(1)[:7])

    assert held_bytes(session) == empty + 7


def test_bytes_in_a_generator() -> None:
    """Walks through large answers are generators."""
    hider = HintHider(1, 17, 1_000)
    empty = held_bytes(hider)
    hider.feed(b"\0\0\0\1\0" + bytes(10) + b"\1" + b"t" * 90)

    assert held_bytes(hider) == empty + 90

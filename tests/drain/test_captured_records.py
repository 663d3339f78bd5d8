"""Records of ShareFetch answers as Kafka 4.4.0 sent them, for both parsers.

`captured_records.json` holds, for each producer and compression, the bytes, the acquired ranges and what was produced.
`broker-…` were compressed by the broker (Java), as the topic's `compression.type` asked; the others by librdkafka.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import pytest

from shareproxy.drain.plain_records import PlainRecords
from shareproxy.drain.record_data import PARSER, Parser, decode_acquired

CAPTURED: Final[dict[str, Any]] = json.loads(Path(__file__).with_name("captured_records.json").read_text("utf-8"))
PRODUCED: Final[tuple[tuple[bytes | None, bytes | None, list[tuple[str, bytes | None]]], ...]] = (
    (b"k0", b"plain", []),
    (None, "größe".encode(), [("trace", b"1"), ("null", None)]),
    (b"k2", None, []),
    (b"", b"", [("empty", b"")]),
    (b"k4", b"x" * 120, []),
    (b"k5", b"y" * 120, [("h", b"a"), ("h", b"b")]),
)
parsers = pytest.mark.parametrize("parser", [PARSER, PlainRecords], ids=["compiled", "plain"])


@parsers
@pytest.mark.parametrize("name", CAPTURED)
def test_what_the_broker_sent(name: str, parser: Callable[[bytes], Parser]) -> None:
    """Both parsers give what was captured, field by field, and account for each acquired offset."""
    captured = CAPTURED[name]
    lot: Any = None

    decoded = decode_acquired(
        bytes.fromhex(captured["records"]),
        [tuple(each) for each in captured["acquired"]],
        topic="orders",
        partition=0,
        lot=lot,
        parser=parser,
    )

    assert [
        [
            record.offset,
            record.timestamp,
            str(record.timestamp_type),
            None if record.raw_key is None else record.raw_key.hex(),
            None if record.raw_value is None else record.raw_value.hex(),
            [[header, None if value is None else value.hex()] for header, value in record.headers],
        ]
        for record in decoded.records
    ] == captured["expected"]
    assert [list(gap) for gap in decoded.gaps] == captured["gaps"]
    assert (decoded.damaged, decoded.unread) == ([], [])


@pytest.mark.parametrize("name", [name for name in CAPTURED if "transactions" not in name and "committed" not in name])
def test_captured_is_what_was_produced(name: str) -> None:
    """The expectations are not our own reading only: they are what the test's producer sent."""
    found = [
        (
            None if key is None else bytes.fromhex(key),
            None if value is None else bytes.fromhex(value),
            [(header, None if content is None else bytes.fromhex(content)) for header, content in headers],
        )
        for _, _, _, key, value, headers in CAPTURED[name]["expected"]
    ]

    assert found == list(PRODUCED)


def test_markers_and_aborted_records() -> None:
    """Committed 0–2, marker 3, aborted 4–5, marker 6, committed 7, marker 8: with read_committed 4–5 are not ours."""
    everything = {offset for name in ("transactions-1", "transactions-2") for offset in _offsets(name)}
    committed = {offset for name in ("read-committed-1", "read-committed-2") for offset in _offsets(name)}

    assert everything == {0, 1, 2, 4, 5, 7}
    assert committed == {0, 1, 2, 7}


def _offsets(name: str) -> list[int]:
    return [row[0] for row in CAPTURED[name]["expected"]]

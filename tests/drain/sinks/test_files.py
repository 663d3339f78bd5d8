"""The files sink in a directory of the test's."""

from __future__ import annotations

import errno
import json
import os
from pathlib import Path
from typing import Any

import pytest

from shareproxy.drain.errors import DrainError
from shareproxy.drain.sink import Outcome, Retriable
from shareproxy.drain.sinks.files import FilesSink
from shareproxy.drain.sinks.settings import SettingsError
from tests.drain.sinks.records import Context, Record, records


def started(directory: Path, **settings: Any) -> FilesSink:
    """Return a sink that writes there."""
    sink = FilesSink()
    sink.start(Context(config={"directory": str(directory), **settings}))
    return sink


def offsets(path: Path) -> list[int]:
    """Return the offsets of a file's lines."""
    return [json.loads(line)["offset"] for line in path.read_text().splitlines()]


def whole(directory: Path) -> list[Path]:
    """Return the files that are whole."""
    return sorted(directory.glob("*.jsonl"))


def test_a_line_holds_all_of_a_record(tmp_path: Path) -> None:
    """What is not text is written so that no byte is lost."""
    sink = started(tmp_path)
    record = Record(offset=3, key=b"\xff", value={"n": 1}, headers=(("h", b"v"), ("none", None)))

    assert sink.put([record]) is None

    assert json.loads((tmp_path / "orders-0.w0.open").read_text()) == {
        "topic": "orders",
        "partition": 0,
        "offset": 3,
        "timestamp": record.timestamp,
        "key": {"base64": "/w=="},
        "value": {"n": 1},
        "headers": [["h", "v"], ["none", None]],
    }


def test_each_partition_has_its_file_and_stop_makes_it_whole(tmp_path: Path) -> None:
    """Its name tells the first and the last offset."""
    sink = started(tmp_path)

    sink.put([*records(2, first=5), *records(1, partition=1)])
    sink.stop()

    first, second = whole(tmp_path)
    assert first.name.startswith("orders-0.w0.5-6.")
    assert second.name.startswith("orders-1.w0.0-0.")
    assert offsets(first) == [5, 6]
    assert not list(tmp_path.glob("*.open"))


def test_every_line_is_synced_before_put_returns(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The file after its last byte, and the directory that names it."""
    synced: list[tuple[str, int]] = []

    def fsync(file: int) -> None:
        path = Path(os.readlink(f"/proc/self/fd/{file}"))
        synced.append((path.name, path.stat().st_size if path.is_file() else 0))

    monkeypatch.setattr(os, "fsync", fsync)
    sink = started(tmp_path)

    sink.put(records(3))

    size = (tmp_path / "orders-0.w0.open").stat().st_size
    assert synced[-1] == ("orders-0.w0.open", size)
    assert (tmp_path.name, 0) in synced


def test_a_record_that_the_open_file_has_is_not_written_again(tmp_path: Path) -> None:
    """Not after a crash either."""
    sink = started(tmp_path)
    sink.put(records(3))
    os.close(sink._lock or 0)  # a process that is killed loses its lock

    again = started(tmp_path)
    again.put(records(5))

    assert offsets(tmp_path / "orders-0.w0.open") == [0, 1, 2, 3, 4]


def test_another_record_at_an_offset_that_the_open_file_has_is_written(tmp_path: Path) -> None:
    """A topic that was made anew begins at 0 again; also after a restart."""
    sink = started(tmp_path)
    sink.put(records(2))
    sink.put(records(2, value="new"))
    sink.put(records(2, value="new"))
    os.close(sink._lock or 0)

    started(tmp_path).put(records(3, value="newer"))

    assert offsets(tmp_path / "orders-0.w0.open") == [0, 1, 0, 1, 0, 1, 2]


def test_a_directory_that_was_made_is_synced_in_the_one_above(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Else a crash may take it, with all that was accepted into it."""
    synced: list[str] = []
    monkeypatch.setattr(os, "fsync", lambda file: synced.append(os.readlink(f"/proc/self/fd/{file}")))

    started(tmp_path / "a" / "b").put(records(1))

    assert {str(tmp_path), str(tmp_path / "a"), str(tmp_path / "a" / "b")} <= set(synced)


@pytest.mark.parametrize("torn", [b'{"topic":"ord', b"\0" * 4096, b'{"offset":9}', b"\0\0\n"])
def test_what_a_crash_left_of_a_line_is_cut_at_start(tmp_path: Path, torn: bytes) -> None:
    """The lines before it stay."""
    sink = started(tmp_path)
    sink.put(records(2))
    sink.stop()
    (path,) = whole(tmp_path)
    path.write_bytes(path.read_bytes() + torn)
    path.rename(tmp_path / "orders-0.w0.open")

    started(tmp_path).put(records(1, first=9))

    assert offsets(tmp_path / "orders-0.w0.open") == [0, 1, 9]


def test_a_file_is_whole_at_its_size(tmp_path: Path) -> None:
    """And the next one begins."""
    sink = started(tmp_path, rotate_bytes=1)

    sink.put(records(2))
    sink.put(records(2, first=2))

    assert [offsets(path) for path in whole(tmp_path)] == [[0, 1], [2, 3]]


def test_a_file_is_whole_at_its_age(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """When the next records come."""
    now = 1000.0
    monkeypatch.setattr("time.time", lambda: now)
    sink = started(tmp_path, rotate_seconds=60)
    sink.put(records(1))
    now += 59
    sink.put(records(1, first=1))
    now += 1
    sink.put(records(1, first=2))

    assert [offsets(path) for path in whole(tmp_path)] == [[0, 1]]
    assert offsets(tmp_path / "orders-0.w0.open") == [2]


def test_writers_of_one_directory_do_not_share_files(tmp_path: Path) -> None:
    """Each takes the lowest number that is free, and gives it back."""
    first, second = started(tmp_path), started(tmp_path)
    first.put(records(1))
    second.put(records(1, first=1))
    first.stop()
    third = started(tmp_path)
    third.put(records(1, first=2))

    assert offsets(tmp_path / "orders-0.w1.open") == [1]
    assert offsets(tmp_path / "orders-0.w0.open") == [2]


@pytest.mark.parametrize("call", ["write", "fsync"])
def test_a_full_disk_is_retriable_and_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: str
) -> None:
    """The same batch works when there is room, each record once."""
    sink = started(tmp_path)
    sink.put(records(1))
    original = os.write

    def fail(file: int, *data: Any) -> int:
        if data:
            original(file, bytes(data[0])[:5])
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, call, fail)
        with pytest.raises(Retriable, match="cannot be written: No space left"):
            sink.put(records(3))
    sink.put(records(3))

    assert offsets(tmp_path / "orders-0.w0.open") == [0, 1, 2]


def test_a_value_that_json_cannot_hold_rejects_its_record(tmp_path: Path) -> None:
    """The others are written."""
    sink = started(tmp_path)

    outcomes = sink.put([Record(offset=0, value=object()), Record(offset=1)])

    assert outcomes == [Outcome.REJECT, Outcome.ACCEPT]
    assert offsets(tmp_path / "orders-0.w0.open") == [1]


def test_a_topic_whose_name_fits_in_no_files_name_is_told(tmp_path: Path) -> None:
    """At the start: later a file could be written to and not be given its name for good."""
    topic = "t" * 240
    sink = FilesSink()

    with pytest.raises(DrainError, match=r"topic 't+': a file's name has room for 170 letters of it"):
        sink.start(Context(config={"directory": str(tmp_path)}, topics=["orders", topic]))


def test_a_directory_that_cannot_be_made_is_told(tmp_path: Path) -> None:
    """At the start."""
    (tmp_path / "file").touch()

    with pytest.raises(DrainError, match=r"directory '.*/file/inner' cannot be used: Not a directory"):
        started(tmp_path / "file" / "inner")


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({}, "directory: is missing; write where files are written"),
        ({"directory": ""}, "directory: is missing"),
        ({"directory": "d", "rotate_bytes": 0}, "rotate_bytes: must be a whole number of 1 or more"),
        ({"directory": "d", "rotate_byte": 1}, "rotate_byte: there is no such setting; did you mean 'rotate_bytes'"),
    ],
)
def test_wrong_settings_are_told_by_key(settings: dict[str, Any], said: str) -> None:
    """Each with what to write instead."""
    with pytest.raises(SettingsError, match=said):
        FilesSink.check(settings)


def test_looking_ahead_at_a_directory_that_is_there_or_can_be_made(tmp_path: Path) -> None:
    """It is not made."""
    FilesSink.look_ahead({"directory": str(tmp_path)})
    FilesSink.look_ahead({"directory": str(tmp_path / "a" / "b")})

    assert not (tmp_path / "a").exists()


@pytest.mark.parametrize("below", ["file", "file/a", "file/a/b"])
def test_looking_ahead_at_a_directory_below_a_file(tmp_path: Path, below: str) -> None:
    """The file is named."""
    (tmp_path / "file").touch()

    with pytest.raises(DrainError, match=f"Not a directory: {tmp_path}/file; choose another directory"):
        FilesSink.look_ahead({"directory": str(tmp_path / below)})


@pytest.mark.parametrize("below", ["", "a/b"])
def test_looking_ahead_at_a_directory_that_may_not_be_written_to(
    tmp_path: Path, below: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Asked of the system, as root may do what modes forbid."""
    monkeypatch.setattr(os, "access", lambda path, mode: Path(path) != tmp_path)

    with pytest.raises(DrainError, match=f"Permission denied: {tmp_path}; .*let this user write there"):
        FilesSink.look_ahead({"directory": str(tmp_path / below)})


def test_looking_ahead_at_a_name_that_is_too_long(tmp_path: Path) -> None:
    """What the system says is told."""
    with pytest.raises(DrainError, match="File name too long"):
        FilesSink.look_ahead({"directory": str(tmp_path / ("x" * 300))})

"""Bring records into files of JSON lines, on disk before `put` returns.

In: batches. Out: a file being written for each partition, and whole ones. Must never: leave half a line that a later
one is added to, or write a record again that its open file has.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import stat
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Final

import msgspec
import structlog
from msgspec import Meta

from shareproxy.drain.errors import DrainError
from shareproxy.drain.sink import Outcome, Outcomes, Retriable, SinkRecord, TaskContext
from shareproxy.drain.sinks.open_file import OpenFile, sync_directory
from shareproxy.drain.sinks.record_json import CannotEncode, record_bytes
from shareproxy.drain.sinks.settings import SettingsError, read_settings

# a limit against a mistake: each has a lock file that stays
_MOST_WRITERS: Final = 1000
# file systems take names of 255 bytes; partition, writer, two offsets, time and ending need the rest
_LONGEST_TOPIC: Final = 170
_LATER: Final = (errno.ENOSPC, errno.EDQUOT, errno.EIO, errno.EMFILE, errno.ENFILE, errno.EROFS, errno.ESTALE)


class FilesSettings(msgspec.Struct, frozen=True, kw_only=True):
    """The settings of a `files` sink."""

    directory: Annotated[str, Meta(description="where files are written; it is made if it is not there")]
    rotate_bytes: Annotated[int, Meta(ge=1, description="a file that has so many bytes is whole")] = 64 * 1024 * 1024
    rotate_seconds: Annotated[
        float, Meta(gt=0, description="a file that was begun so long ago is whole when the next records come")
    ] = 3600.0


class FilesSink:
    """Write records to files, one JSON object for each, by topic and partition.

    Its methods are plain, since writing to a disk blocks; they run in a thread.
    """

    def __init__(self) -> None:
        self._settings: FilesSettings
        self._directory: Path
        self._lock: int | None = None
        self._writer = 0
        self._open: dict[tuple[str, int], OpenFile] = {}
        self._log = structlog.get_logger()

    @staticmethod
    def check(config: Mapping[str, Any]) -> None:
        """Check the settings.

        Raises:
            SettingsError: names the key and what to write.
        """
        _settings(config)

    @staticmethod
    def look_ahead(config: Mapping[str, Any]) -> None:
        """Look whether the directory is there or can be made, and can be written to; nothing is made.

        Raises:
            DrainError: it cannot; names what is in the way.
        """
        directory = Path(_settings(config).directory)
        try:
            _look_at(directory)
        except OSError as error:
            raise DrainError(
                f"directory {str(directory)!r} cannot be used: {error.strerror}: {error.filename}; choose another "
                "directory, or let this user write there"
            ) from None

    def start(self, context: TaskContext) -> None:
        """Take the lowest writer's number that is free, and mend what its last owner left.

        Raises:
            DrainError: the directory cannot be written to, or a topic's name is too long.
        """
        self._settings = _settings(context.config)
        self._directory = Path(self._settings.directory)
        self._log = structlog.get_logger().bind(connector=context.connector, task=context.task_id)
        for topic in context.topics:
            if len(topic) > _LONGEST_TOPIC:
                raise DrainError(
                    f"topic {topic!r}: a file's name has room for {_LONGEST_TOPIC} letters of it; take another sink"
                )
        try:
            self._make_directory()
            self._take_number()
            for path in sorted(self._directory.glob(f"*.w{self._writer}.open")):
                self._reopen(path)
        except OSError as error:
            raise DrainError(f"directory {str(self._directory)!r} cannot be used: {error.strerror}") from error

    def put(self, batch: Sequence[SinkRecord]) -> Outcomes | None:
        """Write a batch.

        Raises:
            Retriable: the disk is full, or has failed.
        """
        outcomes = [Outcome.ACCEPT] * len(batch)
        lines: dict[tuple[str, int], dict[int, bytes]] = {}
        for index, record in enumerate(batch):
            try:
                line = record_bytes(record)
            except CannotEncode as error:
                outcomes[index] = Outcome.REJECT
                name = f"{record.topic}-{record.partition}@{record.offset}"
                self._log.warning("a record cannot be written", record=name, why=str(error))
            else:
                lines.setdefault((record.topic, record.partition), {})[record.offset] = line
        try:
            for partition, new in lines.items():
                self._write(partition, new)
        except OSError as error:
            text = f"a file in {str(self._directory)!r} cannot be written: {error.strerror}"
            if error.errno in _LATER:
                raise Retriable(text) from error
            raise DrainError(text) from error
        return None if Outcome.REJECT not in outcomes else outcomes

    def stop(self) -> None:
        """Make all open files whole, and give the writer's number back."""
        opened, self._open = list(self._open.values()), {}
        try:
            for file in opened:
                with contextlib.suppress(OSError):  # it stays open, and the number's next owner goes on with it
                    file.finish()
        finally:
            if self._lock is not None:
                os.close(self._lock)
                self._lock = None

    def _write(self, partition: tuple[str, int], lines: Mapping[int, bytes]) -> None:
        file = self._open.get(partition)
        if file is not None and time.time() - file.began >= self._settings.rotate_seconds:
            self._finish(partition)
            file = None
        if file is None:
            topic, number = partition
            file = OpenFile(self._directory, f"{topic}-{number}.w{self._writer}")
            self._open[partition] = file
        file.append(lines)
        if file.size >= self._settings.rotate_bytes:
            self._finish(partition)

    def _finish(self, partition: tuple[str, int]) -> None:
        self._open[partition].finish()
        del self._open[partition]

    def _reopen(self, path: Path) -> None:
        stem = path.name.removesuffix(".open")
        topic, _, number = stem.removesuffix(f".w{self._writer}").rpartition("-")
        if topic and number.isdigit():
            file = OpenFile(self._directory, stem)
            if file.cut:
                self._log.warning("half a line of before a crash was cut", file=str(path), bytes=file.cut)
            self._open[topic, int(number)] = file

    def _make_directory(self) -> None:
        """Make the directory, also on disk: each that is new is a name in the one above."""
        new = [path for path in (self._directory, *self._directory.parents) if not path.exists()]
        self._directory.mkdir(parents=True, exist_ok=True)
        for path in new:
            sync_directory(path.parent)

    def _take_number(self) -> None:
        """Lock a number of our own, also against other processes: no two write to one file."""
        for number in range(_MOST_WRITERS):
            lock = os.open(self._directory / f".writer-{number}.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                os.close(lock)
                continue
            except BaseException:
                os.close(lock)
                raise
            self._lock, self._writer = lock, number
            return
        raise DrainError(f"directory {str(self._directory)!r} has {_MOST_WRITERS} writers; use more directories")


def _look_at(directory: Path) -> None:
    """Raise what stands in the way of files in a directory that may have to be made first."""
    for path in (directory, *directory.parents):
        try:
            mode = path.stat().st_mode
        except (FileNotFoundError, NotADirectoryError):
            continue
        if not stat.S_ISDIR(mode):
            raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), str(path))
        if not os.access(path, os.W_OK | os.X_OK):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(path))
        return


def _settings(config: Mapping[str, Any]) -> FilesSettings:
    settings = read_settings(FilesSettings, config)
    if "\0" in settings.directory:
        raise SettingsError("directory: is no path")
    return settings

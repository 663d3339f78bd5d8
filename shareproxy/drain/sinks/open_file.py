"""Write one file of JSON lines that is added to, and name it for good when it is whole.

In: lines by offset. Out: `NAME.open`, then `NAME.FIRST-LAST.TIME.jsonl`, on disk after each call.
Must never: count a line as written before `fsync` returned, or keep what a failed write left.
"""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from pathlib import Path

import msgspec


class _Line(msgspec.Struct):
    offset: int


class OpenFile:
    """A file under way; what is there of it is taken over, but for half a line at its end.

    Args:
        directory: where it is.
        name: its name without an ending.

    Attributes:
        size: bytes that are on disk for certain.
        began: when it was begun, in seconds since 1970.
        cut: bytes of half a line that were cut.
    """

    def __init__(self, directory: Path, name: str) -> None:
        self._directory, self._name = directory, name
        self._path = directory / f"{name}.open"
        # hashes of lines, not offsets: a topic that was made anew has other records at the same ones
        self._lines: set[int] = set()
        self._first = self._last = 0
        self.size, self.cut, self.began = 0, 0, time.time()
        self._file: int | None = None
        self._open()

    def append(self, lines: Mapping[int, bytes]) -> None:
        """Add lines that it does not have yet at their offsets; return when they are on disk.

        Raises:
            OSError: they are not, and none of them counts.
        """
        new = {offset: line for offset, line in lines.items() if hash(line) not in self._lines}
        if not new:
            return
        if self._file is None:
            self._open()
        assert self._file is not None
        data = b"\n".join(new.values()) + b"\n"
        try:
            view = memoryview(data)
            while view:
                view = view[os.write(self._file, view) :]
            os.fsync(self._file)
        except BaseException:
            self._forget()
            raise
        self.size += len(data)
        for offset, line in new.items():
            self._note(offset, line)

    def finish(self) -> Path | None:
        """Give the file its name for good and return that; an empty one is removed."""
        if self._file is not None:
            os.close(self._file)
            self._file = None
        if not self._lines:
            self._path.unlink(missing_ok=True)
            return None
        if self._path.stat().st_size != self.size:  # a failed write's rest
            os.truncate(self._path, self.size)
        # the time makes names differ: offsets may come again in another file
        stamp = time.strftime("%Y%m%dT%H%M%S", time.gmtime()) + f"{time.time_ns() % 10**9:09}Z"
        whole = self._directory / f"{self._name}.{self._first}-{self._last}.{stamp}.jsonl"
        os.rename(self._path, whole)
        sync_directory(self._directory)
        return whole

    def _open(self) -> None:
        known = self.size if self._lines else None
        file = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o644)
        try:
            if known is None:
                self._take_over(file)
            else:
                os.ftruncate(file, known)
            os.fsync(file)  # what is there may not be on disk
            sync_directory(self._directory)
        except BaseException:
            os.close(file)
            raise
        self._file = file

    def _take_over(self, file: int) -> None:
        """Look which offsets are there, and cut what is no whole line."""
        good = 0
        with os.fdopen(os.dup(file), "rb") as lines:
            lines.seek(0)
            for line in lines:
                try:
                    if not line.endswith(b"\n"):
                        break
                    self._note(msgspec.json.decode(line, type=_Line).offset, line[:-1])
                except msgspec.DecodeError:  # a block that never reached the disk reads as zeros
                    break
                good += len(line)
            self.cut = os.fstat(file).st_size - good
            status = os.fstat(file)
        if self.cut:
            os.ftruncate(file, good)
        if self._lines:
            self.began = min(self.began, getattr(status, "st_birthtime", status.st_mtime))
        self.size = good

    def _note(self, offset: int, line: bytes) -> None:
        self._first = min(self._first, offset) if self._lines else offset
        self._last = max(self._last, offset) if self._lines else offset
        self._lines.add(hash(line))

    def _forget(self) -> None:
        """Take back what a failed write left; where even that fails, the next opening does it."""
        assert self._file is not None
        try:
            os.ftruncate(self._file, self.size)
        except OSError:
            pass
        finally:
            # after a failed fsync, only a file opened anew tells of the next failure
            os.close(self._file)
            self._file = None


def sync_directory(path: Path) -> None:
    """Bring names to disk: a new file is not there after a crash unless its directory is."""
    directory = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(directory)
    finally:
        os.close(directory)

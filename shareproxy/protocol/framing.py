"""Cut a byte stream into frames.

In: chunks as they come. Out: whole frames without their size. Must never: hold more than one limit of bytes,
or join chunks more than once per frame.
"""

from __future__ import annotations

from typing import Final

from shareproxy.protocol.errors import FrameError

# Kafka's `socket.request.max.bytes`: larger requests are closed by the broker as well
MAX_REQUEST_BYTES: Final = 104_857_600
# answers have no limit in Kafka; what is buffered whole here (metadata, lag) stays far below this one
MAX_RESPONSE_BYTES: Final = 104_857_600


def check_size(size: int, limit: int) -> None:
    """Refuse a frame size before anything is allocated for it.

    Raises:
        FrameError: says what the sender may have spoken instead of Kafka.
    """
    if 0 < size <= limit:
        return
    if size >> 16 == 0x1603:
        raise FrameError("these bytes start a TLS handshake, but this port speaks plain text")
    if size in _TEXT_STARTS:
        raise FrameError("these bytes start an HTTP request, but this port speaks the Kafka protocol")
    if size > limit:
        raise FrameError(f"frame of {size} bytes is over the limit of {limit}")
    raise FrameError(f"frame size {size} is not positive")


_TEXT_STARTS: Final = frozenset(int.from_bytes(word) for word in (b"GET ", b"POST", b"HEAD", b"PUT ", b"HTTP", b"OPTI"))


class FrameReader:
    """Collect chunks and hand out whole frames.

    Args:
        limit: largest frame in bytes.
    """

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self._chunks: list[bytes] = []
        self._held = 0
        self._wanted = 0  # bytes until the next frame or size is whole
        self._begun = False  # whether the size of the frame is known, and left out of the chunks

    @property
    def held(self) -> int:
        """Count the bytes of the frame that is not whole yet."""
        return self._held

    def feed(self, chunk: bytes) -> list[bytes]:
        """Take a chunk and return the frames that are whole with it.

        Raises:
            FrameError: the size before the next frame is out of range; the reader must not be used any more.
        """
        self._held += len(chunk)
        if self._held < self._wanted:
            self._chunks.append(chunk)  # a large frame grows as a list: joining each time is quadratic
            return []
        frames = []
        if self._begun:
            cut = len(chunk) - (self._held - self._wanted)
            frames.append(b"".join((*self._chunks, chunk[:cut])))  # the only copy of a large frame that is made here
            chunk = chunk[cut:]
        elif self._chunks:
            chunk = b"".join((*self._chunks, chunk))
        self._chunks.clear()
        position, length = 0, len(chunk)
        self._wanted, self._begun = 4, False
        while length - position >= 4:
            size = int.from_bytes(chunk[position : position + 4], signed=True)
            check_size(size, self.limit)
            end = position + 4 + size
            if end > length:
                self._wanted, self._begun = 4 + size, True
                break
            frames.append(chunk[position + 4 : end])
            position = end
        self._held = length - position
        if self._held:
            self._chunks.append(chunk[position + 4 :] if self._begun else chunk[position:])
        return frames

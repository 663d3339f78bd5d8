"""Have a whole terminal: keys one by one, a screen of its own, and everything as before on every way out.

In: key presses and signals. Out: names of keys; lines on the screen.
Must never: leave the terminal changed, whether the way out is a key, Ctrl-C, SIGTERM or an exception.
"""

from __future__ import annotations

import asyncio
import codecs
import contextlib
import os
import select
import signal
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final, NamedTuple, TypeAlias

from shareproxy.config import ConfigError

# Written as control sequences of ECMA-48 and the DEC private modes that every terminal in use understands: a terminfo
# data base has no entry for many of them, and small containers have none at all.
ENTER: Final = "\x1b[?1049h\x1b[?25l\x1b[?7l\x1b[2J"  # other screen, no cursor, no wrapping
LEAVE: Final = "\x1b[0m\x1b[?7h\x1b[?25h\x1b[?1049l"
CLEAR: Final = "\x1b[0m\x1b[2J"

# A lone Escape and the first byte of an arrow key look the same; the rest of an arrow key comes at once, even by ssh.
ESCAPE_SECONDS: Final = 0.05
READ_BYTES: Final = 4096
MOST_KEPT_TALK: Final = 10_000  # characters written to stderr while the screen is ours

ENDING_SIGNALS: Final = (signal.SIGTERM, signal.SIGHUP) if sys.platform != "win32" else ()

STYLES: Final[Mapping[str, int]] = {
    "bold": 1,
    "dim": 2,
    "reverse": 7,
    "red": 31,
    "green": 32,
    "yellow": 33,
    "cyan": 36,
}
FIRST_COLOUR: Final = 30


class Span(NamedTuple):
    """A piece of a line.

    Attributes:
        style: words of `STYLES`, separated by blanks.
    """

    text: str
    style: str = ""


Line: TypeAlias = tuple[Span, ...]


class NotATerminal(ConfigError):  # noqa: N818 - it says what happened
    """There is no terminal that a screen could be drawn on."""


def may_colour(environment: Mapping[str, str] = os.environ) -> bool:
    """Return whether colours are welcome (https://no-color.org)."""
    return not environment.get("NO_COLOR")


def is_capable(environment: Mapping[str, str] = os.environ) -> bool:
    """Return whether stdout is a terminal that can place text anywhere."""
    return os.isatty(1) and environment.get("TERM", "") not in ("", "dumb", "unknown")


def painted(line: Line, *, colours: bool) -> str:
    """Return a line as text with control sequences.

    Args:
        line: text without control characters.
        colours: without them, bold and reverse stay.
    """
    parts = []
    for text, style in line:
        codes = [STYLES[word] for word in style.split()]
        shown = [str(code) for code in codes if colours or code < FIRST_COLOUR]
        parts.append(f"\x1b[{';'.join(shown)}m{text}\x1b[0m" if shown and text else text)
    return "".join(parts)


class Keys:
    """Turn bytes from a terminal into names of keys.

    A printable character is its own name; others are called "up", "enter", "escape", "ctrl-u" and so on.
    """

    _SEQUENCES: Final[Mapping[str, str]] = {
        "A": "up",
        "B": "down",
        "C": "right",
        "D": "left",
        "H": "home",
        "F": "end",
        "1~": "home",
        "7~": "home",
        "4~": "end",
        "8~": "end",
        "3~": "delete",
        "5~": "page-up",
        "6~": "page-down",
        "M": "enter",  # of the number pad
    }
    _CONTROLS: Final[Mapping[str, str]] = {
        "\r": "enter",
        "\n": "enter",
        "\t": "tab",
        "\x7f": "backspace",
        "\b": "backspace",
    }

    def __init__(self) -> None:
        self._decoder = codecs.getincrementaldecoder("utf-8")(errors="ignore")
        self._rest = ""

    @property
    def waiting(self) -> bool:
        """Whether a key has begun and not ended; call `flush` if nothing follows soon."""
        return bool(self._rest)

    def feed(self, data: bytes) -> list[str]:
        """Return the keys that these bytes complete."""
        text = self._rest + self._decoder.decode(data)
        self._rest = ""
        keys, at = [], 0
        while at < len(text):
            if text[at] != "\x1b":
                keys.append(self._plain(text[at]))
                at += 1
                continue
            end = self._sequence_end(text, at)
            if end is None:
                self._rest = text[at:]
                break
            if end > at + 1:
                keys.append(self._SEQUENCES.get(text[at + 2 : end], ""))
            else:
                keys.append("escape")
            at = end
        return [key for key in keys if key]

    def flush(self) -> list[str]:
        """Return what the unfinished bytes are when nothing follows them: the Escape key, or nothing known."""
        rest, self._rest = self._rest, ""
        return ["escape"] if rest == "\x1b" else []

    def _plain(self, sign: str) -> str:
        if sign in self._CONTROLS:
            return self._CONTROLS[sign]
        if sign < " ":
            return f"ctrl-{chr(ord(sign) + 96)}"
        return sign

    def _sequence_end(self, text: str, at: int) -> int | None:
        """Return where the sequence that starts with Escape ends, `None` if it goes on."""
        if at + 1 == len(text):
            return None
        if text[at + 1] == "O":
            return None if at + 2 == len(text) else at + 3
        if text[at + 1] != "[":
            return at + 1  # Escape itself; what follows is a key of its own
        for place in range(at + 2, len(text)):
            if "\x40" <= text[place] <= "\x7e":
                return place + 1
        return None


class Terminal:
    """A terminal whose screen is ours between entering and leaving.

    Args:
        colours: whether to use them.
    """

    def __init__(self, *, colours: bool) -> None:
        self._colours = colours
        self._lines: list[str] = []
        self._size = (0, 0)
        self._open = False
        self._encoding = sys.stdout.encoding or "utf-8"

    @property
    def unicode(self) -> bool:
        """Whether the terminal shows more than ASCII."""
        try:
            "…█".encode(self._encoding)
        except (UnicodeEncodeError, LookupError):
            return False
        return True

    def size(self) -> tuple[int, int]:
        """Return columns and lines."""
        size = os.get_terminal_size(1)
        # a terminal that has not been told its size says 0
        return size.columns or 80, size.lines or 24

    def draw(self, lines: Sequence[Line]) -> None:
        """Show lines from the top; only those that changed are written."""
        size = self.size()
        texts = [painted(line, colours=self._colours) for line in lines[: size[1]]]
        parts = []
        if size != self._size:
            parts.append(CLEAR)
            self._size, self._lines = size, []
        old = self._lines
        for number in range(max(len(texts), len(old))):
            text = texts[number] if number < len(texts) else ""
            if number >= len(old) or old[number] != text:
                # erased first: the cursor stays on the last column of a full line, and would erase it
                parts.append(f"\x1b[{number + 1};1H\x1b[K{text}")
        self._lines = texts
        if parts:
            self._write("".join(parts))

    def forget(self) -> None:
        """Draw everything anew the next time."""
        self._size = (0, 0)

    @contextlib.contextmanager
    def taken(
        self, on_keys: Callable[[list[str]], None], on_change: Callable[[], None]
    ) -> Iterator[asyncio.Future[int]]:
        """Take the terminal over; it is given back whatever happens.

        What is written to stderr in the meantime comes out afterwards.

        Args:
            on_keys: called with the names of keys that were pressed.
            on_change: called when everything has to be drawn anew, as after a change of size.

        Returns:
            A future that gets the number of the signal by which the process is told to end.

        Raises:
            NotATerminal: there is none to read keys from.
        """
        import termios

        loop = asyncio.get_running_loop()
        ended: asyncio.Future[int] = loop.create_future()
        with contextlib.ExitStack() as stack:
            keyboard = stack.enter_context(key_source())
            before = termios.tcgetattr(keyboard)

            def enter() -> None:
                _read_key_by_key(keyboard)
                self._open = True
                self._write(ENTER)
                self.forget()

            def leave() -> None:
                if self._open:
                    self._open = False
                    # when the terminal itself is gone there is nothing to restore
                    with contextlib.suppress(OSError):
                        self._write(LEAVE)
                    with contextlib.suppress(termios.error):
                        termios.tcsetattr(keyboard, termios.TCSADRAIN, before)

            def suspend() -> None:
                leave()
                # the system's own answer to Ctrl-Z: stop, but only where a shell is there that can bring us back
                loop.remove_signal_handler(signal.SIGTSTP)
                signal.pthread_kill(threading.get_ident(), signal.SIGTSTP)
                loop.add_signal_handler(signal.SIGTSTP, suspend)
                enter()
                on_change()

            def tell(signal_number: int) -> None:
                if not ended.done():
                    ended.set_result(signal_number)

            def change() -> None:
                self.forget()
                on_change()

            stack.enter_context(_stderr_kept())
            # the handlers come first and go last: there is no moment in which a signal finds the screen ours and
            # nobody to give it back
            for number in ENDING_SIGNALS:
                loop.add_signal_handler(number, tell, number)
                stack.callback(loop.remove_signal_handler, number)
            for number, handler in ((signal.SIGTSTP, suspend), (signal.SIGWINCH, change)):
                loop.add_signal_handler(number, handler)
                stack.callback(loop.remove_signal_handler, number)
            stack.callback(leave)
            enter()
            reader = _KeyReader(keyboard, on_keys, lambda: tell(signal.SIGHUP))
            loop.add_reader(keyboard, reader.read)
            stack.callback(loop.remove_reader, keyboard)
            yield ended

    def _write(self, text: str) -> None:
        data = text.encode(self._encoding, errors="replace")
        while data:
            try:
                data = data[os.write(1, data) :]
            except BlockingIOError:  # another program on this terminal made it so
                select.select([], [1], [])


class _KeyReader:
    def __init__(self, keyboard: int, on_keys: Callable[[list[str]], None], on_hangup: Callable[[], None]) -> None:
        self._keyboard, self._on_keys, self._on_hangup = keyboard, on_keys, on_hangup
        self._keys = Keys()
        self._timer: asyncio.TimerHandle | None = None

    def read(self) -> None:
        """Read what was typed; the end of input means that the terminal was closed."""
        loop = asyncio.get_running_loop()
        try:
            data = os.read(self._keyboard, READ_BYTES)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        if not data:
            loop.remove_reader(self._keyboard)
            self._on_hangup()
            return
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        keys = self._keys.feed(data)
        if self._keys.waiting:
            self._timer = loop.call_later(ESCAPE_SECONDS, self._flush)
        if keys:
            self._on_keys(keys)

    def _flush(self) -> None:
        keys = self._keys.flush()
        if keys:
            self._on_keys(keys)


@contextlib.contextmanager
def key_source() -> Iterator[int]:
    """Give the file descriptor that keys come from: stdin, or the terminal itself where stdin is a file."""
    if os.isatty(0):
        yield 0
        return
    try:
        keyboard = os.open("/dev/tty", os.O_RDONLY)
    except OSError as error:
        raise NotATerminal(f"there is no terminal to read keys from: {error.strerror}") from None
    try:
        yield keyboard
    finally:
        os.close(keyboard)


def _read_key_by_key(keyboard: int) -> None:
    """Get each key at once and unseen; Ctrl-C and Ctrl-Z stay signals."""
    import termios

    attributes = termios.tcgetattr(keyboard)
    attributes[0] &= ~(termios.ICRNL | termios.INLCR | termios.IGNCR)
    attributes[3] &= ~(termios.ICANON | termios.ECHO)
    attributes[6][termios.VMIN], attributes[6][termios.VTIME] = 1, 0
    termios.tcsetattr(keyboard, termios.TCSADRAIN, attributes)


class _KeptTalk:
    """What takes the place of stderr while a line on it would spoil the screen."""

    def __init__(self) -> None:
        self.text = ""

    def write(self, text: str) -> int:
        self.text = (self.text + text)[-MOST_KEPT_TALK:]
        return len(text)

    def flush(self) -> None:
        pass


@contextlib.contextmanager
def _stderr_kept() -> Iterator[None]:
    kept = _KeptTalk()
    try:
        with contextlib.redirect_stderr(kept):
            yield
    finally:
        if kept.text and sys.stderr is not None:
            with contextlib.suppress(OSError):
                sys.stderr.write(kept.text)

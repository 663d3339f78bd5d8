"""Run a command on a terminal: press keys, resize, read the screen, and see what it leaves behind.

In: a command. Out: the screen as a person sees it, by a terminal emulator (pyte) behind a real pty.
Must never: outlive the test that started it.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import pty
import select
import signal
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import pyte

from tests.support.command import clean_environment

WAIT_SECONDS = 60.0
READ_BYTES = 65536
POLL_SECONDS = 0.05
KEYS = {
    "up": "\x1b[A",
    "down": "\x1b[B",
    "right": "\x1b[C",
    "left": "\x1b[D",
    "home": "\x1b[H",
    "end": "\x1b[F",
    "page-up": "\x1b[5~",
    "page-down": "\x1b[6~",
    "enter": "\r",
    "escape": "\x1b",
    "backspace": "\x7f",
    "ctrl-c": "\x03",
    "ctrl-l": "\x0c",
    "ctrl-z": "\x1a",
    "tab": "\t",
}
OTHER_SCREEN = 1049


class _Screen(pyte.Screen):
    """pyte's screen, with the other screen that full-screen programs draw on."""

    def __init__(self, columns: int, lines: int) -> None:
        self.other = False
        self._kept: list[str] = []
        super().__init__(columns, lines)

    def set_mode(self, *modes: int, **options: Any) -> None:
        if options.get("private") and OTHER_SCREEN in modes:
            self.other, self._kept = True, list(self.display)
            self.erase_in_display(2)
            self.cursor_position()
        super().set_mode(*modes, **options)

    def reset_mode(self, *modes: int, **options: Any) -> None:
        if options.get("private") and OTHER_SCREEN in modes and self.other:
            self.other = False
            self.erase_in_display(2)
            for number, line in enumerate(self._kept[: self.lines]):
                self.cursor_position(number + 1, 1)
                self.draw(line.rstrip())
            self.cursor_position(len([line for line in self._kept if line.strip()]) + 1, 1)
        super().reset_mode(*modes, **options)

    @property
    def cursor_shown(self) -> bool:
        return not self.cursor.hidden

    @property
    def wraps(self) -> bool:
        return pyte.modes.DECAWM in self.mode


class OnTerminal:
    """A command that runs on a terminal of its own."""

    def __init__(
        self, command: Sequence[str], columns: int, lines: int, environment: Mapping[str, str], stdin: int | None
    ) -> None:
        self._screen = _Screen(columns, lines)
        self._stream = pyte.ByteStream(self._screen)
        self._master, self._slave = pty.openpty()
        self._set_size(columns, lines)
        self._attributes = termios.tcgetattr(self._slave)
        self.output = b""
        self.process = subprocess.Popen(
            command,
            stdin=self._slave if stdin is None else stdin,
            stdout=self._slave,
            stderr=self._slave,
            env=dict(environment),
            start_new_session=True,
            preexec_fn=lambda: fcntl.ioctl(1, termios.TIOCSCTTY, 0),
        )

    def press(self, *keys: str) -> None:
        """Press keys: names of `KEYS`, or text to type."""
        for key in keys:
            os.write(self._master, KEYS.get(key, key).encode())

    def resize(self, columns: int, lines: int) -> None:
        """Change the size of the window."""
        self._pump()
        self._screen.resize(lines, columns)
        self._set_size(columns, lines)

    def signal(self, number: signal.Signals) -> None:
        """Send a signal to the command."""
        self.process.send_signal(number)

    @property
    def lines(self) -> list[str]:
        """The screen, line by line, without blanks at the ends."""
        self._pump()
        return [line.rstrip() for line in self._screen.display]

    @property
    def text(self) -> str:
        """The screen as one text."""
        return "\n".join(self.lines)

    def line_with(self, part: str) -> str:
        """Return the first line that contains a text, "" if none does."""
        return next((line for line in self.lines if part in line), "")

    def style_of(self, part: str) -> tuple[str, bool, bool]:
        """Return colour, boldness and reverse of the first sign of a text on the screen."""
        for number, line in enumerate(self.lines):
            if part in line:
                sign = self._screen.buffer[number][line.index(part)]
                return sign.fg, sign.bold, sign.reverse
        raise AssertionError(f"{part!r} is not on the screen:\n{self.text}")

    def wait_for(self, *parts: str) -> None:
        """Return when each of the texts is on the screen.

        Raises:
            AssertionError: they are not in time; shows the screen.
        """
        self.wait_until(lambda text: all(part in text for part in parts), f"the screen shows {parts}")

    def wait_until(self, condition: Callable[[str], bool], what: str) -> None:
        """Return when a condition holds for the text of the screen.

        Raises:
            AssertionError: it does not in time, or the command has ended; shows the screen.
        """
        deadline = time.monotonic() + WAIT_SECONDS
        while not condition(self.text):
            ended = self.process.poll() is not None and not self._pump()
            if ended and condition(self.text):
                return
            if ended or time.monotonic() > deadline:
                how = f"it ended with {self.process.returncode}" if ended else f"not in {WAIT_SECONDS:.0f} s"
                raise AssertionError(f"{what}: {how}; the screen is\n{self.text}")
            select.select([self._master], [], [], POLL_SECONDS)

    def wait_end(self) -> int:
        """Return the exit code of the command; a signal that ended it is negative.

        Raises:
            AssertionError: it does not end in time.
        """
        deadline = time.monotonic() + WAIT_SECONDS
        while self.process.poll() is None:
            self._pump()
            assert time.monotonic() < deadline, f"the command goes on; the screen is\n{self.text}"
            select.select([self._master], [], [], POLL_SECONDS)
        self._pump()
        return self.process.returncode

    def left_behind(self) -> list[str]:
        """Return what the command changed and did not restore; empty is right."""
        self._pump()
        wrong = [] if termios.tcgetattr(self._slave) == self._attributes else ["the terminal's attributes"]
        wrong += ["the other screen"] if self._screen.other else []
        wrong += [] if self._screen.cursor_shown else ["a hidden cursor"]
        wrong += [] if self._screen.wraps else ["lines that do not wrap"]
        attributes = self._screen.cursor.attrs
        wrong += ["a style"] if attributes != self._screen.default_char else []
        return wrong

    @property
    def on_other_screen(self) -> bool:
        """Whether a full-screen program has the screen."""
        self._pump()
        return self._screen.other

    def close(self) -> None:
        """End the command if it has not ended, and close the terminal."""
        if self.process.poll() is None:
            self.process.kill()
            self.process.send_signal(signal.SIGCONT)
            self.process.wait()
        os.close(self._master)
        os.close(self._slave)

    def _pump(self) -> bool:
        """Give everything that was written so far to the screen; returns whether there was something."""
        some = False
        while select.select([self._master], [], [], 0)[0]:
            data = os.read(self._master, READ_BYTES)
            self.output += data
            self._stream.feed(data)
            some = True
        return some

    def _set_size(self, columns: int, lines: int) -> None:
        fcntl.ioctl(self._slave, termios.TIOCSWINSZ, struct.pack("HHHH", lines, columns, 0, 0))


@contextlib.contextmanager
def on_terminal(
    *command: str,
    columns: int = 80,
    lines: int = 24,
    environment: Mapping[str, str] | None = None,
    stdin: int | None = None,
) -> Iterator[OnTerminal]:
    """Run a command on a terminal.

    Args:
        command: program and arguments.
        columns: width of the window.
        lines: height of the window.
        environment: variables to set beside ours; `TERM` is `xterm-256color` unless given.
        stdin: file descriptor for stdin; by default it is the terminal too.
    """
    variables = {**clean_environment(), "TERM": "xterm-256color", **(environment or {})}
    if not (environment or {}).get("NO_COLOR"):
        variables.pop("NO_COLOR", None)
    running = OnTerminal(command, columns, lines, variables, stdin)
    try:
        yield running
    finally:
        running.close()


@contextlib.contextmanager
def shareproxy_on_terminal(*arguments: str, columns: int = 80, lines: int = 24) -> Iterator[OnTerminal]:
    """Run `shareproxy` with arguments on a terminal."""
    with on_terminal(sys.executable, "-m", "shareproxy", *arguments, columns=columns, lines=lines) as running:
        yield running

"""Keys, lines, and a terminal that is left as it was."""

from __future__ import annotations

import shutil
import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from shareproxy.cli.terminal import Keys, NotATerminal, Span, is_capable, key_source, may_colour, painted
from tests.support.scripted_top import write
from tests.support.terminal import OnTerminal, on_terminal

CALM = {"groups": {"orders": {"lags": [3]}}}


@pytest.mark.parametrize(
    ("data", "keys"),
    [
        (b"q", ["q"]),
        (b"\r", ["enter"]),
        (b"\n", ["enter"]),
        (b"\x7f\b", ["backspace", "backspace"]),
        (b"\x1b[A\x1b[B\x1b[C\x1b[D", ["up", "down", "right", "left"]),
        (b"\x1bOA\x1bOB", ["up", "down"]),
        (b"\x1b[5~\x1b[6~", ["page-up", "page-down"]),
        (b"\x1b[H\x1b[F\x1b[1~\x1b[4~", ["home", "end", "home", "end"]),
        (b"\x1b[1;5A\x1b[200~x", ["x"]),
        (b"\x1bx", ["escape", "x"]),
        (b"\x1b\x1b[A", ["escape", "up"]),
        (b"\x0c\x15\t", ["ctrl-l", "ctrl-u", "tab"]),
        ("支é".encode(), ["支", "é"]),
        (b"\xffa", ["a"]),
    ],
)
def test_bytes_become_keys(data: bytes, keys: list[str]) -> None:
    """Whole or byte by byte, the same keys come out; a sequence that nobody knows is no key."""
    assert Keys().feed(data) == keys
    one_by_one = Keys()
    assert [key for number in range(len(data)) for key in one_by_one.feed(data[number : number + 1])] == keys
    assert not one_by_one.waiting


def test_escape_alone_is_a_key_when_nothing_follows() -> None:
    """Only time tells it from the start of an arrow key."""
    keys = Keys()
    assert keys.feed(b"\x1b") == []
    assert keys.waiting
    assert keys.flush() == ["escape"]
    assert not keys.waiting


def test_an_unfinished_sequence_is_dropped_when_nothing_follows() -> None:
    """Half an arrow key is not a key."""
    keys = Keys()
    assert keys.feed(b"\x1b[") == []
    assert keys.flush() == []
    assert keys.feed(b"A") == ["A"]


def test_colours_can_be_left_out() -> None:
    """Bold and reverse are no colours; without them the selected row could not be seen."""
    line = (Span("a", "bold red"), Span("b", "green"), Span("c"), Span("d", "reverse"))
    assert painted(line, colours=True) == "\x1b[1;31ma\x1b[0m\x1b[32mb\x1b[0mc\x1b[7md\x1b[0m"
    assert painted(line, colours=False) == "\x1b[1ma\x1b[0mbc\x1b[7md\x1b[0m"


def test_no_color_is_respected() -> None:
    """Any value but the empty one counts."""
    assert not may_colour({"NO_COLOR": "1"})
    assert may_colour({"NO_COLOR": ""})
    assert may_colour({})


@pytest.mark.parametrize("term", ["dumb", "", "unknown"])
def test_a_terminal_that_cannot_place_text_is_not_drawn_on(term: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Such as the one inside an editor."""
    monkeypatch.setattr("os.isatty", lambda _: True)
    assert not is_capable({"TERM": term})
    assert is_capable({"TERM": "xterm"})


@pytest.fixture
def script(tmp_path: Path) -> Path:
    """A file that is the cluster."""
    file = tmp_path / "cluster.json"
    write(file, CALM)
    return file


@pytest.fixture
def screen(script: Path) -> Iterator[OnTerminal]:
    """`top` over a calm cluster, drawn once."""
    with on_terminal(sys.executable, "-m", "tests.support.scripted_top", str(script), "0.5") as running:
        running.wait_for("orders", "q quit")
        assert running.on_other_screen
        yield running


def test_a_key_ends_it_cleanly(screen: OnTerminal) -> None:
    """q gives the terminal back."""
    screen.press("q")
    assert screen.wait_end() == 0
    assert screen.left_behind() == []
    assert "orders" not in screen.text


def test_ctrl_c_ends_it_cleanly(screen: OnTerminal) -> None:
    """Without a word, and with the exit code of an interrupted command."""
    screen.press("ctrl-c")
    assert screen.wait_end() == 130
    assert screen.left_behind() == []
    assert screen.text.strip() == ""


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_signal_ends_it_cleanly(screen: OnTerminal, number: signal.Signals) -> None:
    """Whoever sent the signal sees that the process died of it."""
    screen.signal(number)
    assert screen.wait_end() == -number
    assert screen.left_behind() == []


def test_a_bug_ends_it_cleanly(screen: OnTerminal, script: Path) -> None:
    """The sentence about it comes after the screen was given back."""
    write(script, {"bug": "something that nobody thought of"})
    assert screen.wait_end() == 70
    assert screen.left_behind() == []
    assert "this is a bug: RuntimeError: something that nobody thought of" in screen.text


def test_ctrl_z_gives_the_terminal_to_the_shell_until_fg(script: Path) -> None:
    """As between any program and a shell."""
    if shutil.which("bash") is None:
        pytest.skip("there is no bash")
    with on_terminal("bash", "--norc", "-i", environment={"PS1": "$ "}) as shell:
        shell.wait_for("$")
        shell.press(f"{sys.executable} -m tests.support.scripted_top {script} 0.5", "enter")
        shell.wait_for("orders", "q quit")
        shell.press("ctrl-z")
        shell.wait_for("Stopped")
        assert not shell.on_other_screen
        shell.press("fg", "enter")
        shell.wait_until(lambda text: shell.on_other_screen and "q quit" in text, "the screen is back")
        shell.press("q")
        shell.wait_until(lambda text: not shell.on_other_screen, "it ended")
        shell.press("exit", "enter")
        assert shell.wait_end() == 0
        assert shell.left_behind() == []


def test_ctrl_z_does_nothing_where_nobody_could_bring_it_back(screen: OnTerminal) -> None:
    """As in `ssh -t host shareproxy top`: it would hang for ever."""
    screen.press("ctrl-z")
    screen.press("h")
    screen.wait_for("any key goes back")
    screen.press("x", "q")
    assert screen.wait_end() == 0
    assert screen.left_behind() == []


def test_ctrl_c_while_a_look_hangs_ends_it_cleanly(screen: OnTerminal, script: Path) -> None:
    """A cluster that does not answer keeps nobody."""
    write(script, {"hang": True})
    screen.wait_for("waiting for an answer")
    screen.press("ctrl-c")
    assert screen.wait_end() == 130
    assert screen.left_behind() == []


def test_what_is_said_on_stderr_comes_out_afterwards(screen: OnTerminal, script: Path) -> None:
    """A warning would spoil the screen, but must not get lost."""
    write(script, {"groups": {"it-was-said": {}}, "talk": "a warning"})
    screen.wait_for("it-was-said")
    assert "a warning" not in screen.text
    screen.press("q")
    assert screen.wait_end() == 0
    assert "a warning" in screen.text


def test_keys_come_from_the_terminal_when_stdin_is_a_file(script: Path) -> None:
    """As in `while read cluster; do shareproxy top …; done < clusters`."""
    command = (sys.executable, "-m", "tests.support.scripted_top", str(script), "0.5")
    with open("/dev/null") as nothing, on_terminal(*command, stdin=nothing.fileno()) as running:
        running.wait_for("orders")
        running.press("q")
        assert running.wait_end() == 0
        assert running.left_behind() == []


def test_without_any_terminal_for_keys_it_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    """As in a container that was started without one."""

    def refuse(*_: object) -> int:
        raise OSError(6, "No such device or address")

    monkeypatch.setattr("os.isatty", lambda _: False)
    monkeypatch.setattr("os.open", refuse)
    with pytest.raises(NotATerminal, match="no terminal to read keys from: No such device"), key_source():
        pass


def test_a_resized_window_is_drawn_anew(screen: OnTerminal) -> None:
    """The keys stand in the last line, whatever the size."""
    screen.resize(60, 10)
    screen.wait_until(lambda _: screen.lines[-1].startswith("q quit") and len(screen.lines) == 10, "ten lines")
    screen.resize(100, 30)
    screen.wait_until(lambda _: screen.lines[-1].startswith("q quit") and len(screen.lines) == 30, "thirty lines")
    screen.wait_until(lambda _: screen.lines[9] == "", "nothing is left of the small screen")

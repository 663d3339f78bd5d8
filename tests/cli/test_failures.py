"""Exit codes and sentences for failures."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from shareproxy.admin.errors import (
    AccessDenied,
    AdminError,
    CannotReach,
    GroupNotFound,
    OffsetRefused,
    TimedOut,
    WrongArgument,
)
from shareproxy.cli import failures
from shareproxy.cli.failures import ExitCode, with_exit_code
from shareproxy.cluster.errors import AuthenticationFailed, NotAuthorized, PropertiesError, Unreachable
from shareproxy.config import CannotListen, ConfigError


def run(error: BaseException | None) -> int:
    """Run a command that fails in the given way and return its exit code."""

    @with_exit_code
    def command() -> ExitCode:
        if error is not None:
            raise error
        return ExitCode.NO

    with pytest.raises(SystemExit) as caught:
        command()
    assert isinstance(caught.value.code, int)
    return caught.value.code


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (ConfigError("listen: no"), 2),
        (CannotListen("cannot listen on 127.0.0.1:1: Address already in use"), 1),
        (PropertiesError("client.properties", "no"), 2),
        (Unreachable("b:9092 cannot be reached"), 3),
        (AuthenticationFailed("wrong password"), 4),
        (NotAuthorized("no right"), 4),
        (WrongArgument("no such target"), 2),
        (CannotReach("b:9092 cannot be reached"), 3),
        (TimedOut("no answer in 3 s"), 3),
        (AccessDenied("grant ALTER", 30, operation="ALTER", resource="group 'g'"), 4),
        (GroupNotFound("no such group", 69), 1),
        (OffsetRefused("past the end"), 1),
        (AdminError("the broker said no", 42), 1),
    ],
)
def test_a_failure_is_one_sentence_and_a_code(error: Exception, code: int, capsys: pytest.CaptureFixture[str]) -> None:
    """Each family of failures has its exit code; stdout stays empty."""
    assert run(error) == code
    captured = capsys.readouterr()
    assert captured.err.startswith(f"shareproxy: {error}")
    assert captured.err.count("\n") == 1
    assert captured.out == ""


@pytest.mark.parametrize(
    ("sentence", "advice"),
    [
        ("b:9092: connection refused", True),
        ("no broker answered: b:9092: connection refused; c:9092: connection refused", True),
        ("b:9092 does not speak TLS here; set security.protocol=PLAINTEXT", False),
    ],
)
def test_what_to_try_where_nobody_answers(sentence: str, advice: bool, capsys: pytest.CaptureFixture[str]) -> None:
    """It stands behind what happened, unless something better does."""
    run(Unreachable(sentence))
    tried = "; check that the brokers run, and --bootstrap-server" if advice else ""
    assert capsys.readouterr().err == f"shareproxy: {sentence}{tried}\n"


@pytest.mark.parametrize("why", ["Address already in use", "Cannot assign requested address"])
def test_what_to_try_where_an_address_is_taken(why: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Unless the sentence says it."""
    run(CannotListen(f"cannot listen on 127.0.0.1:1: {why}"))
    run(CannotListen(f"cannot listen on 127.0.0.1:1: {why}; choose another address"))
    first, second = capsys.readouterr().err.splitlines()
    assert first == f"shareproxy: cannot listen on 127.0.0.1:1: {why}; choose another address, or end what uses it"
    assert second.endswith(f"{why}; choose another address")


def test_a_command_chooses_its_code() -> None:
    """What the command returns is what the shell sees."""
    assert run(None) == 1


def test_interrupted_is_130() -> None:
    """Ctrl-C ends with the shell's own code and no noise."""
    assert run(KeyboardInterrupt()) == 130


def test_a_full_disk_is_said(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """An answer that cannot be written is not a bug of ours."""
    monkeypatch.setattr(failures, "_discard_output", lambda: None)
    assert run(OSError(28, "No space left on device")) == 1
    assert capsys.readouterr().err == "shareproxy: the answer cannot be written: No space left on device\n"


def test_a_bug_has_no_traceback(capsys: pytest.CaptureFixture[str]) -> None:
    """An unexpected exception is one line that says how to see more."""
    assert run(ZeroDivisionError("division by zero")) == 70
    error = capsys.readouterr().err
    assert error == (
        "shareproxy: this is a bug: ZeroDivisionError: division by zero (SHAREPROXY_DEBUG=1 shows where)\n"
    )


def test_a_bug_shows_its_traceback_when_asked(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The variable that the sentence names works."""
    monkeypatch.setenv("SHAREPROXY_DEBUG", "1")
    assert run(ZeroDivisionError("division by zero")) == 70
    assert "Traceback" in capsys.readouterr().err


def test_a_name_cannot_speak_to_the_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    """Control characters of a group's name are written out, line ends too: each sentence is one line."""
    failures.say("\x1b[2Jworkers\nshareproxy: all is well\r\u2028: lag 1")
    assert capsys.readouterr().err == "shareproxy: \\x1b[2Jworkers\\nshareproxy: all is well\\r\\u2028: lag 1\n"


def test_letters_of_every_language_stay(capsys: pytest.CaptureFixture[str]) -> None:
    """They are no signs that steer a terminal."""
    failures.say("größe-注文: lag 3–12\n")
    assert capsys.readouterr().err == "shareproxy: größe-注文: lag 3–12\\n\n"


def test_a_name_in_an_error_cannot_speak_either(capsys: pytest.CaptureFixture[str]) -> None:
    """Nor in the sentence about a bug."""
    run(GroupNotFound("no group x\ny", 69))
    run(ZeroDivisionError("x\ny"))
    assert len(capsys.readouterr().err.splitlines()) == 2


def test_signs_that_stdout_lacks_are_written_out() -> None:
    """A plain terminal gets an answer, not a failure."""
    code = (
        "from shareproxy.cli.failures import ExitCode, with_exit_code\n"
        "with_exit_code(lambda: print('gr\\u00fcn \\u2588') or ExitCode.DONE)()"
    )
    environment = {**os.environ, "PYTHONIOENCODING": "ascii"}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, env=environment)
    assert (done.returncode, done.stdout) == (0, "gr\\xfcn \\u2588\n")

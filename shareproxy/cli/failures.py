"""Turn failures into one sentence on stderr and an exit code.

In: whatever a command raises. Out: an exit code of the documented set. Must never: let a traceback reach a person
who did not ask for one (`SHAREPROXY_DEBUG=1`).
"""

from __future__ import annotations

import contextlib
import functools
import io
import os
import sys
import traceback
from collections.abc import Callable
from enum import IntEnum
from typing import ParamSpec

P = ParamSpec("P")


class ExitCode(IntEnum):
    """What a script can learn from a command without reading its words."""

    DONE = 0
    NO = 1
    USAGE = 2
    UNREACHABLE = 3
    NOT_AUTHORIZED = 4
    BUG = 70
    INTERRUPTED = 130


def say(sentence: str) -> None:
    """Tell the person something, in one line; stdout stays free for data."""
    # stderr may be closed or its reader gone: that is no reason to fail, and never one to write to stdout
    if sys.stderr is not None:
        if not sentence.isprintable():
            from shareproxy.cli.tables import printable  # somebody's group may have any name, of two lines even

            sentence = printable(sentence)
        log = sys.modules.get("shareproxy.service_log")  # what does not log has not loaded it
        if log is not None and log.say_behind_log(f"shareproxy: {sentence}"):
            return
        with contextlib.suppress(OSError):
            print(f"shareproxy: {sentence}", file=sys.stderr, flush=True)


def is_denied(code: int) -> bool:
    """Return whether Kafka's error code says that a right is missing."""
    from shareproxy.protocol.errors import ErrorCode

    return code in (
        ErrorCode.GROUP_AUTHORIZATION_FAILED,
        ErrorCode.TOPIC_AUTHORIZATION_FAILED,
        ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
    )


def exit_code_of(error: BaseException) -> ExitCode | None:
    """Return the exit code of a failure that has a sentence of its own, `None` for a bug of ours."""
    # imported here: a command that fails early has not paid for these layers, one that used them has
    from shareproxy.config import CannotListen, ConfigError

    if isinstance(error, ConfigError):
        return ExitCode.USAGE
    if isinstance(error, CannotListen):  # it may mend by itself, so a service manager shall try again
        return ExitCode.NO
    from shareproxy.cluster.errors import AuthenticationFailed, ClusterError, NotAuthorized, PropertiesError

    if isinstance(error, PropertiesError):
        return ExitCode.USAGE
    if isinstance(error, NotAuthorized | AuthenticationFailed):
        return ExitCode.NOT_AUTHORIZED
    if isinstance(error, ClusterError):
        return ExitCode.UNREACHABLE
    from shareproxy.admin.errors import AccessDenied, AdminError, CannotReach, WrongArgument

    if isinstance(error, WrongArgument):
        return ExitCode.USAGE
    if isinstance(error, CannotReach):  # also what timed out
        return ExitCode.UNREACHABLE
    if isinstance(error, AccessDenied):
        return ExitCode.NOT_AUTHORIZED
    if isinstance(error, AdminError):
        return ExitCode.NO
    from shareproxy.drain.errors import DrainError

    return ExitCode.NO if isinstance(error, DrainError) else None


def _advice(code: ExitCode, error: Exception) -> str:
    """Return what to try where an address is no use, unless the sentence says it."""
    from shareproxy.config import CannotListen

    sentence = str(error)
    if "; " in sentence and "no broker answered" not in sentence:
        return ""
    if isinstance(error, CannotListen):
        return "; choose another address, or end what uses it"
    return "; check that the brokers run, and --bootstrap-server" if code is ExitCode.UNREACHABLE else ""


def _discard_output() -> None:
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def with_exit_code(command: Callable[P, ExitCode]) -> Callable[P, None]:
    """Wrap a command so that its result or its failure becomes the exit code."""

    @functools.wraps(command)
    def run(*args: P.args, **kwargs: P.kwargs) -> None:
        if sys.stdout is None:  # closed by the caller, as in `shareproxy lag G >&-`
            sys.stdout = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115 - lives as long as the process
        if isinstance(sys.stdout, io.TextIOWrapper):
            sys.stdout.reconfigure(errors="backslashreplace")  # names have signs that a plain terminal lacks
        try:
            code = command(*args, **kwargs)
            sys.stdout.flush()
        except KeyboardInterrupt:
            code = ExitCode.INTERRUPTED
        except BrokenPipeError:
            # the reader has seen enough (`| head`); keep the interpreter from complaining at exit
            _discard_output()
            code = ExitCode.DONE
        except OSError as error:
            # what the layers below meet on the network has a type of its own; this is the answer's way out
            _discard_output()
            say(f"the answer cannot be written: {error.strerror or error}")
            code = ExitCode.NO
        except Exception as error:
            if os.environ.get("SHAREPROXY_DEBUG"):
                traceback.print_exc()
            known = exit_code_of(error)
            if known is None:
                say(f"this is a bug: {type(error).__name__}: {error} (SHAREPROXY_DEBUG=1 shows where)")
            else:
                say(f"{error}{_advice(known, error)}")
            code = ExitCode.BUG if known is None else known
        raise SystemExit(int(code))

    return run

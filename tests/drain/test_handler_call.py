"""One call of a handler, and how it ends."""

from __future__ import annotations

import asyncio
import functools
import threading
from collections.abc import Awaitable, Iterator
from typing import Any

import pytest

from shareproxy.admin.errors import WrongArgument
from shareproxy.drain.handler_call import HandlerCall, How
from shareproxy.drain.sink import Fatal, Outcome, RejectRecord, Retriable
from tests.support.virtual_time import in_virtual_time

PATIENCE = 30.0
RESULTS = [
    (None, How.DONE),
    (0, How.DONE),
    (False, How.DONE),
    (Outcome.ACCEPT, How.DONE),
    (Outcome.RELEASE, How.GIVEN_BACK),
    (Outcome.REJECT, How.WILL_NEVER_WORK),
]
ERRORS = [
    (ValueError("no"), How.FAILED),
    (Retriable("no"), How.FAILED),
    (TimeoutError("its own"), How.FAILED),
    (SystemExit(1), How.FAILED),
    (asyncio.CancelledError(), How.FAILED),
    (Fatal("no"), How.WILL_NEVER_WORK),
    (RejectRecord("no"), How.WILL_NEVER_WORK),
]


def call_of(handler: Any, **options: Any) -> HandlerCall:
    """Return a call with two threads."""
    return HandlerCall(handler, concurrency=2, **options)


@pytest.mark.parametrize(("result", "how"), RESULTS)
async def test_what_a_handler_returns(result: object, how: How) -> None:
    """Both kinds of handlers; only an `Outcome` means something."""

    async def handle(record: object) -> object:
        return result

    assert (await call_of(handle)(1)).how is how
    assert (await call_of(lambda record: result)(1)).how is how


@pytest.mark.parametrize(("error", "how"), ERRORS)
async def test_what_a_handler_raises(error: BaseException, how: How) -> None:
    """Both kinds of handlers."""

    def plain(record: object) -> None:
        raise error

    async def handle(record: object) -> None:
        raise error

    for handler in (plain, handle):
        ended = await call_of(handler)(1)
        assert (ended.how, type(ended.error)) == (how, type(error))


async def test_how_long_it_wants_to_wait() -> None:
    """Only `Retriable` says so."""

    async def handle(record: object) -> None:
        raise Retriable("busy", after_s=7)

    assert (await call_of(handle)(1)).after_s == 7


async def test_async_handlers_run_in_the_loop_and_plain_ones_do_not() -> None:
    """Whatever wraps them."""

    class Both:
        async def __call__(self, record: object) -> None:
            where.append(threading.current_thread())

        async def method(self, more: int, record: object) -> None:
            where.append(threading.current_thread())

    where: list[threading.Thread] = []
    for handler in (Both(), functools.partial(Both().method, 1), functools.partial(Both())):
        await call_of(handler)(1)
    await call_of(lambda record: where.append(threading.current_thread()))(1)

    main = threading.current_thread()
    assert [thread is main for thread in where] == [True, True, True, False]


async def test_a_plain_function_around_an_async_one_is_awaited() -> None:
    """A lambda, most likely; it is done when the inner one is."""
    done: list[object] = []

    async def inner(record: object) -> None:
        await asyncio.sleep(0)
        done.append(record)

    def outer(record: object) -> Awaitable[None]:
        return inner(record)

    assert (await call_of(outer)(1)).how is How.DONE
    assert done == [1]


def test_r20_an_async_handler_over_its_limit_is_cancelled() -> None:
    """Also if it answers with an error of its own."""

    async def scene() -> None:
        async def sleep(record: object) -> None:
            await asyncio.sleep(100)

        async def sulk(record: object) -> None:
            try:
                await asyncio.sleep(100)
            except asyncio.CancelledError:
                raise ValueError("how dare you") from None

        assert (await call_of(sleep, time_limit=3)(1)).how is How.TIMED_OUT
        assert (await call_of(sulk, time_limit=3)(1)).how is How.TIMED_OUT
        assert asyncio.get_running_loop().time() == 6

    in_virtual_time(scene())


def test_a_handler_that_returns_at_its_limit_is_done() -> None:
    """It did return, so its work is."""

    async def scene() -> None:
        async def finish(record: object) -> None:
            try:
                await asyncio.sleep(100)
            except asyncio.CancelledError:
                return

        assert (await call_of(finish, time_limit=3)(1)).how is How.DONE

    in_virtual_time(scene())


async def test_r20_a_thread_over_its_limit_goes_on_and_is_handed_over() -> None:
    """Nobody can end it; whoever called knows when it is free again."""
    go = threading.Event()

    ended = await call_of(lambda record: go.wait(PATIENCE), time_limit=0.01)(1)

    assert ended.how is How.TIMED_OUT
    assert ended.running is not None
    assert not ended.running.done()
    go.set()
    async with asyncio.timeout(PATIENCE):
        await ended.running


async def test_a_caller_that_is_cancelled_is_cancelled() -> None:
    """That is no failure of the handler."""

    async def forever(record: object) -> None:
        await asyncio.Event().wait()

    hold = threading.Event()
    for handler in (forever, lambda record: hold.wait(PATIENCE)):
        call = asyncio.create_task(call_of(handler)(1))
        await asyncio.sleep(0)
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call
    hold.set()


def generator(record: object) -> Iterator[int]:
    """Never runs."""
    yield 1


def without_arguments() -> None:
    """Takes no record."""


@pytest.mark.parametrize(
    ("handler", "says"),
    [
        (None, "None cannot be called"),
        (generator, "generator has a yield"),
        (without_arguments, r"without_arguments\(\) .*cannot be called with one record"),
        (lambda a, b: None, "cannot be called with one record"),
    ],
)
def test_what_cannot_be_a_handler(handler: Any, says: str) -> None:
    """Is said before anything is sent."""
    with pytest.raises(WrongArgument, match=says):
        call_of(handler)


async def test_what_says_nothing_of_its_arguments_is_tried() -> None:
    """Some built-in functions."""
    assert (await call_of(print)("a record")).how is How.DONE

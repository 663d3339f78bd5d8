"""Which of several addresses is taken, and what the others cost."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import Iterator
from typing import Any

import pytest

from shareproxy.cluster.addresses import Address
from shareproxy.proxy import dial
from shareproxy.proxy.dial import Dial, Resolver, numeric_places
from tests.proxy.fake_broker import HOST, FakeBroker, eventually

pytestmark = pytest.mark.timeout(60)

NAME = "kafka.example"


@contextlib.contextmanager
def silent(host: str = HOST, port: int = 0) -> Iterator[Address]:
    """Occupy an address that accepts nobody and refuses nobody, as a machine that is gone."""
    with socket.socket() as full, socket.socket() as first:
        full.bind((host, port))
        full.listen(0)
        first.connect(full.getsockname())
        yield Address(host, full.getsockname()[1])


def resolve_to(monkeypatch: pytest.MonkeyPatch, *hosts: str) -> list[str]:
    """Let every name have these addresses; return the list of names that are asked for."""
    asked: list[str] = []
    really = type(asyncio.get_running_loop()).getaddrinfo

    async def getaddrinfo(loop: Any, host: str, port: int, **options: Any) -> list[Any]:
        if numeric_places(Address(host, port)):  # uvloop asks once more when it connects
            return list(await really(loop, host, port, **options))
        asked.append(host)
        await asyncio.sleep(0)
        rows = [socket.getaddrinfo(one, port, type=socket.SOCK_STREAM) for one in hosts]
        if not rows:
            raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")
        return [row for found in rows for row in found]

    monkeypatch.setattr(type(asyncio.get_running_loop()), "getaddrinfo", getaddrinfo, raising=True)
    return asked


@pytest.fixture
def resolver() -> Resolver:
    """Return a resolver."""
    return Resolver()


async def test_name_with_a_dead_and_a_living_address_is_reached(
    broker: FakeBroker, resolver: Resolver, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The dead one refuses; the next is tried at once."""
    resolve_to(monkeypatch, "127.0.0.2", HOST)
    dialled = await Dial(resolver, [Address(NAME, broker.address.port)]).connected()

    assert dialled is not None
    assert dialled.place == tuple(broker.address)
    assert dialled.address.host == NAME
    dialled.socket.close()


async def test_silent_address_of_a_name_is_waited_for_beside_the_next(
    broker: FakeBroker, resolver: Resolver, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It would take minutes alone."""
    monkeypatch.setattr(dial, "STAGGER_SECONDS", 0.01)
    with silent("127.0.0.2", broker.address.port):
        resolve_to(monkeypatch, "127.0.0.2", HOST)
        dialled = await Dial(resolver, [Address(NAME, broker.address.port)]).connected()

    assert dialled is not None
    assert dialled.place == tuple(broker.address)
    dialled.socket.close()


async def test_silent_broker_is_waited_for_beside_the_next(
    broker: FakeBroker, resolver: Resolver, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Addresses of different brokers are no different."""
    monkeypatch.setattr(dial, "STAGGER_SECONDS", 0.01)
    with silent() as gone:
        attempts = Dial(resolver, [gone, gone, broker.address, Address(HOST, 1)])
        dialled = await attempts.connected()

    assert dialled is not None
    assert dialled.address == broker.address
    assert attempts.worse_than(dialled.address) == [gone, gone]
    dialled.socket.close()


async def test_all_causes_are_told(resolver: Resolver, monkeypatch: pytest.MonkeyPatch) -> None:
    """With the address that a name had."""
    resolve_to(monkeypatch, "127.0.0.2", "127.0.0.3")
    attempts = Dial(resolver, [Address(NAME, 1), Address(HOST, 1)])

    assert await attempts.connected() is None
    assert attempts.why() == (
        f"{NAME}:1: 127.0.0.2 Connection refused, 127.0.0.3 Connection refused; {HOST}:1: Connection refused"
    )
    assert attempts.worse_than(None) == [Address(NAME, 1), Address(HOST, 1)]


async def test_name_without_addresses_is_a_failure(resolver: Resolver, monkeypatch: pytest.MonkeyPatch) -> None:
    """In the system's words."""
    resolve_to(monkeypatch)
    attempts = Dial(resolver, [Address(NAME, 1)])

    assert await attempts.connected() is None
    assert attempts.why() == f"{NAME}:1: Name or service not known"


async def test_name_that_no_host_can_have_is_a_failure(resolver: Resolver) -> None:
    """Python refuses to encode it."""
    attempts = Dial(resolver, [Address("a" * 64 + ".example", 1)])

    assert await attempts.connected() is None
    assert "no such host name" in attempts.why()


async def test_place_that_was_given_up_is_not_taken_again(
    broker: FakeBroker, resolver: Resolver, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It took the connection, but TLS failed on it, say; the other addresses have their turn."""
    async with FakeBroker(broker.node_id) as other:
        attempts = Dial(resolver, [broker.address, other.address])
        first = await attempts.connected()
        assert first is not None
        first.socket.close()
        attempts.give_up(first.address, first.place, TimeoutError())

        second = await attempts.connected()
        assert second is not None
        second.socket.close()
        attempts.give_up(second.address, second.place, ConnectionResetError(104, "reset"))

        assert (first.address, second.address) == (broker.address, other.address)
        assert await attempts.connected() is None
        assert "no answer in time" in attempts.why()
        assert "Connection reset by peer" in attempts.why()


async def test_name_is_asked_for_at_each_connect_and_once_at_a_time(
    broker: FakeBroker, resolver: Resolver, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Many clients that come at one moment are one question; those who come later ask again."""
    asked = resolve_to(monkeypatch, HOST)
    address = Address(NAME, broker.address.port)

    await asyncio.gather(*(resolver.places_of(address) for _ in range(5)))
    await resolver.places_of(address)

    assert asked == [NAME, NAME]


async def test_who_gives_up_does_not_end_the_question_of_others(
    resolver: Resolver, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first who asked may have the least time."""
    resolve_to(monkeypatch, HOST)
    first, second = (asyncio.create_task(resolver.places_of(Address(NAME, 1))) for _ in range(2))
    await asyncio.sleep(0)
    first.cancel()

    assert [place for _, place in await second] == [(HOST, 1)]


async def test_cancelled_attempts_leave_no_socket(broker: FakeBroker, resolver: Resolver) -> None:
    """The client went away while its broker was looked for."""
    with silent() as gone:
        task = asyncio.create_task(Dial(resolver, [gone, gone]).connected())
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    await eventually(lambda: asyncio.all_tasks() == {asyncio.current_task()})


async def test_families_take_turns(resolver: Resolver, monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine whose IPv6 leads nowhere does not try all of it first (RFC 8305)."""
    resolve_to(monkeypatch, "::1", "::2", "::3", "127.0.0.1")

    places = await resolver.places_of(Address(NAME, 1))

    assert [place[0] for _, place in places] == ["::1", "127.0.0.1", "::2", "::3"]


@pytest.mark.parametrize(("host", "numeric"), [("127.0.0.1", True), ("::1", True), ("localhost", False), ("", False)])
def test_numbers_are_not_resolved(host: str, numeric: bool) -> None:
    """They are what they are."""
    assert bool(numeric_places(Address(host or "..", 1))) is numeric

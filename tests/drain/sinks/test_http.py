"""The HTTP sink against a real server."""

from __future__ import annotations

import asyncio
import hashlib
import json
from collections.abc import AsyncIterator, Callable
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from typing import Any

import pytest
from aiohttp import web

from shareproxy.drain.sink import Outcome, Retriable
from shareproxy.drain.sinks.http import HttpSink
from shareproxy.drain.sinks.settings import SettingsError
from tests.drain.sinks.records import Context, Record, records

ACCEPT, RELEASE, REJECT = Outcome.ACCEPT, Outcome.RELEASE, Outcome.REJECT
Answer = Callable[[int], web.Response]


class Service:
    """A server that notes requests and answers as the test says; `answer` gets the number of the request."""

    def __init__(self) -> None:
        self.requests: list[tuple[str, dict[str, str], bytes]] = []
        self.answer: Answer = lambda number: web.Response()
        self.url = ""
        self.sinks: list[HttpSink] = []

    async def handle(self, request: web.Request) -> web.Response:
        """Note and answer."""
        self.requests.append((request.method, dict(request.headers), await request.read()))
        return self.answer(len(self.requests) - 1)

    async def sink(self, **settings: Any) -> HttpSink:
        """Start a sink that sends here, one request at a time."""
        sink = HttpSink()
        self.sinks.append(sink)
        await sink.start(Context(config={"url": self.url, "concurrency": 1, **settings}))
        return sink


@pytest.fixture
async def service() -> AsyncIterator[Service]:
    """A server on a free port."""
    service = Service()
    application = web.Application()
    application.router.add_route("*", "/hook", service.handle)
    runner = web.AppRunner(application)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    service.url = f"http://127.0.0.1:{runner.addresses[0][1]}/hook"
    yield service
    for sink in service.sinks:
        await sink.stop()
    await runner.cleanup()


async def test_each_record_is_a_request_with_its_coordinates_as_the_idempotency_key(service: Service) -> None:
    """The body is the value, as it is where it is text or bytes."""
    sink = await service.sink(headers={"Authorization": "Bearer t"})

    assert await sink.put([Record(offset=1, value={"n": 1}), Record(offset=2, value=b"\xff"), Record(offset=3)]) is None

    assert [body for _, _, body in service.requests] == [b'{"n":1}', b"\xff", b""]
    method, headers, _ = service.requests[0]
    assert method == "POST"
    assert headers["Idempotency-Key"] == "orders-0-1"
    assert headers["Authorization"] == "Bearer t"
    assert headers["Content-Type"] == "application/json"


async def test_a_batch_is_one_request(service: Service) -> None:
    """With a key that is the same for the same records."""
    sink = await service.sink(send="batch", body="record", method="PUT", idempotency_header="X-Key")

    await sink.put(records(2))

    ((method, headers, body),) = service.requests
    assert method == "PUT"
    assert headers["X-Key"] == hashlib.sha256(b"orders-0-0\norders-0-1").hexdigest()
    assert [(record["offset"], record["value"]) for record in json.loads(body)] == [(0, {"n": 0}), (1, {"n": 1})]


@pytest.mark.parametrize("status", [500, 503, 429, 408, 401, 302])
async def test_what_may_work_later_is_retriable(service: Service, status: int) -> None:
    """The sentence names the address and the answer; the others of the batch are not sent."""
    service.answer = lambda number: web.Response(status=status, text="no\nroom")
    sink = await service.sink()

    with pytest.raises(Retriable, match=rf"^http://127\.0\.0\.1:\d+/hook: status {status}"):
        await sink.put(records(3))

    assert len(service.requests) == 1


@pytest.mark.parametrize("form", ["seconds", "date"])
async def test_retry_after_is_kept_to(service: Service, form: str) -> None:
    """Also by a put that comes too early: it asks nothing of the service."""
    header = "100" if form == "seconds" else format_datetime(datetime.now(UTC) + timedelta(seconds=100), usegmt=True)
    service.answer = lambda number: web.Response(status=429, headers={"Retry-After": header})
    sink = await service.sink()

    for _ in range(2):
        with pytest.raises(Retriable) as raised:
            await sink.put(records(1))
        assert raised.value.after_s == pytest.approx(100, abs=20)

    assert len(service.requests) == 1


@pytest.mark.parametrize("header", ["soon", "nan", "Mon, 01 Jan 9999999999999999999 00:00:00 GMT"])
async def test_a_retry_after_that_makes_no_sense_is_left_out(service: Service, header: str) -> None:
    """The worker's own delay is used."""
    service.answer = lambda number: web.Response(status=503, headers={"Retry-After": header})
    sink = await service.sink()

    with pytest.raises(Retriable) as raised:
        await sink.put(records(1))

    assert raised.value.after_s is None


async def test_a_refused_record_is_rejected_by_itself(service: Service) -> None:
    """And one that comes after a failure is released."""
    statuses = [200, 422, 200, 500, 200]
    service.answer = lambda number: web.Response(status=statuses[number])
    sink = await service.sink()

    assert await sink.put(records(5)) == [ACCEPT, REJECT, ACCEPT, RELEASE, RELEASE]


async def test_which_statuses_reject_can_be_set(service: Service) -> None:
    """Such as 404 of a service that is being set up, and 401 the other way round."""
    service.answer = lambda number: web.Response(status=[404, 401][number])
    sink = await service.sink(retry_statuses=[404])

    with pytest.raises(Retriable):
        await sink.put(records(1))
    assert await sink.put(records(1)) == [REJECT]


async def test_a_refused_batch_is_rejected_whole(service: Service) -> None:
    """But for what was not sent, since JSON cannot hold it."""
    sink = await service.sink(send="batch")

    assert await sink.put([Record(value=object()), Record(offset=1)]) == [REJECT, ACCEPT]
    service.answer = lambda number: web.Response(status=400)
    assert await sink.put(records(2)) == [REJECT, REJECT]


async def test_no_answer_in_time_is_retriable(service: Service) -> None:
    """Whether the service has the record is not known: it comes again with the same key."""
    sink = HttpSink()
    await sink.start(Context(config={"url": service.url.replace("127.0.0.1", "127.0.0.1"), "timeout": 1e-6}))

    with pytest.raises(Retriable, match="no answer within 1e-06 s"):
        await sink.put(records(1))
    await sink.stop()


async def test_a_service_that_is_away_is_retriable_and_its_password_not_shown() -> None:
    """Nobody listens on port 1."""
    sink = HttpSink()
    await sink.start(Context(config={"url": "http://me:secret@127.0.0.1:1/hook"}))

    with pytest.raises(Retriable, match=r"http://127\.0\.0\.1:1/hook: Cannot connect") as raised:
        await sink.put(records(1))
    await sink.stop()

    assert "secret" not in str(raised.value)


async def test_a_redirect_s_token_is_not_shown(service: Service) -> None:
    """Services that move from http to https answer with the whole address, query included."""
    service.answer = lambda number: web.Response(
        status=308, headers={"Location": "https://me:secret@host/hook?token=secret#secret"}
    )
    sink = await service.sink(headers={"X": "y"})

    with pytest.raises(Retriable, match="set url to 'https://host/hook'") as raised:
        await sink.put(records(1))

    assert "secret" not in str(raised.value)


async def test_an_answer_that_is_no_http_shows_no_token() -> None:
    """aiohttp's own words have the address in them."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 what\r\n\r\n")
        writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    sink = HttpSink()
    await sink.start(Context(config={"url": f"http://127.0.0.1:{port}/hook?token=secret"}))

    with pytest.raises(Retriable, match=rf"^http://127\.0\.0\.1:{port}/hook: ") as raised:
        await sink.put(records(1))
    await sink.stop()
    server.close()

    assert "secret" not in str(raised.value)


async def test_requests_go_side_by_side(service: Service) -> None:
    """All are answered, each record once."""
    sink = await service.sink(concurrency=8)

    assert await sink.put(records(50)) is None

    assert sorted(int(json.loads(body)["n"]) for _, _, body in service.requests) == list(range(50))


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({}, "url: is missing; write where requests go"),
        ({"url": "ftp://h"}, "url: must be an address such as https://HOST/PATH"),
        ({"url": "http://h:x/"}, "url: must be an address"),
        ({"url": "http://h", "method": "GET"}, "method: choose one of POST, PUT, PATCH"),
        ({"url": "http://h", "headers": {"a b": "c"}}, "headers: 'a b' is no name of a header"),
        ({"url": "http://h", "headers": {"a": "c\nd: e"}}, "headers: 'a' is no name of a header, or its value"),
        ({"url": "http://h", "headers": {"a": "c\0"}}, "headers: 'a' is no name of a header, or its value"),
        ({"url": "http://h", "content_type": "a\nb"}, "content_type: must be one line"),
        ({"url": "http://u:p@h", "headers": {"authorization": "x"}}, "headers: Authorization and a login in url"),
        ({"url": "http://h", "retry_statuses": [500]}, "retry_statuses: 500 is none from 400 to 499"),
        ({"url": "http://h", "concurrency": 0}, "concurrency: must be a whole number of 1 or more"),
    ],
)
def test_wrong_settings_are_told_by_key(settings: dict[str, Any], said: str) -> None:
    """Each with what to write instead."""
    with pytest.raises(SettingsError, match=said):
        HttpSink.check(settings)

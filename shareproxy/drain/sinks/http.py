"""Bring records to an HTTP service: a request for each record, or one for each batch.

In: batches. Out: requests, answered with 2xx before a record is accepted. Must never: follow a redirect, or show a
header or an address with a password.
"""

from __future__ import annotations

import asyncio
import hashlib
import math
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Annotated, Any, Final, Literal
from urllib.parse import urlsplit

import aiohttp
import msgspec
import structlog
from msgspec import Meta

from shareproxy.drain.sink import Outcome, Outcomes, Retriable, SinkRecord, TaskContext
from shareproxy.drain.sinks.record_json import CannotEncode, json_bytes, plain_bytes, readable, record_bytes
from shareproxy.drain.sinks.settings import Seconds, SettingsError, read_settings
from shareproxy.version import __version__

# whoever may log in again, was too slow or too fast; a wrong login is not the record's fault
_RETRY_STATUSES: Final = (401, 403, 407, 408, 425, 429)
# an answer is read no further: only its beginning is shown
_MOST_READ: Final = 2000
_MOST_SHOWN: Final = 200
# a service that asks for longer is asked again after that
_LONGEST_WAIT: Final = 3600.0


class HttpSettings(msgspec.Struct, frozen=True, kw_only=True):
    """The settings of an `http` sink."""

    url: Annotated[str, Meta(description="where requests go, `https://HOST/PATH`")]
    method: Annotated[Literal["POST", "PUT", "PATCH"], Meta(description="how: `POST`, `PUT` or `PATCH`")] = "POST"
    send: Annotated[
        Literal["record", "batch"],
        Meta(
            description="`record`: a request for each; `batch`: one with a JSON array, which is taken or refused whole"
        ),
    ] = "record"
    body: Annotated[
        Literal["value", "record"],
        Meta(description="`value`: the record's value; `record`: a JSON object with its topic, offset and all else"),
    ] = "value"
    headers: Annotated[dict[str, str], Meta(description="headers of each request, such as `Authorization`")] = (
        msgspec.field(default_factory=dict)
    )
    content_type: Annotated[str, Meta(description="what the body is")] = "application/json"
    idempotency_header: Annotated[
        str,
        Meta(description='header with `TOPIC-PARTITION-OFFSET`, with `send = "batch"` a hash of those; empty for none'),
    ] = "Idempotency-Key"
    concurrency: Annotated[
        int, Meta(ge=1, le=1000, description='requests under way at a time, with `send = "record"`')
    ] = 10
    timeout: Annotated[Seconds, Meta(description="seconds for one request, its answer included")] = 30.0
    retry_statuses: Annotated[
        list[int], Meta(description="statuses from 400 to 499 that do not reject: the records come again")
    ] = msgspec.field(default_factory=lambda: list(_RETRY_STATUSES))


class _Answer(msgspec.Struct, frozen=True):
    """What became of one request."""

    outcome: Outcome
    why: str = ""
    after_s: float | None = None


_TAKEN: Final = _Answer(Outcome.ACCEPT)


class HttpSink:
    """Send records to an HTTP service."""

    def __init__(self) -> None:
        self._settings: HttpSettings
        self._session: aiohttp.ClientSession | None = None
        self._not_before = 0.0
        self._log = structlog.get_logger()

    @staticmethod
    def check(config: Mapping[str, Any]) -> None:
        """Check the settings.

        Raises:
            SettingsError: names the key and what to write.
        """
        _settings(config)

    async def start(self, context: TaskContext) -> None:
        """Get ready; nothing is asked of the service, as it may have no request that changes nothing."""
        self._settings = settings = _settings(context.config)
        self._log = structlog.get_logger().bind(connector=context.connector, task=context.task_id)
        self._session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=settings.concurrency),
            timeout=aiohttp.ClientTimeout(total=settings.timeout),
            headers={
                "Content-Type": settings.content_type,
                "User-Agent": f"shareproxy/{__version__}",
                **settings.headers,
            },
            cookie_jar=aiohttp.DummyCookieJar(),
            trust_env=True,
        )

    async def put(self, batch: Sequence[SinkRecord]) -> Outcomes | None:
        """Send a batch.

        Raises:
            Retriable: no record was taken, and some may be later.
        """
        wait = self._not_before - asyncio.get_running_loop().time()
        if wait > 0:
            raise Retriable(f"{self._where()} asked to wait", after_s=wait)
        answers = await (self._by_batch(batch) if self._settings.send == "batch" else self._by_record(batch))
        outcomes = [answer.outcome for answer in answers]
        again = [answer for answer in answers if answer.outcome is Outcome.RELEASE]
        after_s = max((answer.after_s for answer in again if answer.after_s is not None), default=None)
        if after_s is not None:
            self._not_before = asyncio.get_running_loop().time() + after_s
        if again and len(again) == len(batch):
            raise Retriable(f"{self._where()}: {again[0].why}", after_s=after_s)
        if again:
            self._log.warning("requests failed, their records come again", count=len(again), why=again[0].why)
        return None if all(outcome is Outcome.ACCEPT for outcome in outcomes) else outcomes

    async def stop(self) -> None:
        """Close the connections."""
        session, self._session = self._session, None
        if session is not None:
            await session.close()

    async def _by_record(self, batch: Sequence[SinkRecord]) -> list[_Answer]:
        answers: list[_Answer] = [_TAKEN] * len(batch)
        left = iter(enumerate(batch))
        ill: _Answer | None = None

        async def work() -> None:
            nonlocal ill
            for index, record in left:
                if ill is not None:  # others would fare no better; this one was not even sent
                    answers[index] = ill
                    continue
                answer = answers[index] = await self._send_record(record)
                if answer.outcome is Outcome.RELEASE:
                    ill = answer

        async with asyncio.TaskGroup() as tasks:
            for _ in range(min(self._settings.concurrency, len(batch))):
                tasks.create_task(work())
        return answers

    async def _send_record(self, record: SinkRecord) -> _Answer:
        try:
            body = record_bytes(record) if self._settings.body == "record" else plain_bytes(record.value)
        except CannotEncode as error:
            return self._refused(record, str(error))
        key = f"{record.topic}-{record.partition}-{record.offset}"
        answer = await self._request(body or b"", key)
        return self._refused(record, answer.why) if answer.outcome is Outcome.REJECT else answer

    async def _by_batch(self, batch: Sequence[SinkRecord]) -> list[_Answer]:
        answers: list[_Answer] = [_TAKEN] * len(batch)
        parts: list[bytes] = []
        sent: list[int] = []
        for index, record in enumerate(batch):
            try:
                whole = self._settings.body == "record"
                parts.append(record_bytes(record) if whole else json_bytes(readable(record.value)))
                sent.append(index)
            except CannotEncode as error:
                answers[index] = self._refused(record, str(error))
        if not sent:
            return answers
        coordinates = "\n".join(f"{batch[i].topic}-{batch[i].partition}-{batch[i].offset}" for i in sent)
        answer = await self._request(b"[" + b",".join(parts) + b"]", hashlib.sha256(coordinates.encode()).hexdigest())
        if answer.outcome is Outcome.REJECT:
            answer = self._refused(batch[sent[0]], f"{answer.why}, to a batch of {len(sent)} that begins with it")
        for index in sent:
            answers[index] = answer
        return answers

    async def _request(self, body: bytes, key: str) -> _Answer:
        assert self._session is not None
        settings = self._settings
        headers = {settings.idempotency_header: key} if settings.idempotency_header else {}
        try:
            async with self._session.request(
                settings.method, settings.url, data=body, headers=headers, allow_redirects=False
            ) as response:
                if response.ok and response.status < 300:
                    async for _ in response.content.iter_any():  # so that the connection can be used again
                        pass
                    return _TAKEN
                said = await response.content.read(_MOST_READ)
                return self._answer(response, said)
        except TimeoutError:
            return _Answer(Outcome.RELEASE, f"no answer within {settings.timeout:g} s")
        except aiohttp.ClientResponseError as error:  # its text has the whole address
            return _Answer(Outcome.RELEASE, f"the answer is no HTTP: {' '.join(error.message.split())[:_MOST_SHOWN]}")
        except (aiohttp.ClientError, OSError) as error:
            return _Answer(Outcome.RELEASE, str(error) or type(error).__name__)

    def _answer(self, response: aiohttp.ClientResponse, said: bytes) -> _Answer:
        why = f"status {response.status} {response.reason or ''}".rstrip()
        if 300 <= response.status < 400:
            location = response.headers.get("Location")
            to = "the new address" if location is None else repr(_without_secrets(location))
            why += f"; redirects are not followed, set url to {to}"
        elif text := " ".join(said.decode(errors="replace").split()):
            why += f": {text[:_MOST_SHOWN]}"
        if 400 <= response.status < 500 and response.status not in self._settings.retry_statuses:
            return _Answer(Outcome.REJECT, why)
        return _Answer(Outcome.RELEASE, why, _retry_after(response.headers.get("Retry-After")))

    def _refused(self, record: SinkRecord, why: str) -> _Answer:
        self._log.warning(
            "the service does not take a record", record=f"{record.topic}-{record.partition}@{record.offset}", why=why
        )
        return _Answer(Outcome.REJECT, why)

    def _where(self) -> str:
        return _without_secrets(self._settings.url)


def _without_secrets(url: str) -> str:
    """Return an address without login and query: either may hold a password."""
    try:
        parts = urlsplit(url)
    except ValueError:
        return "the new address"
    host = parts.netloc.rpartition("@")[2]
    return f"{parts.scheme}://{host}{parts.path}" if host else parts.path


def _retry_after(header: str | None) -> float | None:
    """Return the seconds that a Retry-After asks for: a number, or a date."""
    if header is None:
        return None
    try:
        seconds = float(header)
    except ValueError:
        try:
            moment = parsedate_to_datetime(header)
        except (ValueError, OverflowError):
            return None
        if moment.tzinfo is None:
            moment = moment.replace(tzinfo=UTC)
        seconds = (moment - datetime.now(UTC)).total_seconds()
    return min(max(seconds, 0.0), _LONGEST_WAIT) if math.isfinite(seconds) else None


def _settings(config: Mapping[str, Any]) -> HttpSettings:
    settings = read_settings(HttpSettings, config)
    try:
        parts = urlsplit(settings.url)
        known = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        known = False
    if not known:
        raise SettingsError("url: must be an address such as https://HOST/PATH")
    for status in settings.retry_statuses:
        if not 400 <= status < 500:
            raise SettingsError(f"retry_statuses: {status} is none from 400 to 499; those of 500 and more always retry")
    if not _is_line(settings.content_type):
        raise SettingsError("content_type: must be one line, such as application/json")
    if "@" in parts.netloc and any(name.lower() == "authorization" for name in settings.headers):
        raise SettingsError("headers: Authorization and a login in url exclude each other; leave one of them out")
    for name, value in (*settings.headers.items(), (settings.idempotency_header or "x", "")):
        if not name or not name.isascii() or any(c.isspace() or c in ":,;" for c in name) or not _is_line(value):
            raise SettingsError(f"headers: {name!r} is no name of a header, or its value has more than one line")
    return settings


def _is_line(text: str) -> bool:
    return not any(c in "\r\n\0" for c in text)

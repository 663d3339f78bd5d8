"""Bring records into objects of S3 and of what speaks like it, stored before `put` returns.

In: batches. Out: for each batch and partition an object of JSON lines, named by what is in it.
Must never: write another object over one that is there: who accepted its records counts on them.
"""

from __future__ import annotations

import asyncio
import gzip
import hashlib
import re
from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Annotated, Any, Final, Literal
from urllib.parse import urlsplit

import msgspec
import obstore
import structlog
from msgspec import Meta
from obstore.exceptions import BaseError
from obstore.store import S3Store

from shareproxy.drain.errors import DrainError
from shareproxy.drain.sink import Outcome, Outcomes, Retriable, SinkRecord, TaskContext
from shareproxy.drain.sinks.record_json import CannotEncode, record_bytes
from shareproxy.drain.sinks.settings import Seconds, SettingsError, read_settings

# objects on their way at a time
_MOST_AT_A_TIME: Final = 10
_MOST_SHOWN: Final = 200
_STATUS: Final = re.compile(r"status code: (\d{3})")
_CODE: Final = re.compile(r"<Code>([^<]*)</Code>")
_MESSAGE: Final = re.compile(r"<Message>([^<]*)</Message>")
# may be right later: a clock, a quick client, a slow one; any other 400 says that the request is wrong
_LATER_CODES: Final = ("RequestTimeout", "RequestTimeTooSkewed", "SlowDown", "ExpiredToken")


class S3Settings(msgspec.Struct, frozen=True, kw_only=True):
    """The settings of an `s3` sink."""

    bucket: Annotated[str, Meta(description="the bucket; it has to exist")]
    prefix: Annotated[str, Meta(description="what names of objects begin with, such as `lake/`")] = ""
    endpoint_url: Annotated[
        str, Meta(description="where the service is, `http://HOST:PORT` for MinIO and its like; without it AWS")
    ] = ""
    region: Annotated[str, Meta(description="region; without it that of the environment, or `us-east-1`")] = ""
    access_key_id: Annotated[
        str,
        Meta(description="who logs in; without it as the environment, a web identity, the container or the host say"),
    ] = ""
    secret_access_key: Annotated[str, Meta(description="the secret of `access_key_id`")] = ""
    compression: Annotated[Literal["none", "gzip"], Meta(description="of objects: `none` or `gzip`")] = "none"
    timeout: Annotated[Seconds, Meta(description="seconds for one request")] = 30.0


class S3Sink:
    """Store records as objects."""

    def __init__(self) -> None:
        self._settings: S3Settings
        self._store: S3Store
        self._gate = asyncio.Semaphore(_MOST_AT_A_TIME)
        self._log = structlog.get_logger()

    @staticmethod
    def check(config: Mapping[str, Any]) -> None:
        """Check the settings.

        Raises:
            SettingsError: names the key and what to write.
        """
        _settings(config)

    async def start(self, context: TaskContext) -> None:
        """Look whether the bucket is there and takes the login.

        Raises:
            DrainError: it is not, or does not.
        """
        self._settings = settings = _settings(context.config)
        self._log = structlog.get_logger().bind(connector=context.connector, task=context.task_id)
        self._store = _store(settings)
        try:
            async with asyncio.timeout(settings.timeout):
                # nothing has this name, so that the answer is short in a bucket of any size
                await obstore.list_with_delimiter_async(self._store, prefix=f"{settings.prefix}.shareproxy-start")
        except (BaseError, OSError, ValueError) as error:
            if _code_of(error) != "AccessDenied":  # whoever may write need not be able to list
                raise DrainError(self._sentence(error)) from error

    async def put(self, batch: Sequence[SinkRecord]) -> Outcomes | None:
        """Store a batch.

        Raises:
            Retriable: nothing was stored, and may be later.
            DrainError: the service says that the request is wrong.
        """
        outcomes = [Outcome.ACCEPT] * len(batch)
        found: dict[tuple[str, int], dict[int, bytes]] = {}
        places: dict[tuple[str, int], list[int]] = {}
        for index, record in enumerate(batch):
            try:
                line = record_bytes(record)
            except CannotEncode as error:
                outcomes[index] = Outcome.REJECT
                name = f"{record.topic}-{record.partition}@{record.offset}"
                self._log.warning("a record cannot be stored", record=name, why=str(error))
            else:
                partition = record.topic, record.partition
                found.setdefault(partition, {})[record.offset] = line
                places.setdefault(partition, []).append(index)
        results = await asyncio.gather(
            *(self._write(partition, lines) for partition, lines in found.items()), return_exceptions=True
        )
        failures: list[BaseException] = []
        for partition, result in zip(found, results, strict=True):
            if result is None:
                continue
            if not isinstance(result, BaseError | OSError):
                raise result
            if _is_wrong(result):
                raise DrainError(self._sentence(result)) from result
            failures.append(result)
            for index in places[partition]:
                outcomes[index] = Outcome.RELEASE
        if failures and len(failures) == len(found):
            raise Retriable(self._sentence(failures[0])) from failures[0]
        if failures:
            why = self._sentence(failures[0])
            self._log.warning("objects were not stored, their records come again", count=len(failures), why=why)
        return None if all(outcome is Outcome.ACCEPT for outcome in outcomes) else outcomes

    def stop(self) -> None:
        """Nothing is open."""

    async def _write(self, partition: tuple[str, int], lines: Mapping[int, bytes]) -> None:
        offsets = sorted(lines)
        data = b"".join(lines[offset] + b"\n" for offset in offsets)
        name = object_name(self._settings.prefix, partition, offsets, data)
        attributes = {"Content-Type": "application/x-ndjson"}
        async with self._gate:
            if self._settings.compression == "gzip":
                name += ".gz"
                data = await asyncio.to_thread(gzip.compress, data, mtime=0)
                attributes["Content-Encoding"] = "gzip"
            async with asyncio.timeout(self._settings.timeout + 1.0):
                # one request, so that the object is there whole or not at all
                await obstore.put_async(self._store, name, data, attributes=attributes, use_multipart=False)

    def _sentence(self, error: BaseException) -> str:
        settings = self._settings
        place = f"bucket {settings.bucket!r}" + (f" at {settings.endpoint_url}" if settings.endpoint_url else "")
        if isinstance(error, TimeoutError):
            return f"{place}: no answer within {settings.timeout:g} s"
        text = str(error).partition("\n\nDebug source:")[0]
        if any(part in text for part in _HOST_LOGIN):
            return f"{place}: no login was found, nor does this host have one; {_KEYS}"
        code, message, status = _code_of(error), _MESSAGE.search(text), _STATUS.search(text)
        said = ": ".join(part for part in (code, message[1] if message else "") if part)
        if not said:
            # the last part of the library's own words; those before repeat the address
            said = f"status {status[1]}" if status else " ".join(text.split()).rpartition(" - ")[2]
        hint = _HINTS.get(code, "")
        return f"{place}: {said[:_MOST_SHOWN]}" + (f"; {hint}" if hint else "")


_KEYS: Final = "set access_key_id and secret_access_key, or AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY"
# where hosts in a cloud ask for a login when there is no other
_HOST_LOGIN: Final = ("/latest/api/token", "/latest/meta-data/")
_HINTS: Final[Mapping[str, str]] = {
    "NoSuchBucket": "make it, or set bucket",
    "InvalidAccessKeyId": _KEYS,
    "SignatureDoesNotMatch": _KEYS,
    "AccessDenied": "this user needs s3:PutObject",
    "PermanentRedirect": "set region",
    "AuthorizationHeaderMalformed": "set region",
}


def object_name(prefix: str, partition: tuple[str, int], offsets: Sequence[int], data: bytes) -> str:
    """Return an object's name: the same for the same records, and another one for others.

    Args:
        prefix: in front.
        partition: topic and number.
        offsets: of the records, ascending.
        data: the lines. A batch that comes again may hold other records from the same first offset on, and a topic
            that was made anew other records at the same offsets: neither may replace what is there.
    """
    topic, number = partition
    digest = hashlib.sha256(data).hexdigest()[:16]
    return f"{prefix}{topic}/{number}/{offsets[0]:020}-{offsets[-1]:020}-{digest}.jsonl"


def _code_of(error: BaseException) -> str:
    found = _CODE.search(str(error))
    return found[1] if found else ""


def _is_wrong(error: BaseException) -> bool:
    """Tell whether asking again as it is makes no sense; a login or a bucket may be mended meanwhile."""
    status = _STATUS.search(str(error))
    return status is not None and status[1] == "400" and _code_of(error) not in _LATER_CODES


def _store(settings: S3Settings) -> S3Store:
    given: dict[str, Any] = {}
    if settings.endpoint_url:
        given["endpoint"] = settings.endpoint_url
    if settings.region:
        given["region"] = settings.region
    if settings.access_key_id:
        given["access_key_id"] = settings.access_key_id
        given["secret_access_key"] = settings.secret_access_key
    return S3Store(
        settings.bucket,
        client_options={
            "allow_http": settings.endpoint_url.startswith("http://"),
            "timeout": timedelta(seconds=settings.timeout),
            "connect_timeout": timedelta(seconds=min(settings.timeout, 5.0)),
        },
        # the worker waits between tries, and tells
        retry_config={"max_retries": 0},
        **given,
    )


def _settings(config: Mapping[str, Any]) -> S3Settings:
    settings = read_settings(S3Settings, config)
    if not re.fullmatch(r"[A-Za-z0-9._-]{3,255}", settings.bucket):
        raise SettingsError("bucket: must be the name of a bucket, of 3 or more letters, digits, dots and hyphens")
    if not re.fullmatch(r"([A-Za-z0-9!_.=-]+/)*[A-Za-z0-9!_.=-]*", settings.prefix) or re.search(
        r"(^|/)\.{1,2}(/|$)", settings.prefix
    ):
        raise SettingsError("prefix: must be like lake/orders/, of letters, digits and !_.=-, without an empty part")
    if bool(settings.access_key_id) != bool(settings.secret_access_key):
        raise SettingsError("access_key_id: goes together with secret_access_key; write both or none")
    if settings.endpoint_url:
        try:
            parts = urlsplit(settings.endpoint_url)
            known = (
                parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0 and not parts.username
            )
        except ValueError:
            known = False
        if not known:
            raise SettingsError("endpoint_url: must be an address such as https://HOST:PORT")
    return settings

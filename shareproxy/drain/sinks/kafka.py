"""Bring records into a topic of another cluster, or of the same one.

In: batches. Out: records that all in-sync replicas have, with where they come from in their headers.
Must never: copy a topic into itself.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Mapping, Sequence
from typing import Annotated, Any, Final, Literal

import msgspec
import structlog
from aiokafka import AIOKafkaProducer, errors
from msgspec import Meta

from shareproxy.cluster.addresses import parse_addresses
from shareproxy.cluster.errors import PropertiesError
from shareproxy.cluster.own_connection import connection_from_file
from shareproxy.drain.aiokafka_errors import sentence
from shareproxy.drain.aiokafka_settings import security_arguments
from shareproxy.drain.errors import DrainError
from shareproxy.drain.sink import Outcome, Outcomes, Retriable, SinkRecord, TaskContext
from shareproxy.drain.sinks.record_json import CannotEncode, plain_bytes
from shareproxy.drain.sinks.settings import Seconds, SettingsError, read_settings

_TOPIC: Final = "{topic}"
# below what brokers read at all by default (socket.request.max.bytes): how large a record may be is for them to say
_LARGEST_REQUEST: Final = 100_000_000
# for a producer's own end; it waits for brokers that are away for as long as they are
CLOSE_SECONDS: Final = 1.0
# brokers answer so for a whole batch of the producer's, whichever of its records is at fault; what aiokafka has no word
# for is one of these: a record without a key, which a compacted topic does not take
_OF_A_BATCH: Final = (
    errors.MessageSizeTooLargeError,
    errors.RecordListTooLargeError,
    errors.InvalidTimestampError,
    errors.UnknownError,
)
Compression = Literal["none", "gzip", "snappy", "lz4", "zstd"]


class KafkaSettings(msgspec.Struct, frozen=True, kw_only=True):
    """The settings of a `kafka` sink."""

    bootstrap_servers: Annotated[str, Meta(description="brokers to ask first, `HOST:PORT[,HOST:PORT…]`")]
    topic: Annotated[str, Meta(description="where records go; `{topic}` in it is the name of the topic they come from")]
    command_config: Annotated[str, Meta(description="Java client property file that says how to log in")] = ""
    partition: Annotated[
        Literal["key", "same"],
        Meta(description="`key`: by the key's hash, as Java's producers do; `same`: the number it comes from"),
    ] = "key"
    source_headers: Annotated[
        str,
        Meta(description="prefix of the headers `topic`, `partition`, `offset` of where a record was; empty for none"),
    ] = "source."
    compression: Annotated[Compression, Meta(description="of batches: `none`, `gzip`, `snappy`, `lz4` or `zstd`")] = (
        "none"
    )
    timeout: Annotated[Seconds, Meta(description="seconds that a record may take to be sent and answered")] = 30.0


class KafkaSink:
    """Produce records to Kafka, with acknowledgements of all replicas and an idempotent producer."""

    def __init__(self) -> None:
        self._settings: KafkaSettings
        self._producer: Any = None
        self._make: Callable[[], Any]
        self._spent = False  # brokers would not go on from where it is
        self._log = structlog.get_logger()

    @staticmethod
    def check(config: Mapping[str, Any]) -> None:
        """Check the settings.

        Raises:
            SettingsError: names the key and what to write.
        """
        _settings(config)

    async def start(self, context: TaskContext) -> None:
        """Connect, and look whether the topics are there.

        Raises:
            DrainError: the brokers cannot be reached, or a topic is not there.
        """
        self._settings = settings = _settings(context.config)
        self._log = structlog.get_logger().bind(connector=context.connector, task=context.task_id)
        way = connection_from_file(settings.command_config, f"{context.connector}-{context.task_id}")
        self._make = lambda: AIOKafkaProducer(
            bootstrap_servers=settings.bootstrap_servers.split(","),
            client_id=way.client_id,
            acks="all",
            enable_idempotence=True,
            compression_type=None if settings.compression == "none" else settings.compression,
            request_timeout_ms=int(settings.timeout * 1000),
            linger_ms=0,
            max_request_size=_LARGEST_REQUEST,
            **security_arguments(way.security),
        )
        self._producer = self._make()
        try:
            async with asyncio.timeout(settings.timeout):
                await self._producer.start()
                for topic in sorted({self._target(topic) for topic in context.topics}):
                    await self._look_for(topic)
        except (errors.KafkaError, OSError, TimeoutError, AssertionError) as error:
            raise DrainError(f"{self._where()} cannot be used: {sentence(error)}") from error

    async def put(self, batch: Sequence[SinkRecord]) -> Outcomes | None:
        """Produce a batch, and wait for the brokers' answers.

        Raises:
            Retriable: the brokers took no record, and may later.
            DrainError: they will not, or a record goes where it came from.
        """
        results = await self._send_all(batch)
        for index, result in enumerate(results):
            if isinstance(result, _OF_A_BATCH):
                (results[index],) = await self._send_all(batch[index : index + 1])
        outcomes: list[Outcome] = []
        again: list[BaseException] = []
        for record, result in zip(batch, results, strict=True):
            match result:
                case None:
                    outcomes.append(Outcome.ACCEPT)
                case (
                    CannotEncode()
                    | errors.MessageSizeTooLargeError()
                    | errors.RecordListTooLargeError()
                    | errors.InvalidTimestampError()
                ):
                    outcomes.append(Outcome.REJECT)
                    name = f"{record.topic}-{record.partition}@{record.offset}"
                    self._log.warning("the brokers do not take a record", record=name, why=sentence(result))
                case errors.KafkaError() | OSError() | TimeoutError():
                    outcomes.append(Outcome.RELEASE)
                    again.append(result)
                case AssertionError():  # aiokafka's word for a partition that is not there
                    raise DrainError(
                        f"topic {self._target(record.topic)!r} has no partition {record.partition}; give it as many as "
                        'the source has, or set partition to "key"'
                    ) from result
                case _:
                    raise result
        if not again:
            return None if Outcome.REJECT not in outcomes else outcomes
        text = f"{self._where()}: {sentence(again[0])}"
        for error in again:
            if isinstance(error, errors.KafkaError) and not _may_work_later(error):
                raise DrainError(f"{self._where()}: {sentence(error)}") from error
        if len(again) == len(batch):
            raise Retriable(text) from again[0]
        self._log.warning("records were not taken and come again", count=len(again), why=text)
        return outcomes

    async def stop(self) -> None:
        """Close the producer; what was put is answered already."""
        producer, self._producer = self._producer, None
        if producer is not None:
            await _close(producer, spent=self._spent)

    async def _send_all(self, records: Sequence[SinkRecord]) -> list[BaseException | None]:
        """Send records; return for each `None`, or why it was not taken in time."""
        if self._spent:
            await self._renew()
        sends = [asyncio.ensure_future(self._send(record)) for record in records]
        try:
            # an idempotent producer of aiokafka's tries again without end
            await asyncio.wait(sends, timeout=self._settings.timeout)
        finally:
            late = [send for send in sends if send.cancel()]
            self._spent = self._spent or bool(late)
        results = await asyncio.gather(*sends, return_exceptions=True)
        for index, result in enumerate(results):
            if isinstance(result, asyncio.CancelledError):
                results[index] = TimeoutError(f"no answer within {self._settings.timeout:g} s")
            elif isinstance(result, errors.KafkaError):
                self._spent = True  # it has counted what was not taken: brokers would call the next out of order
        return results

    async def _renew(self) -> None:
        """Take a new producer, as nothing else sets one right."""
        await _close(self._producer, spent=True)
        self._producer = self._make()
        try:
            async with asyncio.timeout(self._settings.timeout):
                await self._producer.start()
        except (errors.KafkaError, OSError, TimeoutError) as error:
            raise Retriable(f"{self._where()}: {sentence(error)}") from error
        self._spent = False

    async def _send(self, record: SinkRecord) -> None:
        topic = self._target(record.topic)
        headers = [(name, value) for name, value in record.headers]
        prefix = self._settings.source_headers
        if prefix:
            if topic == record.topic and (f"{prefix}topic", topic.encode()) in headers:
                raise DrainError(
                    f"record {record.topic}-{record.partition}@{record.offset} was copied from topic {topic!r} into "
                    f"{topic!r} and would be again, without end; set topic or bootstrap_servers to another"
                )
            headers += [
                (f"{prefix}topic", record.topic.encode()),
                (f"{prefix}partition", str(record.partition).encode()),
                (f"{prefix}offset", str(record.offset).encode()),
            ]
        key, value = plain_bytes(record.key), plain_bytes(record.value)
        if key is None and value is None:
            raise CannotEncode("aiokafka sends no record that has neither key nor value")
        sent = await self._producer.send(
            topic,
            value,
            key,
            partition=record.partition if self._settings.partition == "same" else None,
            timestamp_ms=record.timestamp if record.timestamp >= 0 else None,
            headers=headers,
        )
        await sent

    async def _look_for(self, topic: str) -> None:
        if not await self._producer.partitions_for(topic):
            raise DrainError(f"{self._where()} have no topic {topic!r}; create it, or set topic to another")

    def _target(self, topic: str) -> str:
        return self._settings.topic.replace(_TOPIC, topic)

    def _where(self) -> str:
        return f"the brokers at {self._settings.bootstrap_servers}"


async def _close(producer: Any, *, spent: bool) -> None:
    """Close a producer, whatever it has not sent; its own way would wait for brokers, and send on when cut short."""
    if not spent:
        stopping = asyncio.ensure_future(producer.stop())
        try:
            await asyncio.wait({stopping}, timeout=CLOSE_SECONDS)
            if stopping.done():
                with contextlib.suppress(errors.KafkaError, OSError):
                    stopping.result()
                return
        finally:
            stopping.cancel()
    producer._closed = True
    sending = producer._sender.sender_task
    if sending is not None:
        sending.cancel()
    await producer.client.close()
    if sending is not None and not sending.done():
        await asyncio.wait({sending}, timeout=CLOSE_SECONDS)
        sending.cancel()  # the first time it waits for what is under way


def _may_work_later(error: errors.KafkaError) -> bool:
    if isinstance(error, errors.KafkaTimeoutError | errors.KafkaConnectionError | errors.UnknownError):
        return True
    return bool(error.retriable)


def _settings(config: Mapping[str, Any]) -> KafkaSettings:
    settings = read_settings(KafkaSettings, config)
    try:
        parse_addresses(settings.bootstrap_servers)
    except ValueError as error:
        raise SettingsError(f"bootstrap_servers: {error}") from None
    if not all(c.isascii() and (c.isalnum() or c in "._-") for c in settings.topic.replace(_TOPIC, "t")):
        raise SettingsError("topic: must be the name of a topic; {topic} in it is the one that a record comes from")
    if settings.command_config:
        try:
            connection_from_file(settings.command_config, "shareproxy")
        except PropertiesError as error:
            raise SettingsError(f"command_config: {error}") from None
    return settings

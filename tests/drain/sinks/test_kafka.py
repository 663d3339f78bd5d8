"""The Kafka sink with a producer of the test's; a real cluster is asked in tests/integration/test_kafka_sink.py."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any, ClassVar

import pytest
from aiokafka import errors

from shareproxy.drain.errors import DrainError
from shareproxy.drain.sink import Outcome, Retriable
from shareproxy.drain.sinks import kafka
from shareproxy.drain.sinks.kafka import KafkaSink
from shareproxy.drain.sinks.settings import SettingsError
from tests.drain.sinks.records import Context, records

NEVER = TimeoutError("no answer comes")
CONFIG = {"bootstrap_servers": "h:9092", "topic": "copy"}


class Client:
    """Its connections."""

    closed = False

    async def close(self) -> None:
        """Note it."""
        self.closed = True


class Sender:
    """Its task that sends."""

    def __init__(self) -> None:
        self.sender_task = asyncio.ensure_future(asyncio.Event().wait())


class Producer:
    """What aiokafka's producer is for the sink; `answers` are for one record each."""

    made: ClassVar[list[Producer]] = []

    answers: ClassVar[list[BaseException | None]] = []
    partitions: ClassVar[set[int]] = {0}
    start_error: BaseException | None = None
    arguments: ClassVar[dict[str, Any]] = {}

    def __init__(self, **arguments: Any) -> None:
        type(self).arguments = arguments
        self.made.append(self)
        self.stop_hangs = False
        self.client, self._sender = Client(), Sender()

    async def start(self) -> None:
        """Connect, or not."""
        if self.start_error is not None:
            raise self.start_error

    async def stop(self) -> None:
        """End the task, once all is sent."""
        if self.stop_hangs:
            await asyncio.Event().wait()
        self._sender.sender_task.cancel()
        await self.client.close()

    async def partitions_for(self, topic: str) -> set[int]:
        """Return what the test says."""
        return self.partitions

    async def send(self, topic: str, value: bytes, key: bytes, **more: Any) -> asyncio.Future[Any]:
        """Answer as the test says, once the batch is sent."""
        future: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        answer = self.answers.pop(0)
        if answer is None:
            future.set_result(None)
        elif answer is not NEVER:
            future.set_exception(answer)
        return future


@pytest.fixture
def producer(monkeypatch: pytest.MonkeyPatch) -> type[Producer]:
    """A producer class for one test."""

    class Own(Producer):
        made: ClassVar[list[Producer]] = []

    monkeypatch.setattr(kafka, "AIOKafkaProducer", Own)
    return Own


async def started(**settings: Any) -> KafkaSink:
    """Return a sink that is ready."""
    sink = KafkaSink()
    await sink.start(Context(config={**CONFIG, **settings}))
    return sink


async def test_all_replicas_acknowledge_and_the_producer_is_idempotent(producer: type[Producer]) -> None:
    """Nothing less is durable."""
    sink = await started(compression="lz4")
    await sink.stop()

    assert producer.arguments["acks"] == "all"
    assert producer.arguments["enable_idempotence"] is True
    assert producer.arguments["compression_type"] == "lz4"


async def test_records_that_the_brokers_did_not_take_are_released(producer: type[Producer]) -> None:
    """Those that they will never take are rejected, the others accepted."""
    producer.answers = [None, errors.RequestTimedOutError(), *[errors.MessageSizeTooLargeError()] * 2]
    sink = await started()

    assert await sink.put(records(3)) == [Outcome.ACCEPT, Outcome.RELEASE, Outcome.REJECT]


@pytest.mark.parametrize("error", [errors.MessageSizeTooLargeError(), errors.UnknownError()])
async def test_one_record_at_fault_does_not_cost_the_others_of_its_request(
    producer: type[Producer], error: BaseException
) -> None:
    """Brokers answer for a batch of the producer's: each record of it is asked for by itself, the bad one last told."""
    producer.answers = [error, error, error, None, error, None]
    sink = await started()

    bad = Outcome.REJECT if isinstance(error, errors.MessageSizeTooLargeError) else Outcome.RELEASE
    assert await sink.put(records(3)) == [Outcome.ACCEPT, bad, Outcome.ACCEPT]


async def test_a_producer_that_was_refused_a_batch_is_not_used_again(producer: type[Producer]) -> None:
    """It has counted the batch, so that brokers would call its next one out of order."""
    producer.answers = [*[errors.MessageSizeTooLargeError()] * 2, None]
    sink = await started()

    assert await sink.put(records(1)) == [Outcome.REJECT]
    assert await sink.put(records(1)) is None

    assert (len(producer.made), sum(each.client.closed for each in producer.made)) == (3, 2)


async def test_a_record_without_an_answer_in_time_comes_again(producer: type[Producer]) -> None:
    """An idempotent producer would try without end; it is closed, so that it does not go on behind the next one."""
    producer.answers = [None, NEVER, None]
    sink = await started(timeout=0.05)

    assert await sink.put(records(2)) == [Outcome.ACCEPT, Outcome.RELEASE]
    assert await sink.put(records(1)) is None

    assert [each.client.closed for each in producer.made] == [True, False]


async def test_a_producer_whose_stop_waits_for_brokers_is_ended(
    producer: type[Producer], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else its sender would go on for as long as the process lives."""
    monkeypatch.setattr(kafka, "CLOSE_SECONDS", 0.01)
    sink = await started()
    (made,) = producer.made
    made.stop_hangs = True
    sender = made._sender.sender_task

    await sink.stop()

    assert sender.cancelled()
    assert made.client.closed


@pytest.mark.parametrize(
    "error", [errors.NotEnoughReplicasError(), errors.KafkaTimeoutError(), errors.KafkaConnectionError()]
)
async def test_brokers_that_are_away_are_retriable(producer: type[Producer], error: BaseException) -> None:
    """The sentence names them."""
    producer.answers = [error] * 2
    sink = await started()

    with pytest.raises(Retriable, match="the brokers at h:9092: "):
        await sink.put(records(2))


@pytest.mark.parametrize("error", [errors.TopicAuthorizationFailedError(), errors.OutOfOrderSequenceNumber()])
async def test_what_no_wait_mends_fails_the_task(producer: type[Producer], error: BaseException) -> None:
    """Which then starts with a new producer."""
    producer.answers = [None, error]
    sink = await started()

    with pytest.raises(DrainError, match=type(error).__name__):
        await sink.put(records(2))


async def test_a_partition_that_the_topic_does_not_have_is_told(producer: type[Producer]) -> None:
    """With what to write instead."""
    producer.answers = [AssertionError("Unrecognized partition")]
    sink = await started(partition="same")

    with pytest.raises(DrainError, match="topic 'copy' has no partition 0; give it as many"):
        await sink.put(records(1))


async def test_brokers_that_cannot_be_reached_are_told_at_the_start(producer: type[Producer]) -> None:
    """And so is a topic that is not there."""
    producer.partitions = set()
    with pytest.raises(DrainError, match="have no topic 'copy'; create it"):
        await started()
    producer.start_error = errors.KafkaConnectionError("no")
    with pytest.raises(DrainError, match="the brokers at h:9092 cannot be used: no"):
        await started()


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"topic": "t"}, "bootstrap_servers: is missing; write brokers to ask first"),
        ({"bootstrap_servers": "h:x", "topic": "t"}, "bootstrap_servers: "),
        ({**CONFIG, "topic": "a b"}, "topic: must be the name of a topic"),
        ({**CONFIG, "topic": "{tpic}"}, "topic: must be the name of a topic"),
        ({**CONFIG, "partition": "hash"}, "partition: choose one of key, same"),
        ({**CONFIG, "compression": "zip"}, "compression: choose one of none, gzip"),
    ],
)
def test_wrong_settings_are_told_by_key(settings: dict[str, Any], said: str) -> None:
    """Each with what to write instead."""
    with pytest.raises(SettingsError, match=said):
        KafkaSink.check(settings)


def test_a_property_file_is_read_before_anything_starts(tmp_path: Path) -> None:
    """One that is not there is told."""
    with pytest.raises(SettingsError, match="command_config: "):
        KafkaSink.check({**CONFIG, "command_config": str(tmp_path / "none")})

"""Kafka's own Java classes judge our bytes: each message in each version, read and written again in one JVM."""

from __future__ import annotations

import base64
import json
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from shareproxy.protocol.codec import decode, encode
from shareproxy.protocol.errors import DecodeError
from shareproxy.protocol.ids import TopicId, topic_id_text
from shareproxy.protocol.message import Message
from shareproxy.protocol.messages import (
    DescribeShareGroupOffsetsResponse,
    DescribeShareGroupOffsetsResponseGroup,
    DescribeShareGroupOffsetsResponsePartition,
    DescribeShareGroupOffsetsResponseTopic,
    FindCoordinatorRequest,
    MetadataRequest,
)
from shareproxy.protocol.plan import Step, StructPlan, plan_for
from shareproxy.testing.java_process import JavaProcess, tail
from shareproxy.testing.kafka_jars import classpath, jars
from tests.protocol.samples import EACH_VERSION, TITLES, Samples
from tests.support.real_kafka import require_kafka

pytestmark = pytest.mark.kafka

SOURCE = Path(__file__).parent.parent / "support" / "java" / "CodecJudge.java"
SAMPLES = 25


class Refused(Exception):  # noqa: N818 - a verdict, not a failure of the test
    """Java could not read or write the message."""


class Judge:
    """A JVM that reads bodies and writes them again."""

    def __init__(self, process: JavaProcess, log: Path) -> None:
        self._process, self._log = process, log

    def judge(self, name: str, version: int, body: bytes) -> tuple[Any, bytes]:
        """Return the fields that Java found, and the bytes that it wrote.

        Raises:
            Refused: with Java's words.
        """
        pipe = self._process.popen.stdin
        assert pipe is not None
        pipe.write(struct.pack(f">H{len(name)}shi", len(name), name.encode(), version, len(body)) + body)
        pipe.flush()
        if self._take(1) == b"\0":
            raise Refused(self._sized().decode())
        return json.loads(self._sized()), self._sized()

    def _sized(self) -> bytes:
        return self._take(struct.unpack(">i", self._take(4))[0])

    def _take(self, size: int) -> bytes:
        pipe = self._process.popen.stdout
        assert pipe is not None
        data = pipe.read(size)
        assert len(data) == size, f"the judge has gone:\n{tail(self._log)}"
        return data


@pytest.fixture(scope="module")
def judge(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Judge]:
    """Start the JVM once; Java compiles the source by itself."""
    require_kafka()
    log = tmp_path_factory.mktemp("judge") / "judge.log"
    process = JavaProcess([], classpath(jars("4.4.0")), [str(SOURCE)], log, talk=True)
    try:
        yield Judge(process, log)
    finally:
        process.stop(0)


def java_fields(plan: StructPlan, message: Any) -> dict[str, Any]:
    """Return a message as Kafka's JSON converters write it."""
    found = {}
    for step in plan.steps:
        value = getattr(message, step.attribute)
        if step.present or (step.tag is not None and not step.is_default(value)):
            found[step.name[0].lower() + step.name[1:]] = _java_value(step, value)
    return found


def _java_value(step: Step, value: Any) -> Any:
    if value is None:
        return None
    if step.is_array and isinstance(value, list):
        return [_java_element(step, element) for element in value]
    return _java_element(step, value)


def _java_element(step: Step, value: Any) -> Any:
    if step.struct is not None:
        return java_fields(step.struct, value)
    if step.element == "records":
        return ""  # the converters leave records out; that they are the same is seen in the bytes
    if step.element == "uuid":
        return topic_id_text(TopicId(value))
    return base64.b64encode(value).decode() if isinstance(value, bytes) else value


@pytest.mark.parametrize(("message", "version"), EACH_VERSION, ids=TITLES)
def test_java_reads_and_writes_the_same(judge: Judge, message: type[Message], version: int) -> None:
    """It finds the fields that we wrote, writes the bytes that we wrote, and we read those as the same message."""
    plan = plan_for(message, version)
    for seed in range(SAMPLES):
        ours = Samples(seed).struct(plan)
        body = encode(ours, version)
        fields, again = judge.judge(message.schema_name, version, body)
        assert fields == java_fields(plan, ours)
        assert again == body
        assert decode(message, version, again) == ours


def test_judge_can_refuse(judge: Judge) -> None:
    """Bytes that are damaged, or too many, would not pass."""
    with pytest.raises(Refused, match="null"):
        judge.judge("FindCoordinatorRequest", 3, bytes.fromhex("000000"))
    with pytest.raises(Refused, match="1 bytes are left"):
        judge.judge("FindCoordinatorRequest", 3, encode(FindCoordinatorRequest("k"), 3) + b"\0")


@pytest.mark.parametrize(
    ("name", "version", "text"),
    [
        ("FindCoordinatorRequest", 3, "818002" + "61" * 32_768 + "00 00"),  # a string over the limit
        ("MetadataRequest", 9, "feffffff07 01 00 00 00"),  # more topics than bytes
        ("MetadataRequest", 9, "00 01 00 00 05 00"),  # more tags than bytes
        ("MetadataRequest", 3, "00000001 ffff"),  # a null name
    ],
)
def test_both_refuse(judge: Judge, name: str, version: int, text: str) -> None:
    """Our limits are Kafka's."""
    classes: dict[str, type[Message]] = {
        "FindCoordinatorRequest": FindCoordinatorRequest,
        "MetadataRequest": MetadataRequest,
    }
    body = bytes.fromhex(text)
    with pytest.raises(Refused):
        judge.judge(name, version, body)
    with pytest.raises(DecodeError, match=r"limit|over|null"):
        decode(classes[name], version, body)


def test_java_sees_the_lag_from_version_1_on(judge: Judge) -> None:
    """What we drop at version 0 is nothing that Java misses there."""
    row = DescribeShareGroupOffsetsResponsePartition(0, 2, 5, lag=7)
    topics = [DescribeShareGroupOffsetsResponseTopic("t", bytes(range(16)), [row])]
    answer = DescribeShareGroupOffsetsResponse(groups=[DescribeShareGroupOffsetsResponseGroup("g", topics)])
    found = [
        judge.judge("DescribeShareGroupOffsetsResponse", version, encode(answer, version))[0] for version in (0, 1)
    ]
    rows = [fields["groups"][0]["topics"][0]["partitions"][0] for fields in found]
    assert [fields.get("lag") for fields in rows] == [None, 7]

"""The S3 sink against moto's server, and against one that answers as a test wants."""

from __future__ import annotations

import gzip
import json
import logging
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import boto3
import pytest
from aiohttp import web
from moto.server import ThreadedMotoServer

from shareproxy.drain.errors import DrainError
from shareproxy.drain.sink import Outcome, Retriable
from shareproxy.drain.sink_config import load_sink_settings
from shareproxy.drain.sink_parts import BrokerParts
from shareproxy.drain.sinks.s3 import S3Sink, object_name
from shareproxy.drain.sinks.settings import SettingsError
from shareproxy.drain.worker import SinkWorker
from shareproxy.testing.simulated import SimulatedCluster
from tests.drain.sinks.records import Context, Record, records
from tests.support.waiting import eventually

ACCEPT, RELEASE, REJECT = Outcome.ACCEPT, Outcome.RELEASE, Outcome.REJECT
LOGIN = {"access_key_id": "key", "secret_access_key": "secret"}


class Service:
    """A server that keeps objects, and another client to look at them."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.client: Any = boto3.client(
            "s3", endpoint_url=url, aws_access_key_id="other", aws_secret_access_key="o", region_name="us-east-1"
        )
        self.client.create_bucket(Bucket="lake")

    def objects(self) -> dict[str, bytes]:
        """Return what is there, by name."""
        listed = self.client.list_objects_v2(Bucket="lake").get("Contents", [])
        return {each["Key"]: self.client.get_object(Bucket="lake", Key=each["Key"])["Body"].read() for each in listed}


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    """A server on a free port."""
    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    yield f"http://{host}:{port}"
    server.stop()


@pytest.fixture
def service(server: str) -> Iterator[Service]:
    """The same, with an empty bucket."""
    service = Service(server)
    yield service
    for name in service.objects():
        service.client.delete_object(Bucket="lake", Key=name)


class Faults:
    """A server whose answers a test chooses, by the name of the object."""

    def __init__(self) -> None:
        self.url = ""
        self.answers: dict[str, tuple[int, str]] = {}
        self.stored: list[str] = []
        self.refused = 0

    async def handle(self, request: web.Request) -> web.Response:
        """Answer as chosen; what is not is stored."""
        name = "list" if request.method == "GET" else request.path
        for part, (status, code) in self.answers.items():
            if part in name:
                self.refused += 1
                text = f"<?xml version='1.0'?><Error><Code>{code}</Code><Message>because</Message></Error>"
                return web.Response(status=status, text=text if code else "", content_type="application/xml")
        if request.method == "GET":
            text = "<?xml version='1.0'?><ListBucketResult><KeyCount>0</KeyCount></ListBucketResult>"
            return web.Response(text=text, content_type="application/xml")
        self.stored.append(name)
        return web.Response(headers={"ETag": '"1"'})


@pytest.fixture
async def faults() -> AsyncIterator[Faults]:
    """Such a server."""
    faults = Faults()
    application = web.Application()
    application.router.add_route("*", "/{path:.*}", faults.handle)
    runner = web.AppRunner(application)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    faults.url = f"http://127.0.0.1:{runner.addresses[0][1]}"
    yield faults
    await runner.cleanup()


async def sink_to(url: str, **settings: Any) -> S3Sink:
    """Start a sink."""
    sink = S3Sink()
    await sink.start(Context(config={"bucket": "lake", "endpoint_url": url, **LOGIN, **settings}))
    return sink


async def test_each_partition_of_a_batch_is_an_object_named_by_its_records(service: Service) -> None:
    """One JSON line for each, in the order of their offsets."""
    sink = await sink_to(service.url, prefix="raw/")
    batch = [*records(2, first=5), Record(partition=3, offset=1, key=b"\xff"), Record(offset=3, value="text")]

    assert await sink.put(batch) is None

    found = service.objects()
    names = sorted(found)
    assert [name.rpartition("-")[0] for name in names] == [
        "raw/orders/0/00000000000000000003-00000000000000000006",
        "raw/orders/3/00000000000000000001-00000000000000000001",
    ]
    lines = [json.loads(line) for line in found[names[0]].splitlines()]
    assert [(line["offset"], line["value"]) for line in lines] == [(3, "text"), (5, {"n": 5}), (6, {"n": 6})]
    assert json.loads(found[names[1]])["key"] == {"base64": "/w=="}
    head = service.client.head_object(Bucket="lake", Key=names[0])
    assert head["ContentType"] == "application/x-ndjson"


async def test_the_same_records_again_are_the_same_object(service: Service) -> None:
    """In whatever order, whatever their delivery count, and of whichever task."""
    await (await sink_to(service.url)).put(records(3))
    again = [Record(offset=n, value={"n": n}, delivery_count=2) for n in (2, 0, 1)]

    await (await sink_to(service.url)).put([*again, again[0]])

    (content,) = service.objects().values()
    assert len(content.splitlines()) == 3


async def test_other_records_from_the_same_first_offset_on_replace_nothing(service: Service) -> None:
    """R23: what was accepted stays, also where a part of its batch comes again."""
    sink = await sink_to(service.url)
    await sink.put(records(3))

    await sink.put(records(2))
    await sink.put([Record(offset=0, value="of a topic that was made anew"), Record(offset=2)])

    found = [line for content in service.objects().values() for line in content.splitlines()]
    assert len(service.objects()) == 3
    assert {json.loads(line)["offset"] for line in found} == {0, 1, 2}


async def test_gzip_is_told_by_name_and_header(service: Service) -> None:
    """And the same records are the same bytes."""
    sink = await sink_to(service.url, compression="gzip")
    await sink.put(records(2))
    await sink.put(records(2))

    ((name, content),) = service.objects().items()
    assert name.endswith(".jsonl.gz")
    assert service.client.head_object(Bucket="lake", Key=name)["ContentEncoding"] == "gzip"
    assert len(gzip.decompress(content).splitlines()) == 2


async def test_what_cannot_be_json_is_rejected_by_itself(service: Service) -> None:
    """The others are stored."""
    sink = await sink_to(service.url)

    outcomes = await sink.put([Record(offset=1, value=1), Record(offset=2, value=object()), Record(offset=3, value=3)])

    assert outcomes == [ACCEPT, REJECT, ACCEPT]
    assert len(service.objects()) == 1
    assert await sink.put([Record(value=object())]) == [REJECT]
    sink.stop()


async def test_a_bucket_that_is_not_there_is_told_at_the_start(service: Service) -> None:
    """With its name and where it was looked for."""
    with pytest.raises(DrainError, match=r"bucket 'other' at http.*NoSuchBucket: .*make it, or set bucket"):
        await sink_to(service.url, bucket="other")


async def test_a_service_that_is_not_there_is_told_at_the_start(faults: Faults) -> None:
    """Without the library's own debugging text."""
    faults.answers["list"] = (403, "InvalidAccessKeyId")
    with pytest.raises(
        DrainError, match="InvalidAccessKeyId: because; set access_key_id and secret_access_key, or AWS"
    ):
        await sink_to(faults.url)
    with pytest.raises(DrainError, match=r"bucket 'lake' at http://127\.0\.0\.1:9: .*error sending request") as raised:
        await sink_to("http://127.0.0.1:9")
    assert "Debug" not in str(raised.value)
    assert "secret" not in str(raised.value).lower()


async def test_whoever_may_not_list_may_write(faults: Faults) -> None:
    """A right that a sink does not need."""
    faults.answers["list"] = (403, "AccessDenied")
    sink = await sink_to(faults.url)

    assert await sink.put(records(1)) is None

    assert len(faults.stored) == 1


@pytest.mark.parametrize(
    ("status", "code", "said"),
    [
        (503, "SlowDown", "SlowDown: because"),
        (500, "", "status 500"),
        (403, "AccessDenied", "AccessDenied: because; this user needs s3:PutObject"),
        (404, "NoSuchBucket", "NoSuchBucket: because; make it"),
        (400, "ExpiredToken", "ExpiredToken: because"),
    ],
)
async def test_what_may_work_later_is_retriable(faults: Faults, status: int, code: str, said: str) -> None:
    """A login, a right and a bucket may be mended while the records wait."""
    sink = await sink_to(faults.url)
    faults.answers["orders"] = (status, code)

    with pytest.raises(Retriable, match=said):
        await sink.put(records(2))

    assert faults.stored == []


async def test_a_request_that_is_wrong_fails_the_task(faults: Faults) -> None:
    """It would be wrong again; its records are released, none is rejected."""
    sink = await sink_to(faults.url)
    faults.answers["orders"] = (400, "InvalidArgument")

    with pytest.raises(DrainError, match="InvalidArgument: because"):
        await sink.put(records(2))


async def test_only_the_records_of_what_was_not_stored_come_again(faults: Faults) -> None:
    """R23: nothing is accepted before its object is there."""
    sink = await sink_to(faults.url)
    faults.answers["orders/1/"] = (503, "SlowDown")

    outcomes = await sink.put([Record(offset=1), Record(partition=1, offset=1), Record(offset=2)])

    assert outcomes == [ACCEPT, RELEASE, ACCEPT]
    assert len(faults.stored) == 1


async def test_a_service_that_does_not_answer_is_given_up(faults: Faults, monkeypatch: pytest.MonkeyPatch) -> None:
    """After the time of the settings."""
    sink = await sink_to(faults.url, timeout=0.2)

    async def hang(*_: Any, **__: Any) -> None:
        raise TimeoutError

    monkeypatch.setattr("obstore.put_async", hang)

    with pytest.raises(Retriable, match=r"no answer within 0\.2 s"):
        await sink.put(records(1))


async def test_a_bug_is_no_outcome(faults: Faults, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is raised as it is."""
    sink = await sink_to(faults.url)

    async def broken(*_: Any, **__: Any) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr("obstore.put_async", broken)

    with pytest.raises(ZeroDivisionError):
        await sink.put(records(1))


async def test_a_login_that_nobody_gives_is_told(faults: Faults, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where to write it; the host is asked last."""
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_METADATA_ENDPOINT", faults.url)
    faults.answers["latest"] = (403, "")

    with pytest.raises(DrainError, match="no login was found, nor does this host have one; set access_key_id"):
        await sink_to("http://127.0.0.1:9", access_key_id="", secret_access_key="")


async def test_the_login_may_come_from_the_environment(faults: Faults, monkeypatch: pytest.MonkeyPatch) -> None:
    """As with other clients; so may the region."""
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "from-the-environment")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "s")

    sink = await sink_to(faults.url, access_key_id="", secret_access_key="", region="eu-west-1")

    assert await sink.put(records(1)) is None


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({}, "bucket: is missing"),
        ({"bucket": "a/b"}, "bucket: must be the name of a bucket"),
        ({"bucket": "lake", "prefix": "/a"}, "prefix: must be like lake/orders/"),
        ({"bucket": "lake", "prefix": "a/../b/"}, "prefix: must be like"),
        ({"bucket": "lake", "access_key_id": "k"}, "access_key_id: goes together with secret_access_key"),
        ({"bucket": "lake", "endpoint_url": "minio:9000"}, "endpoint_url: must be an address"),
        ({"bucket": "lake", "endpoint_url": "http://[x"}, "endpoint_url: must be an address"),
        ({"bucket": "lake", "compression": "zip"}, "compression: choose one of none, gzip"),
    ],
)
def test_what_is_wrong_with_settings_is_told(settings: dict[str, Any], said: str) -> None:
    """Before anything is connected."""
    with pytest.raises(SettingsError, match=said):
        S3Sink.check(settings)


def test_a_name_is_of_its_content() -> None:
    """Another content is another name."""
    one, two = (object_name("", ("t", 0), [1, 2], data) for data in (b"a", b"b"))

    assert one != two
    assert one.startswith("t/0/00000000000000000001-00000000000000000002-")


CONFIG = """
[worker]
"bootstrap.servers" = "BROKERS"
"consumer.group.protocol" = "share"

[connectors.orders]
class = "s3"
topics = ["orders"]
"value.converter" = "json"
"retry.backoff.ms" = 10

[connectors.orders.sink]
bucket = "lake"
endpoint_url = "SERVICE"
access_key_id = "key"
secret_access_key = "secret"
"""


async def test_r23_nothing_is_accepted_before_its_object_is_there(faults: Faults, tmp_path: Path) -> None:
    """In a worker: records wait while the service refuses them."""
    async with SimulatedCluster() as cluster:
        cluster.create_topic("orders")
        cluster.set_group_config("share-orders", {"share.auto.offset.reset": "earliest"})
        file = tmp_path / "sink.toml"
        file.write_text(CONFIG.replace("BROKERS", cluster.bootstrap_servers).replace("SERVICE", faults.url))
        worker = SinkWorker(load_sink_settings(file), BrokerParts())
        await worker.start()
        faults.answers["orders"] = (503, "SlowDown")
        cluster.produce("orders", 0, 20, values=[json.dumps({"n": n}) for n in range(20)])
        (meter,) = worker.meters
        await eventually(lambda: faults.refused >= 2, "it was tried twice")
        accepted = meter.counts["record_acknowledge"]
        faults.answers.clear()
        await eventually(lambda: meter.counts["record_acknowledge"] >= 20, "all are accepted")
        await worker.stop()

    assert accepted == 0
    assert faults.stored

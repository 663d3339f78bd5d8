"""Metrics, JSON and probes over HTTP."""

from __future__ import annotations

import asyncio
import contextlib
import gzip
import json
import zlib
from collections.abc import AsyncIterator, Sequence
from typing import Any
from urllib.parse import quote

import aiohttp
import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families as openmetrics_families
from prometheus_client.parser import text_string_to_metric_families
from yarl import URL

from shareproxy.cluster.errors import Unreachable
from shareproxy.lag.model import Status
from shareproxy.observe.exporter import Exporter
from shareproxy.observe.exposition import EMPTY_PAGE, Format
from shareproxy.observe.http import HttpServer
from tests.observe.watching import Watched, aged, an_exporter, member, row

OPENMETRICS = "application/openmetrics-text;version=1.0.0,text/plain;version=0.0.4;q=0.5,*/*;q=0.1"
PATHS = ("/metrics", "/api/v1/groups", "/api/v1/groups/g", "/livez", "/healthz", "/health", "/readyz", "/ready", "/")


class Site:
    """A server in front of an exporter that looks only when told to, and a client."""

    def __init__(self) -> None:
        self.watched = Watched()
        self.exporter: Exporter = an_exporter(self.watched)
        self.reason: str | None = None
        readiness = (lambda: self.reason, self.exporter.collector.why_not_fresh)
        self.server = HttpServer("127.0.0.1", 0, readiness, self.exporter)
        self.client: aiohttp.ClientSession

    async def look(self) -> None:
        """Look at the cluster once."""
        await self.exporter.collector.look()

    async def get(self, path: str, method: str = "GET", **headers: str) -> tuple[aiohttp.ClientResponse, bytes]:
        """Ask as a client that takes bytes as they come."""
        sent = {name.replace("_", "-"): value for name, value in headers.items()}
        url = URL(f"http://127.0.0.1:{self.server.port}{path}", encoded=True)
        async with self.client.request(method, url, headers=sent) as response:
            return response, await response.read()


@pytest.fixture
async def site() -> AsyncIterator[Site]:
    """Run a server for one test; group g has lag 7."""
    site = Site()
    site.watched.put("g", row(lag=7), members=[member("t")])
    await site.server.start()
    async with aiohttp.ClientSession(auto_decompress=False, skip_auto_headers=["Accept-Encoding"]) as site.client:
        yield site
    await site.server.stop()


async def test_not_ready_until_the_first_look(site: Site) -> None:
    """Nothing is shown before there is something, and the reason is told."""
    for path in ("/readyz", "/ready"):
        response, body = await site.get(path)
        assert (response.status, body) == (503, b"the share groups have not been read yet\n")
    response, body = await site.get("/api/v1/groups/g")
    assert (response.status, body) == (503, b'{"error":"the share groups have not been read yet"}\n')
    await site.look()

    assert (await site.get("/readyz"))[0].status == 200
    assert (await site.get("/api/v1/groups/g"))[0].status == 200


async def test_the_reason_of_a_failed_look_is_told(site: Site) -> None:
    """A person reads why the first look did not succeed."""
    site.watched.failure = Unreachable("127.0.0.1:1 refused the connection")
    await site.look()

    _, body = await site.get("/readyz")

    assert body == b"the share groups have not been read yet: 127.0.0.1:1 refused the connection\n"


async def test_every_part_has_to_be_ready(site: Site) -> None:
    """With a proxy in the same process its own reason comes first; the probe of life does not depend on it."""
    await site.look()
    site.reason = "no broker answers"

    response, body = await site.get("/readyz?verbose")

    assert (response.status, body) == (503, b"no broker answers\n")
    for path in ("/livez", "/healthz", "/health"):
        assert (await site.get(path))[0].status == 200


async def test_stale_is_503_and_no_series(site: Site) -> None:
    """An old number is not shown as if it were true."""
    await site.look()
    async with aged(site.exporter, site.exporter.collector.stale_seconds + 1):
        for path in ("/readyz", "/api/v1/groups", "/api/v1/groups/g"):
            response, body = await site.get(path)
            assert response.status == 503
            assert b"64 s old" in body
        response, body = await site.get("/metrics")
    assert response.status == 200
    assert b"kafka_" not in body
    assert b"shareproxy_up 0.0" in body


async def test_metrics_are_text_unless_openmetrics_is_wanted(site: Site) -> None:
    """Both parse with the library's own parsers, and say the same lag."""
    await site.look()
    plain, text = await site.get("/metrics")
    opened, openmetrics = await site.get("/metrics", Accept=OPENMETRICS)

    assert plain.headers["Content-Type"] == "text/plain; version=0.0.4; charset=utf-8"
    assert opened.headers["Content-Type"] == "application/openmetrics-text; version=1.0.0; charset=utf-8"
    assert openmetrics.endswith(b"\n# EOF\n")
    assert b"# EOF" not in text
    for families in (
        list(text_string_to_metric_families(text.decode())),
        list(openmetrics_families(openmetrics.decode())),  # type: ignore[no-untyped-call]
    ):
        lags = [sample for family in families for sample in family.samples if sample.name == "kafka_sharegroup_lag"]
        assert [(sample.labels, sample.value) for sample in lags] == [
            ({"group": "g", "topic": "t", "partition": "0"}, 7)
        ]
        assert len({family.name for family in families}) == len(families)
        assert all(family.documentation for family in families)


@pytest.mark.parametrize("accept", ["*/*", OPENMETRICS])
async def test_gzip_is_one_member_and_says_the_same(site: Site, accept: str) -> None:
    """Also a client that stops after the first gzip member reads all of it; only its age is another one."""
    await site.look()
    response, packed = await site.get("/metrics", Accept=accept, Accept_Encoding="deflate, gzip;q=1.0")
    _, plain = await site.get("/metrics", Accept=accept)

    assert response.headers["Content-Encoding"] == "gzip"
    reader = zlib.decompressobj(16 + zlib.MAX_WBITS)
    unpacked = reader.decompress(packed)
    assert reader.eof
    assert reader.unused_data == b""
    assert gzip.decompress(packed) == unpacked

    def lines(page: bytes) -> list[bytes]:
        return [line for line in page.splitlines() if not line.startswith(b"shareproxy_snapshot_age_seconds")]

    assert lines(unpacked) == lines(plain)


@pytest.mark.parametrize("coding", ["", "identity", "gzip;q=0", "gzip; q=0.0, br"])
async def test_nothing_is_compressed_for_those_who_cannot_read_it(site: Site, coding: str) -> None:
    """A weight of 0 is a refusal."""
    await site.look()
    response, body = await site.get("/metrics", Accept_Encoding=coding)
    assert "Content-Encoding" not in response.headers
    assert body.startswith(b"# HELP ")


@pytest.mark.parametrize("path", PATHS)
async def test_head_has_the_head_of_get(site: Site, path: str) -> None:
    """And no body; nothing may be kept by a cache on the way."""
    await site.look()
    head, nothing = await site.get(path, "HEAD")
    got, _ = await site.get(path)

    assert (head.status, nothing) == (200, b"")
    assert head.headers["Content-Type"] == got.headers["Content-Type"]
    assert int(head.headers["Content-Length"]) > 0
    assert got.headers["Cache-Control"] == "no-store"


@pytest.mark.parametrize("path", PATHS)
async def test_nothing_can_be_changed(site: Site, path: str) -> None:
    """Other methods are refused."""
    assert (await site.get(path, "POST"))[0].status == 405


async def test_one_group_as_json(site: Site) -> None:
    """The documented keys of the command line, and when it was read."""
    await site.look()
    response, _ = await site.get("/api/v1/groups/g")
    _, body = await site.get("/api/v1/groups/g")
    answer = _json(body)
    snapshot = site.exporter.collector.fresh
    assert snapshot is not None

    assert response.headers["Content-Type"] == "application/json; charset=utf-8"
    assert 0 <= answer.pop("age_seconds") < 60
    assert answer.pop("time").endswith("Z")
    assert answer.pop("cluster_id") == "cluster-1"
    assert answer == snapshot.report.groups[0].to_dict()


async def test_what_is_unknown_is_null(site: Site) -> None:
    """Also the sum, where nothing is known: a scaler must fail rather than read 0."""
    site.watched.put("g", row(lag=None, status=Status.TIMEOUT))
    await site.look()

    answer = _json((await site.get("/api/v1/groups/g"))[1])

    assert (answer["lag"], answer["complete"], answer["partitions_known"], answer["partitions_total"]) == (
        None, False, 0, 1,
    )  # fmt: skip
    assert (answer["partitions"][0]["lag"], answer["partitions"][0]["status"]) == (None, "timeout")


async def test_many_partitions_come_whole(site: Site) -> None:
    """A group is written in pieces."""
    site.watched.put("g", *(row(partition=number, lag=1) for number in range(1_001)))
    await site.look()

    answer = _json((await site.get("/api/v1/groups/g"))[1])

    assert answer["lag"] == 1_001
    assert [partition["partition"] for partition in answer["partitions"]] == list(range(1_001))


async def test_a_group_without_partitions_is_json_too(site: Site) -> None:
    """The list is empty, not broken."""
    site.watched.put("g")
    await site.look()
    assert _json((await site.get("/api/v1/groups/g"))[1])["partitions"] == []


async def test_all_groups_as_json(site: Site) -> None:
    """Sums, members and state, and whether something is missing."""
    site.watched.put("other", row(lag=None))
    await site.look()

    answer = _json((await site.get("/api/v1/groups"))[1])

    assert (answer["partial"], answer["problems"]) == (False, [])
    assert [(group["group"], group["lag"], group["members"], group["state"]) for group in answer["groups"]] == [
        ("g", 7, 1, "Stable"),
        ("other", None, 0, "Stable"),
    ]


@pytest.mark.parametrize("name", ["a/b", "a b", "grün", "a%2Fb", "100%", "?", "#", "a//b", "{x}", "..", 'q"'])
async def test_any_group_name_fits_into_the_path(site: Site, name: str) -> None:
    """Percent-encoded, as every client library does it."""
    site.watched.put(name, row(lag=3))
    await site.look()
    response, body = await site.get(f"/api/v1/groups/{quote(name, safe='')}")
    assert (response.status, _json(body)["group"]) == (200, name)


async def test_slashes_need_not_be_encoded(site: Site) -> None:
    """What people type works too."""
    site.watched.put("team/orders", row(lag=3))
    await site.look()
    assert (await site.get("/api/v1/groups/team/orders"))[0].status == 200


async def test_an_unknown_group_is_404_with_a_sentence(site: Site) -> None:
    """It says where to look."""
    await site.look()
    response, body = await site.get("/api/v1/groups/nobody")
    assert response.status == 404
    assert "share group 'nobody' is not among the watched groups" in _json(body)["error"]


async def test_without_an_exporter_only_the_probes_are_there() -> None:
    """`exporter.enabled = false`."""
    server = HttpServer("127.0.0.1", 0, (lambda: None,))
    await server.start()
    try:
        async with aiohttp.ClientSession(f"http://127.0.0.1:{server.port}") as client:
            codes = {}
            for path in ("/readyz", "/livez", "/metrics", "/api/v1/groups"):
                async with client.get(path) as response:
                    codes[path] = response.status
    finally:
        await server.stop()
    assert codes == {"/readyz": 200, "/livez": 200, "/metrics": 404, "/api/v1/groups": 404}


@pytest.mark.parametrize("noise", [b"", b"\x00\x01\r\n\r\n", b"GET /readyz", b"GET /" + b"x" * 70_000 + b"\r\n\r\n"])
async def test_noise_does_no_harm(site: Site, noise: bytes) -> None:
    """What is not an HTTP request is no reason to end, and the next probe works."""
    reader, writer = await asyncio.open_connection("127.0.0.1", site.server.port)
    writer.write(noise)
    writer.write_eof()
    with contextlib.suppress(ConnectionError):  # a reset is as good as silence
        answer = await reader.read()
        assert answer == b"" or answer.split(b" ")[1] == b"400"
    writer.close()
    assert (await site.get("/livez"))[0].status == 200


async def test_a_reader_that_goes_away_does_no_harm(site: Site) -> None:
    """In the middle of a large answer."""
    site.watched.put("g", *(row(partition=number) for number in range(20_000)))
    await site.look()
    reader, writer = await asyncio.open_connection("127.0.0.1", site.server.port)
    writer.write(b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n")
    await reader.read(1_000)
    writer.transport.abort()

    assert (await site.get("/livez"))[0].status == 200


async def test_a_port_in_use_is_an_os_error(site: Site) -> None:
    """Its text is the sentence for a person, as with Kafka ports, and names the setting."""
    port = site.server.port
    second = HttpServer("127.0.0.1", port, ())
    with pytest.raises(OSError, match=f"http: cannot listen on 127.0.0.1:{port}: Address already in use$"):
        await second.start()
    await second.stop()


@pytest.mark.parametrize(
    ("host", "named"),
    [
        ("192.0.2.1", r"http: cannot listen on 192\.0\.2\.1:1234: Cannot assign requested address$"),
        ("no-such-host.invalid", r"http: cannot listen on no-such-host\.invalid:1234: [A-Z]"),
    ],
)
async def test_an_address_that_is_not_here_is_named(host: str, named: str) -> None:
    """It may come later."""
    server = HttpServer(host, 1234, ())
    with pytest.raises(OSError, match=named):
        await server.start()
    await server.stop()


def _json(body: bytes) -> Any:
    return json.loads(body)


async def test_metrics_are_made_current_before_they_are_shown() -> None:
    """Other processes may have to be asked first."""
    asked: list[str] = []

    async def refresh() -> None:
        asked.append("refresh")

    class Shown:
        def answer(self, form: Format, *, gzip: bool) -> tuple[Sequence[bytes], int]:
            asked.append("answer")
            return EMPTY_PAGE.with_tail(b"page", gzip=gzip)

    server = HttpServer("127.0.0.1", 0, [], metrics=Shown(), refresh=refresh)
    await server.start()
    try:
        async with aiohttp.ClientSession() as client:
            async with client.get(f"http://127.0.0.1:{server.port}/metrics") as response:
                assert await response.text() == "page"
            async with client.get(f"http://127.0.0.1:{server.port}/api/v1/groups") as response:
                assert response.status == 404
    finally:
        await server.stop()

    assert asked == ["refresh", "answer"]

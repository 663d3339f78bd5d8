"""Answer over HTTP: metrics, the JSON API and health probes, all from memory.

In: GET and HEAD requests. Out: the newest snapshot, or 503 with the reason in a sentence.
Must never: ask a broker, or show a snapshot that is too old.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import Final, Protocol

import msgspec
from aiohttp import web
from prometheus_client.exposition import choose_encoder

from shareproxy.cluster.addresses import Address
from shareproxy.lag.slices import Slices
from shareproxy.observe.exporter import Exporter
from shareproxy.observe.exposition import Format, blocks
from shareproxy.observe.json_api import group_pieces, groups_pieces
from shareproxy.observe.snapshot import Snapshot
from shareproxy.protocol.ids import GroupId

Readiness = Callable[[], str | None]
"""Returns `None` when ready, else the reason in one sentence."""

# what is handed to the socket at once; while it is slow, no more than this waits in memory for each client
BLOCK_BYTES: Final = 262_144
# answers under way may still be finished when we are told to stop
STOP_SECONDS: Final = 1.0
NO_STORE: Final = {"Cache-Control": "no-store", "X-Content-Type-Options": "nosniff"}
JSON_TYPE: Final = "application/json; charset=utf-8"
PLAIN_TYPE: Final = "text/plain; charset=utf-8"
LIVE_PATHS: Final = ("/livez", "/healthz", "/health")
READY_PATHS: Final = ("/readyz", "/ready")
INDEX: Final = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>shareproxy</title></head>
<body><h1>shareproxy</h1><ul>
<li><a href="metrics">/metrics</a> for Prometheus</li>
<li><a href="api/v1/groups">/api/v1/groups</a> and /api/v1/groups/NAME as JSON</li>
<li><a href="readyz">/readyz</a>, <a href="livez">/livez</a> for probes</li>
</ul></body></html>
"""


class Metrics(Protocol):
    """What `/metrics` shows."""

    def answer(self, form: Format, *, gzip: bool) -> tuple[Sequence[bytes], int]:
        """Return the pieces of an answer and its length."""


class HttpServer:
    """Serve one address.

    Args:
        host: address to bind.
        port: port to bind, 0 for any free one.
        readiness: asked on each `/readyz`, one after the other; the first reason is told.
        exporter: what metrics and the API show; without one there is no API.
        metrics: what metrics show instead; without both there are none.
        refresh: called before metrics are shown, to make them current.
    """

    def __init__(
        self,
        host: str,
        port: int,
        readiness: Sequence[Readiness],
        exporter: Exporter | None = None,
        *,
        metrics: Metrics | None = None,
        refresh: Callable[[], Awaitable[None]] | None = None,
    ) -> None:
        self._host, self._port, self._readiness, self._exporter = host, port, tuple(readiness), exporter
        self._shown, self._refresh = metrics or exporter, refresh
        # later parts, such as a page, add their routes before the start
        self.application = web.Application()
        self._runner: web.AppRunner | None = None
        router = self.application.router
        for path in LIVE_PATHS:
            router.add_get(path, _live)
        for path in READY_PATHS:
            router.add_get(path, self._ready)
        router.add_get("/", _index)
        if self._shown is not None:
            router.add_get("/metrics", self._metrics)
        if exporter is not None:
            router.add_get("/api/v1/groups", self._groups)
            router.add_get("/api/v1/groups/{group:.+}", self._group)

    @property
    def port(self) -> int:
        """Return the bound port."""
        assert self._runner is not None
        return int(self._runner.addresses[0][1])

    async def start(self) -> None:
        """Bind and listen.

        Raises:
            OSError: the address cannot be bound; its text names the setting and the address.
        """
        self._runner = web.AppRunner(
            self.application, access_log=None, handle_signals=False, shutdown_timeout=STOP_SECONDS
        )
        await self._runner.setup()
        try:
            await web.TCPSite(self._runner, self._host, self._port).start()
        except OSError as error:
            address = Address(self._host, self._port)
            raise OSError(error.errno, f"http: cannot listen on {address}: {_why(error)}") from None

    async def stop(self) -> None:
        """Stop listening and drop open connections."""
        if self._runner is not None:
            await self._runner.cleanup()

    async def _ready(self, request: web.Request) -> web.Response:
        for readiness in self._readiness:
            reason = readiness()
            if reason is not None:
                return _text(f"{reason}\n", status=503)
        return _text("ready\n")

    async def _metrics(self, request: web.Request) -> web.StreamResponse:
        assert self._shown is not None
        if self._refresh is not None:
            await self._refresh()
        # how a client words that it can read OpenMetrics is the library's knowledge
        _, content_type = choose_encoder(request.headers.get("Accept", ""))
        form = Format.OPENMETRICS if content_type.startswith("application/openmetrics-text") else Format.TEXT
        gzip = "gzip" in _accepted(request.headers.get("Accept-Encoding", ""))
        pieces, length = self._shown.answer(form, gzip=gzip)
        headers = {"Content-Type": form.value, "Vary": "Accept, Accept-Encoding"}
        if gzip:
            headers["Content-Encoding"] = "gzip"
        return await _send(request, blocks(pieces, BLOCK_BYTES), headers, length)

    async def _groups(self, request: web.Request) -> web.StreamResponse:
        snapshot, age = self._snapshot()
        return await _send_json(request, groups_pieces(snapshot, age))

    async def _group(self, request: web.Request) -> web.StreamResponse:
        snapshot, age = self._snapshot()
        name = request.match_info["group"]
        view = snapshot.groups.get(GroupId(name))
        if view is None:
            raise _problem(
                404,
                f"share group {name!r} is not among the watched groups of this cluster; /api/v1/groups lists them, and "
                "a new group is seen at the next look",
            )
        return await _send_json(request, group_pieces(snapshot, view, age))

    def _snapshot(self) -> tuple[Snapshot, float]:
        assert self._exporter is not None
        collector = self._exporter.collector
        snapshot, age = collector.fresh, collector.age
        if snapshot is None or age is None:
            raise _problem(503, collector.why_not_fresh() or "not ready")
        return snapshot, age


def _why(error: OSError) -> str:
    """Return the system's own words; the event loops put others in their place."""
    # newer versions of asyncio have no number for a host none of whose addresses is here
    number = errno.EADDRNOTAVAIL if error.errno is None else error.errno
    return os.strerror(number) if number > 0 else error.strerror or str(error)  # below 0: the name is not known


async def _live(request: web.Request) -> web.Response:
    return _text("alive\n")


async def _index(request: web.Request) -> web.Response:
    return _text(INDEX, content_type="text/html; charset=utf-8")


def _text(text: str, *, status: int = 200, content_type: str = PLAIN_TYPE) -> web.Response:
    return web.Response(body=text.encode(), status=status, headers={**NO_STORE, "Content-Type": content_type})


def _problem(status: int, sentence: str) -> web.HTTPException:
    kinds: Mapping[int, type[web.HTTPException]] = {404: web.HTTPNotFound, 503: web.HTTPServiceUnavailable}
    body = msgspec.json.encode({"error": sentence}).decode() + "\n"
    return kinds[status](text=body, headers=NO_STORE, content_type="application/json")


def _accepted(header: str) -> set[str]:
    """Return the codings that a client takes; one with the weight 0 it does not take."""
    codings = set()
    for item in header.lower().split(","):
        coding, _, parameter = item.partition(";")
        weight = parameter.replace(" ", "").removeprefix("q=")
        if weight.rstrip("0") not in ("", "0.") or not parameter:
            codings.add(coding.strip())
    return codings


async def _send_json(request: web.Request, pieces: Iterable[bytes]) -> web.StreamResponse:
    slices, made = Slices(), []
    for piece in pieces:
        made.append(piece)
        await slices.turn()
    return await _send(request, blocks(made, BLOCK_BYTES), {"Content-Type": JSON_TYPE}, sum(map(len, made)))


async def _send(
    request: web.Request, pieces: Iterable[bytes], headers: Mapping[str, str], length: int
) -> web.StreamResponse:
    response = web.StreamResponse(headers={**NO_STORE, **headers, "Content-Length": str(length)})
    await response.prepare(request)
    if request.method != "HEAD":
        slices = Slices()
        for piece in pieces:
            await response.write(piece)  # waits while the client is slow
            await slices.turn()
    await response.write_eof()
    return response

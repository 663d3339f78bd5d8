"""A broker on 127.0.0.1 whose answers a test writes down.

Like a real one it reads ahead, but answers the requests of a connection in their order.
"""

from __future__ import annotations

import asyncio
import contextlib
import inspect
import ssl
from collections.abc import Awaitable, Callable, Mapping, Sequence
from types import TracebackType
from typing import Any, Final, NamedTuple, Self, cast

from shareproxy.cluster.addresses import Address
from shareproxy.protocol.framing import MAX_REQUEST_BYTES, FrameReader
from shareproxy.protocol.headers import RequestHead, decode_request, encode_response, read_request_head, sized
from shareproxy.protocol.message import Request, Response
from shareproxy.protocol.messages import (
    MESSAGES,
    ApiVersionsRequest,
    ApiVersionsResponse,
    ApiVersionsResponseApiVersion,
    FindCoordinatorRequest,
    FindCoordinatorResponse,
    FindCoordinatorResponseCoordinator,
    MetadataRequest,
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)

REQUESTS: Final[Mapping[int, type[Request[Response]]]] = {
    message.api_key: message for message in MESSAGES if issubclass(message, Request)
}
OFFERED: Final = {key: (request.min_version, request.max_version) for key, request in REQUESTS.items()}
WAIT_SECONDS: Final = 10.0


class Silence:
    """Answer nothing, and keep the following requests waiting."""


class HangUp:
    """Close the connection instead of answering."""


SILENCE: Final = Silence()
HANG_UP: Final = HangUp()

Answer = Response | bytes | Silence | HangUp
"""A message, or raw bytes as they shall stand on the wire, or one of the two above."""


class Received(NamedTuple):
    """One request as it came in; `connection` counts from 0."""

    head: RequestHead
    message: Request[Response]
    connection: int


Handler = Callable[[Any], Answer | Awaitable[Answer]]


class ScriptedBroker:
    """One broker; use it as a context manager.

    Attributes:
        received: all requests in order, ApiVersions included.
        connections: how many were accepted.
        offers: api key → versions in the ApiVersions answer.
    """

    def __init__(self, node_id: int = 1, *, tls: ssl.SSLContext | None = None) -> None:
        self.node_id = node_id
        self.received: list[Received] = []
        self.connections = 0
        self.offers: dict[int, tuple[int, int]] = dict(OFFERED)
        self.address = Address("127.0.0.1", 0)
        self._tls = tls
        self._handlers: dict[int, Handler] = {ApiVersionsRequest.api_key: self._api_versions}
        self._server: asyncio.Server | None = None
        self._tasks: set[asyncio.Task[None]] = set()

    def on(self, request: type[Request[Any]], handler: Handler) -> None:
        """Answer requests of a class with what the handler returns, or what it awaits."""
        self._handlers[request.api_key] = handler

    def count(self, request: type[Request[Any]]) -> int:
        """Count the requests of a class so far."""
        return sum(received.head.api_key == request.api_key for received in self.received)

    def messages(self, request: type[Request[Any]]) -> list[Any]:
        """Return the requests of a class so far."""
        return [received.message for received in self.received if received.head.api_key == request.api_key]

    async def start(self, port: int = 0) -> Self:
        """Listen; port 0 is a free one."""
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", port, ssl=self._tls)
        self.address = Address("127.0.0.1", self._server.sockets[0].getsockname()[1])
        return self

    async def stop(self) -> None:
        """Stop listening and drop all connections."""
        assert self._server is not None
        self._server.close()
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._server.wait_closed()

    async def __aenter__(self) -> Self:
        return await self.start()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.stop()

    def _api_versions(self, _: ApiVersionsRequest) -> ApiVersionsResponse:
        rows = [ApiVersionsResponseApiVersion(key, low, high) for key, (low, high) in self.offers.items()]
        return ApiVersionsResponse(api_keys=rows)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = cast("asyncio.Task[None]", asyncio.current_task())
        self._tasks.add(task)
        number, self.connections = self.connections, self.connections + 1
        queue: asyncio.Queue[Received] = asyncio.Queue()
        answering = asyncio.ensure_future(self._answer(queue, writer))
        frames = FrameReader(MAX_REQUEST_BYTES)
        try:
            while chunk := await reader.read(65_536):
                for frame in frames.feed(chunk):
                    head = read_request_head(frame)
                    received = Received(head, decode_request(REQUESTS[head.api_key], frame)[1], number)
                    self.received.append(received)
                    queue.put_nowait(received)
        except ConnectionError:
            pass
        finally:
            answering.cancel()
            writer.transport.abort()
            self._tasks.discard(task)

    async def _answer(self, queue: asyncio.Queue[Received], writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(ConnectionError):
            while True:
                received = await queue.get()
                answer = self._handlers[received.head.api_key](received.message)
                if inspect.isawaitable(answer):
                    answer = await answer
                if isinstance(answer, Silence):
                    await asyncio.get_running_loop().create_future()
                if isinstance(answer, HangUp):
                    writer.close()
                    return
                if isinstance(answer, Response):
                    version = received.head.api_version
                    if isinstance(answer, ApiVersionsResponse) and answer.error_code == 35:
                        version = 0  # as brokers do: the client may not know the version
                    answer = sized(encode_response(answer, version, received.head.correlation_id))
                assert isinstance(answer, bytes)
                writer.write(answer)
                await writer.drain()


class ScriptedCluster:
    """Several brokers that know each other, and topics; use it as a context manager.

    Attributes:
        brokers: node id → broker.
        topics: name → leaders by partition (None: no leader), or an error code.
        coordinator: key and key type → node id and error code in FindCoordinator's answer.
    """

    def __init__(self, node_ids: Sequence[int] = (1,)) -> None:
        self.brokers = {node_id: ScriptedBroker(node_id) for node_id in node_ids}
        self.topics: dict[str, Sequence[int | None] | int] = {}
        self.coordinator: Callable[[str, int], tuple[int, int]] = lambda key, key_type: (min(self.brokers), 0)
        for broker in self.brokers.values():
            broker.on(MetadataRequest, self._metadata)
            broker.on(FindCoordinatorRequest, self._find_coordinator)

    @property
    def addresses(self) -> tuple[Address, ...]:
        """Return where the brokers listen."""
        return tuple(broker.address for broker in self.brokers.values())

    def count(self, request: type[Request[Any]]) -> int:
        """Count the requests of a class that all brokers got."""
        return sum(broker.count(request) for broker in self.brokers.values())

    async def __aenter__(self) -> Self:
        for broker in self.brokers.values():
            await broker.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for broker in self.brokers.values():
            await broker.stop()

    def _metadata(self, request: MetadataRequest) -> MetadataResponse:
        assert not request.allow_auto_topic_creation
        names = list(self.topics) if request.topics is None else [row.name or "" for row in request.topics]
        return MetadataResponse(
            brokers=[
                MetadataResponseBroker(broker.node_id, broker.address.host, broker.address.port)
                for broker in self.brokers.values()
            ],
            cluster_id="scripted",
            controller_id=min(self.brokers),
            topics=[self._topic(name) for name in names],
        )

    def _topic(self, name: str) -> MetadataResponseTopic:
        leaders = self.topics.get(name, 3)
        if isinstance(leaders, int):
            return MetadataResponseTopic(leaders, name)
        rows = [
            MetadataResponsePartition(0 if leader is not None else 5, number, -1 if leader is None else leader, 0)
            for number, leader in enumerate(leaders)
        ]
        return MetadataResponseTopic(0, name, name.encode().ljust(16, b"\0")[:16], name.startswith("__"), rows)

    def _find_coordinator(self, request: FindCoordinatorRequest) -> FindCoordinatorResponse:
        rows = []
        for key in request.coordinator_keys:
            node_id, error_code = self.coordinator(key, request.key_type)
            rows.append(FindCoordinatorResponseCoordinator(key, node_id, "", -1, error_code, ""))
        return FindCoordinatorResponse(coordinators=rows)


async def eventually(condition: Callable[[], bool]) -> None:
    """Wait until a condition holds; fail after a while."""
    async with asyncio.timeout(WAIT_SECONDS):
        while not condition():
            await asyncio.sleep(0)


def soon(seconds: float = WAIT_SECONDS) -> float:
    """Return a deadline."""
    return asyncio.get_running_loop().time() + seconds

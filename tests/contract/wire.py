"""Ask one broker one question, in a version of our choice, and read its raw answer.

In: an address, a message and its version. Out: the decoded answer. Blocking, one question at a time.
Must never: retry or interpret: the contract is about what stands on the wire.
"""

from __future__ import annotations

import socket
from typing import Final, TypeVar, cast

from shareproxy.protocol.headers import decode_response, encode_request, sized
from shareproxy.protocol.message import Request, Response
from shareproxy.protocol.messages import ApiVersionsRequest

Q = TypeVar("Q", bound=Response)

PATIENCE: Final = 60.0  # seconds; a real broker may think for half a minute


class Wire:
    """One connection to one broker.

    Attributes:
        address: host and port.
        offers: API key → first and last version.
    """

    def __init__(self, address: tuple[str, int]) -> None:
        self.address = address
        self._socket = socket.create_connection(address, PATIENCE)
        answer = self.ask(ApiVersionsRequest("contract", "1"), 4)
        self.offers = {row.api_key: (row.min_version, row.max_version) for row in answer.api_keys}

    def ask(self, message: Request[Q], version: int | None = None) -> Q:
        """Send one request and return the answer.

        Args:
            message: what to ask.
            version: of the API; None for the highest that both sides have.
        """
        self.send(message, version)
        return self.receive(message, version)

    def send(self, message: Request[Q], version: int | None = None) -> None:
        """Send one request without waiting for its answer."""
        self._socket.sendall(sized(encode_request(message, self._version(message, version), 1, "contract")))

    def receive(self, message: Request[Q], version: int | None = None) -> Q:
        """Wait for the answer to a request that was sent."""
        version = self._version(message, version)
        frame = _exactly(self._socket, int.from_bytes(_exactly(self._socket, 4)))
        response = cast("type[Q]", message.response_class)
        correlation_id, answer = decode_response(response, version, frame)
        assert correlation_id == 1
        return answer

    def _version(self, message: Request[Q], version: int | None) -> int:
        return min(self.offers[message.api_key][1], message.max_version) if version is None else version

    def close(self) -> None:
        """Close the connection."""
        self._socket.close()


def _exactly(connection: socket.socket, count: int) -> bytes:
    chunks: list[bytes] = []
    while count:
        chunk = connection.recv(count)
        if not chunk:
            raise ConnectionError("the broker closed the connection in the middle of an answer")
        chunks.append(chunk)
        count -= len(chunk)
    return b"".join(chunks)


def first_address(bootstrap_servers: str) -> tuple[str, int]:
    """Return the first of "host:port,…"."""
    host, _, port = bootstrap_servers.split(",")[0].rpartition(":")
    return host, int(port)

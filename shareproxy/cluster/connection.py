"""One connection to one broker: typed requests in, typed answers out.

In: an address, how it is secured, request messages with deadlines. Out: answers, or one error that says what helps.
Must never: outlive its login, or lead an answer to another request.
"""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import Callable, Sequence
from typing import Final, TypeVar, cast

from shareproxy.cluster.addresses import Address
from shareproxy.cluster.errors import (
    AuthenticationFailed,
    BadAnswer,
    BrokerError,
    ClusterError,
    ConnectionClosed,
    DeadlinePassed,
    Unreachable,
    UnsupportedApi,
    WrongListener,
    cause_text,
)
from shareproxy.cluster.pipeline import Pipeline
from shareproxy.cluster.security import PLAINTEXT, Security
from shareproxy.cluster.versions import ApiVersionTable
from shareproxy.protocol.errors import DecodeError, ErrorCode
from shareproxy.protocol.framing import MAX_RESPONSE_BYTES
from shareproxy.protocol.headers import decode_response, encode_request
from shareproxy.protocol.message import Request, Response
from shareproxy.protocol.messages import ApiVersionsRequest, ApiVersionsResponse
from shareproxy.version import __version__

Q = TypeVar("Q", bound=Response)

SOFTWARE_NAME: Final = "shareproxy"
# version 5 adds the ids a broker checks; a client that sends none may as well ask in version 4 (KIP-1242)
API_VERSIONS_VERSION: Final = 4
# some milliseconds of work
LARGE_BYTES: Final = 64 * 1024
# one of several addresses of a name must not use up the whole time to connect
ADDRESS_SECONDS: Final = 1.0

_TRY_TLS: Final = "; if this listener speaks TLS, set security.protocol=SSL or SASL_SSL"
_TRY_CERTIFICATE: Final = "; if this listener wants a certificate of the client, set ssl.keystore.location"
_TRY_SASL: Final = (
    "; if this listener wants a login, set security.protocol=SASL_PLAINTEXT or SASL_SSL and sasl.mechanism"
)


class Connection:
    """An open connection; made by `Connection.open`."""

    def __init__(self, address: Address, security: Security, pipeline: Pipeline, client_id: str) -> None:
        self.address = address
        self.security = security
        self.client_id = client_id
        self.versions = ApiVersionTable({})
        self.expires_at: float | None = None
        """When the login should be renewed by a new connection, in the event loop's time; None is never."""
        self.large_answers = asyncio.Lock()
        """Held while a large answer is read; a pool gives all its connections the same."""
        self._pipeline = pipeline
        self._correlation_id = 0

    def __repr__(self) -> str:
        state = "closed" if self.closed else f"{self.in_flight} in flight"
        return f"<Connection {self.address} {self.security.protocol} {state}>"

    @classmethod
    async def open(
        cls,
        address: Address,
        security: Security = PLAINTEXT,
        *,
        client_id: str = SOFTWARE_NAME,
        deadline: float,
        max_answer_bytes: int = MAX_RESPONSE_BYTES,
    ) -> Connection:
        """Connect, agree on API versions and log in.

        Args:
            address: resolved now; all addresses of the name are tried.
            security: how the connection is secured.
            client_id: our name in the broker's logs and quotas.
            deadline: for all of it, in the event loop's time.
            max_answer_bytes: a larger answer closes the connection.

        Raises:
            Unreachable: no connection, or no answer in time.
            ConnectionClosed: the other side closed it or is not a Kafka broker.
            AuthenticationFailed: the login or a certificate was refused, by either side.
            WrongListener: plain text meets TLS.
            UnsupportedApi: the broker is too old.
        """
        pipeline = await _connect(address, security, deadline, max_answer_bytes)
        try:
            connection = cls(address, security, pipeline, client_id)
            pipeline.hint = _hint(security)
            connection.versions = await connection._ask_versions(deadline)
            if security.sasl:
                # imported here: most connections have no login, and the SASL library is slow to load
                from shareproxy.cluster.sasl import log_in

                pipeline.hint = ""
                lifetime = await log_in(connection, deadline)
                if lifetime is not None:
                    connection.expires_at = asyncio.get_running_loop().time() + lifetime
            else:
                pipeline.hint = _TRY_SASL  # such a listener closes at the first request that needs a login
        except BaseException as error:
            pipeline.fail(ConnectionClosed(f"the connection to {address} was given up"))
            if isinstance(error, ConnectionClosed) and isinstance(error.__cause__, ssl.SSLError):
                # with TLS 1.3 a broker refuses our certificate only after the handshake
                raise _tls_failure(address, error.__cause__) from error
            raise
        return connection

    @property
    def closed(self) -> bool:
        """Tell whether the connection takes no more requests."""
        return self._pipeline.closed

    @property
    def finished(self) -> bool:
        """Tell whether the transport is gone."""
        return self._pipeline.finished

    def when_finished(self, call: Callable[[], None]) -> None:
        """Call when the transport is gone, whoever closed it."""
        self._pipeline.when_lost(call)

    @property
    def in_flight(self) -> int:
        """Count the requests without answer, also those that nobody waits for any more."""
        return self._pipeline.in_flight

    @property
    def idle(self) -> bool:
        """Tell whether a request sent now would be the next one the broker works on."""
        return self.in_flight == 0

    @property
    def worn(self) -> bool:
        """Tell whether new requests are better sent on a new connection: login about to end, or broker stuck."""
        expired = self.expires_at is not None and asyncio.get_running_loop().time() >= self.expires_at
        return expired or self._pipeline.stalled

    def version_of(
        self, request: type[Request[Q]], max_version: int | None = None, min_version: int | None = None
    ) -> int:
        """Return the version in which a request would be sent.

        Raises:
            UnsupportedApi: there is none that both sides know.
        """
        version = self.versions.highest(request, max_version, min_version)
        if version is None:
            low = request.min_version if min_version is None else max(min_version, request.min_version)
            high = request.max_version if max_version is None else min(max_version, request.max_version)
            name = request.schema_name.removesuffix("Request")
            raise UnsupportedApi(
                request.api_key, name, (low, high), self.versions.get(request.api_key), str(self.address)
            )
        return version

    async def request(
        self, message: Request[Q], *, deadline: float, max_version: int | None = None, min_version: int | None = None
    ) -> Q:
        """Ask, and return the answer; many callers may ask at the same time.

        Args:
            message: what to ask, sent in the highest version both sides know.
            deadline: in the event loop's time.
            max_version: use no newer version.
            min_version: use no older version.

        Raises:
            UnsupportedApi: no version fits.
            DeadlinePassed: no answer in time; the connection stays usable, a late answer is swallowed.
            ConnectionClosed: the connection ended first.
            BadAnswer: the answer cannot be read; the connection is closed.
        """
        answer = await self._exchange(message, self.version_of(type(message), max_version, min_version), deadline)
        self._pipeline.hint = ""
        return answer

    async def _exchange(self, message: Request[Q], version: int, deadline: float) -> Q:
        correlation_id = self._correlation_id
        self._correlation_id = (correlation_id + 1) & 0x7FFFFFFF
        name = message.schema_name.removesuffix("Request")
        frame = encode_request(cast("Request[Response]", message), version, correlation_id, self.client_id)
        answer = await self._pipeline.exchange(correlation_id, frame, deadline, name)
        if len(answer) >= LARGE_BYTES:
            # answers of several brokers may be there at once: one is read at each turn of the event loop
            async with self.large_answers:
                await asyncio.sleep(0)
                return self._decode(message, version, name, answer)
        return self._decode(message, version, name, answer)

    def _decode(self, message: Request[Q], version: int, name: str, answer: bytes) -> Q:
        try:
            _, response = decode_response(cast("type[Q]", message.response_class), version, answer)
        except DecodeError as error:
            bad = BadAnswer(f"{self.address} sent an answer to {name} version {version} that cannot be read: {error}")
            self._pipeline.fail(bad, error)
            raise bad from error
        return response

    async def _ask_versions(self, deadline: float) -> ApiVersionTable:
        message = ApiVersionsRequest(SOFTWARE_NAME, __version__)
        answer = await self._exchange(message, API_VERSIONS_VERSION, deadline)
        if answer.error_code == ErrorCode.UNSUPPORTED_VERSION:
            answer = await self._exchange(message, _fallback_version(answer), deadline)
        if answer.error_code == ErrorCode.UNSUPPORTED_VERSION:
            answer = await self._exchange(message, 0, deadline)
        if answer.error_code:
            raise BrokerError(answer.error_code, None, f"{self.address} refused ApiVersions")
        return ApiVersionTable.of(answer)

    def retire(self) -> None:
        """Take no more requests; close when those under way are answered or given up."""
        self._pipeline.retire()

    async def close(self) -> None:
        """Close; whoever still waits gets `ConnectionClosed`."""
        await self._pipeline.close()


def _hint(security: Security) -> str:
    """Return what to try if the broker hangs up at the very first request."""
    if not security.tls:
        return _TRY_TLS
    return _TRY_CERTIFICATE if security.certificate_file is None and security.certificate_pem is None else ""


def _fallback_version(answer: ApiVersionsResponse) -> int:
    """Return the version to ask in after error 35, whose answer may say what the broker knows."""
    for key in answer.api_keys:
        if key.api_key == ApiVersionsRequest.api_key:
            return max(0, min(key.max_version, API_VERSIONS_VERSION - 1))
    return 0


async def _connect(address: Address, security: Security, deadline: float, limit: int) -> Pipeline:
    """Open TCP, and TLS if wanted, to the first address of the name that takes it."""
    loop = asyncio.get_running_loop()
    context = security.ssl_context() if security.tls else None
    failures: dict[str, None] = {}
    try:
        async with asyncio.timeout_at(deadline):
            hosts = await _resolve(address)
    except TimeoutError:
        raise DeadlinePassed(f"{address}: the name was not resolved in time") from None
    except OSError as error:
        raise Unreachable(f"{address}: the name cannot be resolved ({cause_text(error)})") from error
    for position, host in enumerate(hosts):
        left, remaining = deadline - loop.time(), len(hosts) - position
        until = deadline if remaining == 1 else loop.time() + max(left / remaining, min(left, ADDRESS_SECONDS))
        try:
            async with asyncio.timeout_at(min(until, deadline)):
                _, pipeline = await loop.create_connection(
                    lambda: Pipeline(str(address), limit),
                    host,
                    address.port,
                    ssl=context,
                    server_hostname=address.host if context else None,
                )
        except TimeoutError:
            failures["no answer in time"] = None
        except OSError as error:  # ssl.SSLError is one too
            _raise_if_final(address, security, error)
            failures[cause_text(error)] = None
        else:
            return pipeline
    sentence = f"{address}: {', '.join(failures)}"
    if loop.time() >= deadline:
        raise DeadlinePassed(sentence)
    raise Unreachable(sentence)


async def _resolve(address: Address) -> Sequence[str]:
    """Return the addresses of a host, each once, in the resolver's order."""
    for family in (socket.AF_INET, socket.AF_INET6):
        try:
            socket.inet_pton(family, address.host)
        except (OSError, ValueError):
            continue
        return (address.host,)
    found = await asyncio.get_running_loop().getaddrinfo(address.host, address.port, type=socket.SOCK_STREAM)
    # a link-local address is of no use without its scope
    return tuple(dict.fromkeys(f"{a[0]}%{a[3]}" if len(a) == 4 and a[3] else str(a[0]) for *_, a in found))


def _raise_if_final(address: Address, security: Security, error: OSError) -> None:
    """Raise what no other address of the same name would do better."""
    if isinstance(error, ssl.SSLCertVerificationError):
        advice = "set ssl.truststore.location to the authority that signed it"
        if "mismatch" in error.verify_message or "not valid for" in error.verify_message:
            advice = (
                "connect by a name that is in the certificate, or set ssl.endpoint.identification.algorithm= (empty)"
            )
        raise AuthenticationFailed(f"{address}: {cause_text(error)}; {advice}") from error
    plain = security.protocol.replace("SASL_SSL", "SASL_PLAINTEXT").replace("SSL", "PLAINTEXT")
    if isinstance(error, ssl.SSLError):
        if error.reason in _NOT_TLS:
            raise WrongListener(
                f"{address} does not speak TLS here; set security.protocol={plain}, or name the TLS listener's port"
            ) from error
        raise _tls_failure(address, error) from error
    if security.tls and isinstance(error, ConnectionResetError):
        # a plain listener takes our greeting for a frame of 352 MiB and hangs up
        raise WrongListener(
            f"{address} hung up during the TLS handshake; if this listener is not TLS, set security.protocol={plain}"
        ) from error


def _tls_failure(address: Address, error: ssl.SSLError) -> ClusterError:
    reason = error.reason or ""
    if "CERTIFICATE" in reason or "UNKNOWN_CA" in reason or "HANDSHAKE_FAILURE" in reason:
        advice = "set ssl.keystore.location to a certificate that it accepts"
        return AuthenticationFailed(f"{address} does not accept us: {cause_text(error)}; {advice}")
    return Unreachable(f"{address}: {cause_text(error)}")


_NOT_TLS: Final = frozenset({"WRONG_VERSION_NUMBER", "UNEXPECTED_EOF_WHILE_READING", "RECORD_LAYER_FAILURE"})

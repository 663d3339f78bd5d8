"""Ask a schema registry for schemas, each once, and keep them.

In: ids as records name them. Out: schemas, ready for reading; what is wrong with an id, or with the registry.
Must never: make anybody wait who did not ask to, or show a password.
"""

from __future__ import annotations

import asyncio
import json
import weakref
from typing import Annotated, Any, Final
from urllib.parse import urlsplit

import fastavro
import msgspec
from confluent_kafka.schema_registry import AsyncSchemaRegistryClient, Schema, SchemaRegistryError
from msgspec import Meta

from shareproxy.drain.deferred import NotYet
from shareproxy.drain.deserializers import RecordAtFault
from shareproxy.drain.errors import DrainError

SchemaId = int | str
"""A number of four bytes, or a GUID."""

# ids that nobody knows are asked for again then: one registry of several may be behind
UNKNOWN_SECONDS: Final = 10.0
# a registry that did not answer is asked again after these, doubled each time
FIRST_WAIT_SECONDS: Final = 0.5
LAST_WAIT_SECONDS: Final = 30.0
# limits against records that name ids at random
MOST_SCHEMAS: Final = 2_000
MOST_AT_A_TIME: Final = 4
MOST_REFERENCES: Final = 100
# the registry's own word for a subject, a version or a schema that is not there; another 404 comes from elsewhere
_NOT_THERE: Final = range(40401, 40404)
_MOST_SHOWN: Final = 200


class RegistrySettings(msgspec.Struct, frozen=True, kw_only=True):
    """The settings of a converter that asks a schema registry; their keys are those of Connect's converters."""

    url: Annotated[
        str, Meta(description="where the registry is, `https://HOST:PORT`; several with commas, the next is tried")
    ] = msgspec.field(name="schema.registry.url")
    user: Annotated[str, Meta(description="`USER:PASSWORD` for HTTP basic authentication")] = msgspec.field(
        default="", name="basic.auth.user.info"
    )
    ca: Annotated[str, Meta(description="PEM file of the CAs to trust; without it those of the package certifi")] = (
        msgspec.field(default="", name="schema.registry.ssl.truststore.location")
    )
    timeout_ms: Annotated[
        int, Meta(ge=1, le=600_000, description="how long a request may take, the references of a schema included")
    ] = msgspec.field(default=10_000, name="schema.registry.request.timeout.ms")


class ReadySchema(msgspec.Struct, frozen=True):
    """A schema that can be read with.

    Attributes:
        kind: `AVRO`, `JSON` or another.
        avro: what fastavro made of it.
    """

    kind: str
    avro: Any = None


class _Unknown(msgspec.Struct, frozen=True):
    why: str
    until: float


class SchemaRegistry:
    """A registry, asked from one event loop by any number of converters; each starts and closes it."""

    def __init__(self, settings: RegistrySettings) -> None:
        self._settings = settings
        self._seconds = settings.timeout_ms / 1000
        self._client: AsyncSchemaRegistryClient | None = None
        self._users = 0
        self._lock = asyncio.Lock()
        self._gate = asyncio.Semaphore(MOST_AT_A_TIME)
        self._found: dict[SchemaId, ReadySchema | _Unknown] = {}
        self._asking: dict[SchemaId, asyncio.Task[None]] = {}
        self._failures = 0
        self._not_before = 0.0
        self.trouble: str | None = None

    async def start(self) -> None:
        """Look whether the registry answers, the first time.

        Raises:
            DrainError: it does not, or refuses the login.
        """
        async with self._lock:
            if self._client is None:
                self._client = await self._connected()
            self._users += 1

    async def close(self) -> None:
        """Close the connections, the last time."""
        async with self._lock:
            self._users -= 1
            if self._users:
                return
            _registries.get(asyncio.get_running_loop(), {}).pop(self._settings, None)
            asking, self._asking = list(self._asking.values()), {}
            for task in asking:
                task.cancel()
            await asyncio.gather(*asking, return_exceptions=True)
            client, self._client = self._client, None
            if client is not None:
                await client.aclose()

    def schema(self, schema_id: SchemaId) -> ReadySchema:
        """Return a schema that is here.

        Raises:
            NotYet: it is being asked for.
            RecordAtFault: the registry does not have it, or it cannot be used.
        """
        found = self._found.get(schema_id)
        if isinstance(found, ReadySchema):
            return found
        now = asyncio.get_running_loop().time()
        if found is not None and now < found.until:
            raise RecordAtFault(found.why)
        if schema_id not in self._asking and now >= self._not_before and self._client is not None:
            self._asking[schema_id] = asyncio.create_task(self._ask(schema_id, self._client))
        raise NotYet(f"schema {schema_id} is being asked for")

    async def wait(self, timeout: float) -> None:
        """Return when an answer has come, the registry may be asked again, or after so many seconds."""
        if self._asking:
            await asyncio.wait(self._asking.values(), timeout=timeout, return_when=asyncio.FIRST_COMPLETED)
        else:
            pause = self._not_before - asyncio.get_running_loop().time()
            await asyncio.sleep(min(timeout, pause) if pause > 0 else timeout)

    async def _connected(self) -> AsyncSchemaRegistryClient:
        settings = self._settings
        given: dict[str, Any] = {"url": settings.url, "timeout": self._seconds, "max.retries": 0}
        if settings.user:
            given["basic.auth.user.info"] = settings.user
        if settings.ca:
            given["ssl.ca.location"] = settings.ca
        # it reads certificates, which takes a while
        try:
            client = await asyncio.to_thread(AsyncSchemaRegistryClient, given)
        except (OSError, ValueError) as error:
            raise DrainError(self._why(error)) from error
        try:
            async with asyncio.timeout(self._seconds):
                # the cheapest question that needs a login: one subject at most
                await client.get_subjects(limit=1)
        except Exception as error:
            if not _may_not_list(error):
                await client.aclose()
                raise DrainError(self._why(error)) from error
        except BaseException:
            await client.aclose()
            raise
        return client

    async def _ask(self, schema_id: SchemaId, client: AsyncSchemaRegistryClient) -> None:
        loop = asyncio.get_running_loop()
        found: ReadySchema | _Unknown
        try:
            async with self._gate:
                if loop.time() < self._not_before:
                    return  # another one has just failed
                async with asyncio.timeout(self._seconds):
                    found = await _ready(client, schema_id)
        except RecordAtFault as fault:
            found = _Unknown(str(fault), loop.time() + UNKNOWN_SECONDS)
        except Exception as error:
            if _is_not_there(error):
                found = _Unknown(
                    f"schema {schema_id}, or one that it refers to, is not in the schema registry",
                    loop.time() + UNKNOWN_SECONDS,
                )
            else:
                self.trouble = self._why(error)
                pause = min(FIRST_WAIT_SECONDS * 2**self._failures, LAST_WAIT_SECONDS)
                self._failures = min(self._failures + 1, 10)
                self._not_before = loop.time() + pause
                return
        finally:
            self._asking.pop(schema_id, None)
        self.trouble, self._failures = None, 0
        while len(self._found) >= MOST_SCHEMAS:
            del self._found[next(iter(self._found))]
        self._found[schema_id] = found

    def _why(self, error: Exception) -> str:
        name = f"schema registry {shown(self._settings.url)}"
        text = " ".join(str(error).split())[:_MOST_SHOWN]
        match error:
            case SchemaRegistryError(http_status_code=401):
                return f"{name} refuses the login; set basic.auth.user.info to USER:PASSWORD"
            case SchemaRegistryError(http_status_code=403):
                return f"{name} does not let this user read schemas; give it the right, or take another user"
            case SchemaRegistryError(http_status_code=404):
                return f"{name} does not know the path; is there more to schema.registry.url, such as /apis/ccompat/v7?"
            case SchemaRegistryError():
                return f"{name} answers with status {error.http_status_code}: {text}"
            case json.JSONDecodeError():
                return f"{name} does not answer as one; is schema.registry.url the address of something else?"
        if isinstance(error, TimeoutError) or "Timeout" in type(error).__name__:
            return f"{name} does not answer within {self._seconds:g} s"
        return f"{name} cannot be reached: {text or type(error).__name__}"


_registries: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, dict[RegistrySettings, SchemaRegistry]] = (
    weakref.WeakKeyDictionary()
)


def registry(settings: RegistrySettings) -> SchemaRegistry:
    """Return the registry with these settings: all tasks of an event loop share its schemas and connections."""
    ours = _registries.setdefault(asyncio.get_running_loop(), {})
    return ours.setdefault(settings, SchemaRegistry(settings))


def shown(urls: str) -> str:
    """Return addresses without logins."""
    parts = [urlsplit(url.strip()) for url in urls.split(",")]
    return ",".join(part._replace(netloc=part.netloc.rpartition("@")[2]).geturl() for part in parts)


async def _ready(client: AsyncSchemaRegistryClient, schema_id: SchemaId) -> ReadySchema:
    if isinstance(schema_id, int):
        schema = await client.get_schema(schema_id)
    else:
        schema = await client.get_schema_by_guid(schema_id)
    kind = schema.schema_type or "AVRO"
    if kind != "AVRO":
        return ReadySchema(kind)
    named: dict[str, Any] = {}
    await _take_references(client, schema, named, set())
    return ReadySchema(kind, _avro(schema, named))


async def _take_references(
    client: AsyncSchemaRegistryClient, schema: Schema, named: dict[str, Any], seen: set[tuple[str, int]]
) -> None:
    """Read what a schema refers to, the innermost first."""
    for reference in schema.references or ():
        place = str(reference.subject), int(reference.version or 0)
        if place in seen:
            continue
        seen.add(place)
        if len(seen) > MOST_REFERENCES:
            raise RecordAtFault(f"a schema refers to more than {MOST_REFERENCES} others")
        other = (await client.get_version(*place, deleted=True)).schema
        await _take_references(client, other, named, seen)
        _avro(other, named)


def _avro(schema: Schema, named: dict[str, Any]) -> Any:
    try:
        return fastavro.parse_schema(json.loads(schema.schema_str or ""), named_schemas=named)
    except Exception as error:  # whatever a schema may hold that nobody expects
        text = " ".join(str(error).split())[:_MOST_SHOWN]
        raise RecordAtFault(f"a schema cannot be used: {type(error).__name__}: {text}") from None


def _may_not_list(error: Exception) -> bool:
    return isinstance(error, SchemaRegistryError) and error.http_status_code == 403


def _is_not_there(error: Exception) -> bool:
    return isinstance(error, SchemaRegistryError) and error.error_code in _NOT_THERE

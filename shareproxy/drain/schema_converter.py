"""Read keys and values that were written with a schema from a registry, in Confluent's wire format.

In: bytes, and headers that may name the schema. Out: what they say.
Must never: guess a schema: without a known one the record is at fault, or waits.
"""

from __future__ import annotations

import asyncio
import io
import ssl
from collections.abc import Mapping
from typing import Any, Final, Literal
from urllib.parse import urlsplit
from uuid import UUID

import fastavro

from shareproxy.drain.deferred import DeferringConverter
from shareproxy.drain.deserializers import RecordAtFault, as_json
from shareproxy.drain.model import Headers
from shareproxy.drain.schema_registry import RegistrySettings, SchemaId, SchemaRegistry, registry
from shareproxy.drain.sinks.settings import SettingsError, read_settings

# newer clients write the schema's GUID, or its number, into a header, and nothing in front of the data
KEY_HEADER: Final = "__key_schema_id"
VALUE_HEADER: Final = "__value_schema_id"
_NUMBER: Final = 0
_GUID: Final = 1
_NUMBER_SIZE: Final = 5
_GUID_SIZE: Final = 17


class SchemaConverter(DeferringConverter):
    """A converter that asks a schema registry.

    Args:
        kind: of schemas that it reads.
        settings: the converter's, as `sink.toml` has them.

    Raises:
        SettingsError: names the key and what to write.
    """

    def __init__(self, kind: Literal["AVRO", "JSON"], settings: Mapping[str, Any]) -> None:
        self._kind, self._settings = kind, _settings(settings)
        self._registry: SchemaRegistry | None = None

    async def start(self) -> None:
        """Look whether the registry answers.

        Raises:
            DrainError: it does not, or refuses the login.
        """
        found = registry(self._settings)
        await found.start()
        self._registry = found

    def read(self, data: bytes, headers: Headers, *, key: bool) -> Any:
        """Return what the bytes say.

        Raises:
            NotYet: the schema is being asked for.
            RecordAtFault: the bytes name no schema, or one that there is not, or do not fit it.
            CannotDeserialize: they are not JSON.
        """
        assert self._registry is not None, "start comes first"
        schema_id, at = _schema_id(data, headers, KEY_HEADER if key else VALUE_HEADER)
        schema = self._registry.schema(schema_id)
        if schema.kind != self._kind:
            raise RecordAtFault(f"schema {schema_id} is of type {schema.kind}, not {self._kind}")
        if self._kind == "JSON":
            return as_json(data[at:])
        try:
            return fastavro.schemaless_reader(io.BytesIO(data[at:]), schema.avro, None)
        except Exception as error:  # fastavro raises whatever it meets
            raise RecordAtFault(f"it does not fit schema {schema_id}: {type(error).__name__}") from None

    async def wait(self, timeout: float) -> None:
        """Return when an answer of the registry has come, or after so many seconds."""
        if self._registry is None:
            await asyncio.sleep(timeout)
        else:
            await self._registry.wait(timeout)

    @property
    def trouble(self) -> str | None:
        """Why the registry does not answer, in a sentence; `None` if all is well."""
        return None if self._registry is None else self._registry.trouble

    async def close(self) -> None:
        """Let go of the registry; may be called twice, or before `start`."""
        found, self._registry = self._registry, None
        if found is not None:
            await found.close()


def _schema_id(data: bytes, headers: Headers, header: str) -> tuple[SchemaId, int]:
    """Return a schema's id, and where in the bytes the data begins."""
    for name, value in reversed(headers):
        if name == header:
            found = _id_of(value or b"")
            if found is None or found[1] != len(value or b""):
                raise RecordAtFault(f"header {header} is no schema id of 5 or 17 bytes")
            return found[0], 0
    found = _id_of(data)
    if found is None or isinstance(found[0], str):
        raise RecordAtFault(
            f"it does not begin with 0 and a schema id of four bytes, and has no header {header}; was it written with "
            "a schema registry?"
        )
    return found


def _id_of(data: bytes) -> tuple[SchemaId, int] | None:
    if len(data) >= _NUMBER_SIZE and data[0] == _NUMBER:
        return int.from_bytes(data[1:_NUMBER_SIZE], "big"), _NUMBER_SIZE
    if len(data) >= _GUID_SIZE and data[0] == _GUID:
        return str(UUID(bytes=data[1:_GUID_SIZE])), _GUID_SIZE
    return None


def _settings(given: Mapping[str, Any]) -> RegistrySettings:
    settings = read_settings(RegistrySettings, given)
    for url in settings.url.split(","):
        try:
            parts = urlsplit(url.strip())
            known = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
        except ValueError:
            known = False
        if not known:
            raise SettingsError("schema.registry.url: must be an address such as https://HOST:PORT")
        if settings.user and parts.username:
            raise SettingsError("basic.auth.user.info: leave it out, or the login in schema.registry.url")
    if settings.user and ":" not in settings.user:
        raise SettingsError("basic.auth.user.info: must be USER:PASSWORD")
    if settings.ca:
        try:
            ssl.create_default_context(cafile=settings.ca)
        except OSError as error:  # of which SSLError is one
            why = "it is not PEM" if isinstance(error, ssl.SSLError) else error.strerror
            raise SettingsError(
                f"schema.registry.ssl.truststore.location: {settings.ca!r} cannot be read: {why}; name a PEM file"
            ) from None
    return settings

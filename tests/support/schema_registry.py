"""A schema registry for tests: the documented routes, and faults when a test wants them."""

from __future__ import annotations

import asyncio
import base64
import json
import uuid
from typing import Any, Self

from aiohttp import web

AVRO = "AVRO"
JSON = "JSON"


class RegistryService:
    """A server on 127.0.0.1; use it as a context manager.

    Attributes:
        requests: paths that were asked for, in order.
        login: user and password that are wanted; `None` for none.
        fault: status and text that everything is answered with.
        silent: whether nothing is answered at all.
    """

    def __init__(self) -> None:
        self.requests: list[str] = []
        self.login: tuple[str, str] | None = None
        self.fault: tuple[int, str] | None = None
        self.silent = False
        self.port = 0
        self._schemas: dict[int, dict[str, Any]] = {}
        self._subjects: dict[str, list[int]] = {}
        self._runner: web.AppRunner | None = None

    @property
    def url(self) -> str:
        """Where it is."""
        return f"http://127.0.0.1:{self.port}"

    def register(
        self,
        schema: Any,
        kind: str = AVRO,
        *,
        subject: str = "orders-value",
        references: tuple[tuple[str, str], ...] = (),
    ) -> int:
        """Add a schema and return its id.

        Args:
            schema: as Python has it, or a text.
            kind: its type.
            subject: under which it is; each is a new version.
            references: names and subjects that it refers to, in their first version.
        """
        number = len(self._schemas) + 1
        self._schemas[number] = {
            "schema": schema if isinstance(schema, str) else json.dumps(schema),
            "schemaType": kind,
            "guid": str(uuid.uuid5(uuid.NAMESPACE_OID, str(number))),
            "references": [{"name": name, "subject": of, "version": 1} for name, of in references],
        }
        self._subjects.setdefault(subject, []).append(number)
        return number

    def guid(self, number: int) -> uuid.UUID:
        """Return the GUID of a schema."""
        return uuid.UUID(self._schemas[number]["guid"])

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.stop()

    async def start(self, port: int = 0) -> None:
        """Listen."""
        application = web.Application()
        application.router.add_route("*", "/{path:.*}", self._handle)
        self._runner = web.AppRunner(application, shutdown_timeout=0.1)
        await self._runner.setup()
        await web.TCPSite(self._runner, "127.0.0.1", port).start()
        self.port = self._runner.addresses[0][1]

    async def stop(self) -> None:
        """End; `start` with the same port brings it back."""
        runner, self._runner = self._runner, None
        if runner is not None:
            await runner.cleanup()

    async def _handle(self, request: web.Request) -> web.Response:
        self.requests.append(request.path)
        if self.silent:
            await asyncio.Event().wait()
        wanted = None if self.login is None else base64.b64encode(":".join(self.login).encode()).decode()
        if wanted is not None and request.headers.get("Authorization") != f"Basic {wanted}":
            return _error(401, 40101, "Unauthorized")
        if self.fault is not None:
            return web.Response(status=self.fault[0], text=self.fault[1])
        match request.path.strip("/").split("/"):
            case ["subjects"]:
                return web.json_response(list(self._subjects))
            case ["schemas", "ids", number] if int(number) in self._schemas:
                return web.json_response(self._schemas[int(number)])
            case ["schemas", "guids", guid]:
                for known, schema in self._schemas.items():
                    if schema["guid"] == guid:
                        return web.json_response({"id": known, **schema})
                return _error(404, 40403, "Schema not found")
            case ["schemas", "ids", _]:
                return _error(404, 40403, "Schema not found")
            case ["subjects", subject, "versions", version] if subject in self._subjects:
                found = self._subjects[subject][int(version) - 1]
                return web.json_response(
                    {"subject": subject, "version": int(version), "id": found, **self._schemas[found]}
                )
            case ["subjects", _, "versions", _]:
                return _error(404, 40401, "Subject not found")
            case ["subjects", subject, "versions"]:
                body = await request.json()
                new = self.register(body["schema"], body.get("schemaType", AVRO), subject=subject)
                return web.json_response({"id": new, "guid": str(self.guid(new))})
        return web.Response(status=404, text="no such page")


def _error(status: int, code: int, message: str) -> web.Response:
    return web.json_response({"error_code": code, "message": message}, status=status)

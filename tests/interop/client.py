"""A folder with a client.json comes in; its operations, run where the cluster wants them run, go out.

Must never hand a client anything but what the operation says.
"""

from __future__ import annotations

import asyncio
import importlib.metadata
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from shareproxy.testing.kafka_jars import cache_dir, locked
from tests.interop.program import Skipped
from tests.interop.sealed import Ran, Surroundings, run_free, run_sealed

ROOT = Path(__file__).parent.parent.parent
FOLDERS = Path(__file__).with_name("clients")
MECHANISM = "SCRAM-SHA-256"
PREPARE_SECONDS = 900.0
OPERATION_SECONDS = 150.0
MESSAGE_LENGTH = 200  # characters of a failure that are worth a line


class ClientFailed(Exception):  # noqa: N818 - says what failed
    """An operation ended badly; the text says how."""


@dataclass(frozen=True)
class Client:
    """One client of the table.

    Attributes:
        folder: its folder's name, by which it is chosen.
        name: library and version.
        prepare: commands that build it.
        run: command that runs an operation.
        needs: programs that must be there.
        extra: operations that only some clients have.
        lacks: kinds of records that it cannot carry, in the words of the cases.
        mechanism: with which it logs in.
    """

    folder: str
    name: str
    prepare: tuple[tuple[str, ...], ...]
    run: tuple[str, ...]
    needs: tuple[str, ...]
    extra: tuple[str, ...]
    lacks: tuple[str, ...]
    mechanism: str

    @property
    def here(self) -> Path:
        """Its folder."""
        return FOLDERS / self.folder

    @property
    def cache(self) -> Path:
        """Where its build is kept."""
        return cache_dir() / "interop" / self.folder

    def make_ready(self) -> str:
        """Build it, and return why it cannot be run; empty if it can."""
        for tool in self.needs:
            if shutil.which(tool) is None:
                return f"`{tool}` is not installed"
        with locked(self.cache):
            self.cache.mkdir(parents=True, exist_ok=True)
            for command in self.prepare:
                try:
                    done = subprocess.run(
                        command, cwd=self.cache, env=_environment(), capture_output=True, timeout=PREPARE_SECONDS
                    )
                except (OSError, subprocess.TimeoutExpired) as error:
                    return f"could not be built: {error}"
                if done.returncode != 0:
                    return f"could not be built: {_last_line(done.stderr.decode(errors='replace'))}"
        return ""

    async def ask(self, operation: str, arguments: Mapping[str, Any], around: Surroundings | None) -> dict[str, Any]:
        """Run an operation and return its answer.

        Args:
            operation: its name.
            arguments: its arguments.
            around: what the client may reach; None for everything.

        Raises:
            ClientFailed: it ended badly, or reached for an address that it may not know.
            Skipped: the library cannot do it.
        """
        ran = await self._ran(operation, json.dumps(arguments).encode(), around)
        if ran.strayed:
            strayed = ", ".join(f"{host}:{port}" for host, port in sorted(ran.strayed))
            raise ClientFailed(f"{operation}: connected outside the proxy's ports, to {strayed}")
        if ran.code is None:
            raise ClientFailed(f"{operation}: took longer than {OPERATION_SECONDS:.0f} s: {_last_line(ran.errors)}")
        if ran.code != 0:
            raise ClientFailed(f"{operation}: {_last_line(ran.errors) or f'exit code {ran.code}'}")
        try:
            answer: dict[str, Any] = json.loads(ran.output)
        except ValueError:
            raise ClientFailed(f"{operation}: no JSON: {ran.output[:MESSAGE_LENGTH]!r}") from None
        if "skipped" in answer:
            raise Skipped(str(answer["skipped"]))
        return answer

    async def _ran(self, operation: str, stdin: bytes, around: Surroundings | None) -> Ran:
        command, env = [*self.run, operation], _environment()
        if around is None:
            return await run_free(command, stdin=stdin, timeout=OPERATION_SECONDS, cwd=self.here, env=env)
        return await run_sealed(command, around, stdin=stdin, timeout=OPERATION_SECONDS, cwd=self.here, env=env)


def clients(chosen: Sequence[str] = ()) -> list[Client]:
    """Return the clients, in the order of their folders' names; only the chosen ones, if any."""
    return [_read(path) for path in sorted(FOLDERS.glob("*/client.json")) if not chosen or path.parent.name in chosen]


async def made_ready(found: Sequence[Client]) -> dict[str, str]:
    """Build the clients, and return why some cannot be run, by folder."""
    reasons = [await asyncio.to_thread(client.make_ready) for client in found]
    return {client.folder: why for client, why in zip(found, reasons, strict=True) if why}


def _read(path: Path) -> Client:
    data = json.loads(path.read_text(encoding="utf-8"))
    folder = path.parent.name
    places = {"here": str(path.parent), "cache": str(cache_dir() / "interop" / folder), "python": sys.executable}

    def filled(command: Sequence[str]) -> tuple[str, ...]:
        return tuple(re.sub(r"\{(here|cache|python)\}", lambda found: places[found[1]], part) for part in command)

    prepare = data["prepare"] or []
    if prepare and isinstance(prepare[0], str):
        prepare = [prepare]
    name = re.sub(r"\{([\w-]+)\}", lambda found: importlib.metadata.version(found[1]), data["name"])
    return Client(
        folder,
        name,
        tuple(filled(command) for command in prepare),
        filled(data["run"]),
        tuple(data.get("needs", ())),
        tuple(data.get("extra", ())),
        tuple(data.get("lacks", ())),
        data.get("mechanism", MECHANISM),
    )


def _environment() -> dict[str, str]:
    return os.environ | {"PYTHONPATH": str(ROOT), "PYTHONWARNINGS": "ignore"}


def _last_line(text: str) -> str:
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return lines[-1][:MESSAGE_LENGTH] if lines else ""

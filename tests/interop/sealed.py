"""A command comes in; what it printed, and every address it tried that it may not know, goes out.

The command runs in a network namespace of its own. The ports it may use are passed on to the proxy; the brokers'
addresses are traps. Where namespaces are not allowed, the command's sockets are looked at while it runs instead.
Must never report a command as clean that reached another address.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.interop.sockets import remote_addresses

Address = tuple[str, int]

INSIDE = Path(__file__).with_name("inside.py")
CHUNK = 256 * 1024  # bytes
HAND_OVER_SECONDS = 20.0
LOOK_SECONDS = 0.02
# SCM_MAX_FD of the kernel: more descriptors do not fit into one message
MAX_PORTS = 253


@dataclass(frozen=True)
class Ran:
    """What became of a command.

    Attributes:
        code: exit code; None if it took too long and was ended.
        output: its stdout.
        errors: its stderr.
        strayed: addresses that it connected to, or tried to, and may not know.
    """

    code: int | None
    output: bytes
    errors: str
    strayed: frozenset[Address] = frozenset()


@dataclass(frozen=True)
class Surroundings:
    """The network of a command.

    Attributes:
        ports: address that the command may use → address that it leads to outside.
        traps: addresses that the command must not know.
    """

    ports: Mapping[Address, Address]
    traps: Sequence[Address] = ()


@functools.cache
def namespace_command() -> tuple[str, ...]:
    """Return the command that makes a network namespace on this machine; empty where that is not allowed."""
    for way in (("unshare", "--net"), ("unshare", "--user", "--map-root-user", "--net")):
        with contextlib.suppress(OSError):
            if subprocess.run([*way, "true"], capture_output=True, check=False).returncode == 0:
                return way
    return ()


async def run_sealed(
    command: Sequence[str],
    around: Surroundings,
    *,
    stdin: bytes,
    timeout: float,
    cwd: Path | None = None,
    env: Mapping[str, str] | None = None,
) -> Ran:
    """Run a command that reaches nothing but its surroundings.

    Args:
        command: program and arguments.
        around: its network.
        stdin: what it reads.
        timeout: seconds, after which it is ended with all its children.
        cwd: its directory.
        env: its environment, None for this process's.
    """
    way = await asyncio.to_thread(namespace_command)
    listen = [*around.ports, *around.traps]
    assert len(listen) <= MAX_PORTS, "too many ports for one namespace"
    if not way:
        return await _run_watched(command, around, stdin=stdin, timeout=timeout, cwd=cwd, env=env)
    ours, theirs = socket.socketpair()
    with ours:
        with theirs:
            inside = [*way, sys.executable, "-I", "-S", str(INSIDE), str(theirs.fileno()), json.dumps(listen)]
            process = await _start([*inside, *command], (theirs.fileno(),), cwd, env)
        async with _talking(process, stdin, timeout) as talk:
            try:
                listening = await asyncio.to_thread(_receive, ours, len(listen))
            except OSError:
                return await talk  # it ended before it could listen, and its stderr says why
            async with _serving(listening, around) as strayed:
                ran = await talk
                return Ran(ran.code, ran.output, ran.errors, frozenset(strayed))


async def run_free(
    command: Sequence[str], *, stdin: bytes, timeout: float, cwd: Path | None = None, env: Mapping[str, str] | None
) -> Ran:
    """Run a command in this machine's own network; arguments as for `run_sealed`."""
    return await _talk(await _start(command, (), cwd, env), stdin, timeout)


async def _start(
    command: Sequence[str], keep: tuple[int, ...], cwd: Path | None, env: Mapping[str, str] | None
) -> asyncio.subprocess.Process:
    pipe = asyncio.subprocess.PIPE
    return await asyncio.create_subprocess_exec(
        *command, stdin=pipe, stdout=pipe, stderr=pipe, pass_fds=keep, cwd=cwd, env=env, start_new_session=True
    )


@contextlib.asynccontextmanager
async def _talking(
    process: asyncio.subprocess.Process, stdin: bytes, timeout: float
) -> AsyncIterator[asyncio.Task[Ran]]:
    """Talk with a process, which does not outlive the block."""
    talk = asyncio.create_task(_talk(process, stdin, timeout))
    try:
        yield talk
    finally:
        talk.cancel()
        await asyncio.gather(talk, return_exceptions=True)


async def _talk(process: asyncio.subprocess.Process, stdin: bytes, timeout: float) -> Ran:
    talk = asyncio.create_task(process.communicate(stdin))
    try:
        done, _ = await asyncio.wait([talk], timeout=timeout)
    except asyncio.CancelledError:
        _kill(process)
        await asyncio.gather(talk, return_exceptions=True)
        raise
    _kill(process)  # children that hold the pipes, or a program that takes too long
    output, errors = await talk
    code = process.returncode if done else None
    return Ran(code, output, errors.decode(errors="replace"))


def _kill(process: asyncio.subprocess.Process) -> None:
    """End a process and all its children."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)


def _receive(channel: socket.socket, count: int) -> list[socket.socket]:
    channel.settimeout(HAND_OVER_SECONDS)
    _, descriptors, _, _ = socket.recv_fds(channel, 1, count)
    if len(descriptors) != count:
        raise OSError("the command handed over no sockets")
    return [socket.socket(fileno=descriptor) for descriptor in descriptors]


# -- passing on ------------------------------------------------------------------------------------------------------


@contextlib.asynccontextmanager
async def _serving(listening: Sequence[socket.socket], around: Surroundings) -> AsyncIterator[set[Address]]:
    """Serve sockets in the order of ports and traps; the set gets the traps that were stepped in."""
    strayed: set[Address] = set()
    open_now: set[asyncio.Task[None]] = set()

    def serve(target: Address) -> functools.partial[None]:
        return functools.partial(_begin, target, open_now)

    def trap(address: Address) -> functools.partial[None]:
        return functools.partial(_step_in, address, strayed)

    answers = [*map(serve, around.ports.values()), *map(trap, around.traps)]
    servers = [await asyncio.start_server(run, sock=sock) for run, sock in zip(answers, listening, strict=True)]
    try:
        yield strayed
    finally:
        for server in servers:
            server.close()
        for task in open_now:
            task.cancel()
        await asyncio.gather(*open_now, return_exceptions=True)


def _step_in(
    address: Address, strayed: set[Address], reader: asyncio.StreamReader, writer: asyncio.StreamWriter
) -> None:
    del reader
    strayed.add(address)
    writer.transport.abort()


def _begin(
    target: Address,
    open_now: set[asyncio.Task[None]],
    reader: asyncio.StreamReader,
    writer: asyncio.StreamWriter,
) -> None:
    task = asyncio.create_task(_pass_on(target, reader, writer))
    open_now.add(task)
    task.add_done_callback(open_now.discard)


async def _pass_on(target: Address, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with contextlib.closing(writer), contextlib.suppress(OSError):
        their_reader, their_writer = await asyncio.open_connection(*target)
        with contextlib.closing(their_writer):
            await asyncio.gather(_pump(reader, their_writer), _pump(their_reader, writer))


async def _pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    # an end is passed on as an end: what a client wrote before it left must still arrive
    while data := await reader.read(CHUNK):
        writer.write(data)
        await writer.drain()
    writer.write_eof()


# -- without namespaces ----------------------------------------------------------------------------------------------


async def _run_watched(
    command: Sequence[str],
    around: Surroundings,
    *,
    stdin: bytes,
    timeout: float,
    cwd: Path | None,
    env: Mapping[str, str] | None,
) -> Ran:
    listening = [socket.create_server(address) for address in around.ports]
    async with _serving(listening, Surroundings(around.ports)):
        process = await _start(command, (), cwd, env)
        seen: set[Address] = set()
        async with _talking(process, stdin, timeout) as talk:
            while not talk.done():
                seen |= await asyncio.to_thread(remote_addresses, process.pid)
                await asyncio.wait([talk], timeout=LOOK_SECONDS)
            ran = await talk
        return Ran(ran.code, ran.output, ran.errors, frozenset(seen - set(around.ports)))

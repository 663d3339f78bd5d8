"""kcat: many runs of one program, as a person at a terminal would start them."""

from __future__ import annotations

import contextlib
import itertools
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import IO, Any

from tests.interop.program import MAX_MESSAGE_BYTES, Arguments, Record, Skipped, answer, main, records

PATIENCE_SECONDS = 60
AT_A_TIME = 3
# not in any key or value of the cases
RECORD_END, KEY_END = b"<record|", b"<key|"
# kcat reads its input in blocks, so what comes before this is read whole; with no end to it, it is not a record
UNFINISHED = b"x" * 65_536
# then key and value, which may hold anything: their lengths come first
FORMAT = r"%p %o %K %S %h\n%k%s\n"
ASSIGNED = re.compile(rb"rebalanced \(memberid [^)]*\): (assigned|revoked): (.*)")

_home = Path()


def produce(arguments: Arguments) -> dict[str, Any]:
    """Send records and wait until each is acknowledged."""
    settings = {"acks": arguments["acks"], "compression.codec": arguments["codec"]}
    return {"sent": _send(arguments, settings, records(arguments["records"]))}


def consume(arguments: Arguments) -> dict[str, Any]:
    """Read with a group."""
    return answer(_read(arguments, {}))


def transactions(arguments: Arguments) -> dict[str, Any]:
    """Abort a transaction by an interrupt and commit one by the end of its input, in each partition."""
    aborted, committed = records(arguments["aborted"]), records(arguments["committed"])
    for partition in sorted({record.partition for record in (*aborted, *committed)}):
        settings = {"transactional.id": f"{arguments['transactional_id']}-{partition}"}
        command = ["-P", "-t", arguments["topic"], "-p", str(partition), *_keyed()]
        dropped = [record for record in aborted if record.partition == partition]
        with _running(command, arguments, settings, stdin=subprocess.PIPE, stderr=subprocess.DEVNULL) as kcat:
            assert kcat.stdin
            kcat.stdin.write(_lines(dropped) + UNFINISHED)
            kcat.stdin.flush()
            _read_uncommitted(arguments, partition, len(dropped))
            kcat.send_signal(signal.SIGINT)
            kcat.stdin.close()  # it goes on reading after the signal
            kcat.wait(PATIENCE_SECONDS)
        _run(command, arguments, settings, stdin=_lines([row for row in committed if row.partition == partition]))
    return {"committed": len(committed)}


def rebalance(arguments: Arguments) -> dict[str, Any]:
    """Share the partitions between two members, and let one go."""
    _classic(arguments)
    everything = list(range(arguments["partitions"]))
    command = ["-G", arguments["group"], arguments["topic"]]
    settings = {"heartbeat.interval.ms": "500"}
    with (
        _running(command, arguments, settings, stderr=subprocess.PIPE) as first,
        _running(command, arguments, settings, stderr=subprocess.PIPE) as second,
        ThreadPoolExecutor(2) as readers,
    ):
        held: list[list[int]] = [[], []]
        done = [readers.submit(_follow, kcat.stderr, held, place) for place, kcat in enumerate((first, second))]
        try:
            both = lambda: bool(held[0] and held[1] and sorted(held[0] + held[1]) == everything)  # noqa: E731
            _until(both, f"both have partitions: {held}", first)
            shared = held[0], held[1]
            second.send_signal(signal.SIGINT)
            second.wait(PATIENCE_SECONDS)
            _until(lambda: held[0] == everything, f"the first takes over: {held}", first)
            return {"first": shared[0], "second": shared[1], "after": held[0]}
        finally:
            for kcat in (first, second):
                kcat.kill()
            for reader in done:
                reader.result()


def share(arguments: Arguments) -> dict[str, Any]:
    """Say that there is no such consumer."""
    raise Skipped("kcat has no share consumer")


def admin(arguments: Arguments) -> dict[str, Any]:
    """Say that there is no such thing."""
    raise Skipped("kcat cannot create topics")


def roundtrip_sasl_tls(arguments: Arguments) -> dict[str, Any]:
    """Produce and consume over TLS with a login."""
    login = {
        "security.protocol": "SASL_SSL",
        "ssl.ca.location": arguments["ca_file"],
        "sasl.mechanism": arguments["mechanism"],
        "sasl.username": arguments["user"],
        "sasl.password": arguments["password"],
    }
    wanted = records(arguments["records"])
    _send(arguments, login, wanted)
    return answer(_read({**arguments, "count": len(wanted)}, login))


# -- producing -------------------------------------------------------------------------------------------------------


def _send(arguments: Arguments, settings: dict[str, str], wanted: Sequence[Record]) -> int:
    """Send the partitions side by side, and the records of each in their order."""

    def send_partition(partition: int) -> None:
        rows = [record for record in wanted if record.partition == partition]
        # headers and how keys and nulls are written are options of a whole run
        for (headers, keyed, null), run in itertools.groupby(rows, _manner):
            command = ["-P", "-t", arguments["topic"], "-p", str(partition), *_keyed(keyed)]
            command += ["-Z"] if null else []
            for name, value in headers:
                command += ["-H", name if value is None else f"{name}={os.fsdecode(value)}"]
            with tempfile.NamedTemporaryFile() as file:
                file.write(_lines(list(run), keyed=keyed))
                file.flush()
                _run([*command, "-l", file.name], arguments, settings)

    with ThreadPoolExecutor(AT_A_TIME) as pool:
        list(pool.map(send_partition, sorted({record.partition for record in wanted})))
    return len(wanted)


def _manner(record: Record) -> tuple[tuple[tuple[str, bytes | None], ...], bool, bool]:
    null = record.value is None
    return record.headers, null or record.key is not None, null


def _keyed(keyed: bool = True) -> list[str]:
    key = ["-K", KEY_END.decode()] if keyed else []
    return ["-D", RECORD_END.decode(), *key]


def _lines(rows: Sequence[Record], *, keyed: bool = True) -> bytes:
    parts = []
    for record in rows:
        parts += [record.key or b"", KEY_END] if keyed else []
        parts += [record.value or b"", RECORD_END]
    return b"".join(parts)


def _read_uncommitted(arguments: Arguments, partition: int, count: int) -> None:
    """Return when so many records can be read, which ends the wait for an open transaction to be at the broker."""
    command = ["-C", "-t", arguments["topic"], "-p", str(partition), "-o", "beginning", "-c", str(count)]
    _run(command, arguments, {"isolation.level": "read_uncommitted"})


# -- consuming -------------------------------------------------------------------------------------------------------


def _read(arguments: Arguments, settings: dict[str, str]) -> list[Record]:
    _classic(arguments)
    settings = settings | {"isolation.level": arguments.get("isolation", "read_uncommitted")}
    command = ["-G", arguments["group"], arguments["topic"], "-c", str(arguments["count"]), "-u", "-f", FORMAT]
    with tempfile.TemporaryFile() as output, _running(command, arguments, settings, stdout=output) as kcat:
        with contextlib.suppress(subprocess.TimeoutExpired):
            kcat.wait(arguments.get("timeout_s", PATIENCE_SECONDS))
        kcat.send_signal(signal.SIGINT)
        kcat.wait(PATIENCE_SECONDS)
        output.seek(0)
        return list(_parsed(output.read()))


def _classic(arguments: Arguments) -> None:
    if arguments.get("protocol", "classic") != "classic":
        raise Skipped("its librdkafka has no KIP-848 consumer")


def _parsed(output: bytes) -> Iterator[Record]:
    at = 0
    while at < len(output):
        end = output.index(b"\n", at)
        partition, offset, key_length, length, headers = output[at:end].split(b" ", 4)
        key, at = _taken(output, end + 1, int(key_length))
        value, at = _taken(output, at, int(length))
        assert output[at : at + 1] == b"\n", f"not as expected: {output[at : at + 40]!r}"
        at += 1
        yield Record(int(partition), key, value, tuple(_headers(headers)), int(offset))


def _taken(output: bytes, at: int, length: int) -> tuple[bytes | None, int]:
    return (None, at) if length < 0 else (output[at : at + length], at + length)


def _headers(text: bytes) -> Iterator[tuple[str, bytes | None]]:
    for part in text.split(b",") if text else ():
        name, _, value = part.partition(b"=")
        yield name.decode(), None if value == b"NULL" else value


def _follow(stderr: IO[bytes] | None, held: list[list[int]], place: int) -> None:
    assert stderr
    for line in stderr:
        if found := ASSIGNED.search(line):
            partitions = sorted(int(number) for number in re.findall(rb"\[(\d+)\]", found[2]))
            held[place] = partitions if found[1] == b"assigned" else []


# -- the program -----------------------------------------------------------------------------------------------------


def _command(arguments: Arguments, settings: dict[str, str]) -> list[str]:
    everywhere = {"auto.offset.reset": "earliest", "message.max.bytes": str(MAX_MESSAGE_BYTES)}
    command = [str(_home / "usr/bin/kcat"), "-b", arguments["bootstrap"], "-m", str(PATIENCE_SECONDS)]
    return command + [part for name, value in (everywhere | settings).items() for part in ("-X", f"{name}={value}")]


def _environment() -> dict[str, str]:
    (libraries,) = {file.parent for file in _home.glob("usr/lib/*/librdkafka.so.1")}
    return os.environ | {"LD_LIBRARY_PATH": str(libraries)}


def _run(command: Sequence[str], arguments: Arguments, settings: dict[str, str], *, stdin: bytes = b"") -> bytes:
    whole = [*_command(arguments, settings), *command]
    done = subprocess.run(whole, input=stdin, env=_environment(), capture_output=True, timeout=2 * PATIENCE_SECONDS)
    assert done.returncode == 0, done.stderr.decode(errors="replace").strip()
    return done.stdout


@contextlib.contextmanager
def _running(
    command: Sequence[str],
    arguments: Arguments,
    settings: dict[str, str],
    *,
    stdin: int = subprocess.DEVNULL,
    stdout: IO[bytes] | int = subprocess.DEVNULL,
    stderr: int | None = None,
) -> Iterator[subprocess.Popen[bytes]]:
    whole = [*_command(arguments, settings), *command]
    with subprocess.Popen(whole, stdin=stdin, stdout=stdout, stderr=stderr, env=_environment()) as kcat:
        try:
            yield kcat
        finally:
            kcat.kill()


def _until(condition: Callable[[], bool], what: str, kcat: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not condition():
        assert kcat.poll() is None, f"kcat ended with exit code {kcat.returncode} before {what}"
        assert time.monotonic() < deadline, f"it did not come about that {what}"
        time.sleep(0.05)


if __name__ == "__main__":
    _home = Path(sys.argv.pop(1))
    main(
        {
            "produce": produce,
            "consume": consume,
            "transactions": transactions,
            "rebalance": rebalance,
            "share": share,
            "admin": admin,
            "roundtrip_sasl_tls": roundtrip_sasl_tls,
        }
    )

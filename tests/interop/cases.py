"""A client and a cluster come in; a case that passes, or the reason why not, goes out.

Must never take a client's word for what it did where the cluster can be asked.
"""

from __future__ import annotations

import asyncio
import dataclasses
import itertools
import random
import struct
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any

from tests.interop.client import MECHANISM, Client, ClientFailed
from tests.interop.clusters import PASSWORD, USER, Fronted
from tests.interop.leaders import Leaders
from tests.interop.program import Record, records

PARTITIONS = 6
READ_SECONDS = 60
CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
_BATCH_ATTRIBUTES = struct.Struct(">21xh")
_numbers = itertools.count(1)


class Run:
    """One client on one cluster.

    Args:
        client: the client.
        cluster: the cluster.
    """

    def __init__(self, client: Client, cluster: Fronted) -> None:
        self.client, self.cluster = client, cluster

    async def topic(self) -> str:
        """Create a topic of its own."""
        return await asyncio.to_thread(self.cluster.new_topic, PARTITIONS)

    async def ask(self, operation: str, **arguments: Any) -> dict[str, Any]:
        """Run an operation at the port in plain text."""
        return await self.client.ask(operation, {"bootstrap": self.cluster.bootstrap, **arguments}, self.cluster.around)

    async def produce(self, topic: str, wanted: Sequence[Record], acks: str = "all", codec: str = "none") -> None:
        """Let the client send records."""
        rows = [record.to_dict() for record in wanted]
        answer = await self.ask("produce", topic=topic, acks=acks, codec=codec, records=rows)
        require(answer["sent"] == len(wanted), f"sent {answer['sent']} of {len(wanted)} records")

    async def consume(
        self,
        topic: str,
        count: int,
        *,
        isolation: str = "read_uncommitted",
        protocol: str = "classic",
        timeout_s: int = READ_SECONDS,
        group: str = "",
    ) -> list[Record]:
        """Let the client read with a group, a new one if none is named."""
        how = {"isolation": isolation, "protocol": protocol, "timeout_s": timeout_s}
        answer = await self.ask("consume", topic=topic, group=group or new_group(), count=count, **how)
        return records(answer["records"])

    async def round_trip(self, wanted: Sequence[Record], acks: str = "all", codec: str = "none") -> str:
        """Send and read, compare, and return the topic."""
        topic = await self.topic()
        await self.produce(topic, wanted, acks, codec)
        same_records(wanted, await self.consume(topic, len(wanted)))
        return topic


BINARY_KEY, BINARY_VALUE, BINARY_HEADER = b"\xff\x00\xfe", bytes(range(256)), b"\xff\xfe\x80"

# returns what was left out, as a note for the table
Case = Callable[[Run], Awaitable[str | None]]

# what a client may lack, by the words of client.json
SORTS: dict[str, Callable[[Record], bool]] = {
    "null keys": lambda record: record.key is None,
    "empty keys": lambda record: record.key == b"",
    "binary keys": lambda record: record.key == BINARY_KEY,
    "null values": lambda record: record.value is None,
    "empty values": lambda record: record.value == b"",
    "binary values": lambda record: record.value == BINARY_VALUE,
    "null keys with null values": lambda record: record.key is None and record.value is None,
    "null keys with empty values": lambda record: record.key is None and record.value == b"",
    "empty keys with null values": lambda record: record.key == b"" and record.value is None,
    "null header values": lambda record: record.headers == (("null", None),),
    "empty header values": lambda record: record.headers == (("empty", b""),),
    "binary header values": lambda record: record.headers == (("bytes", BINARY_HEADER),),
    "repeated headers": lambda record: len(record.headers) > 1,
}


def new_group() -> str:
    """Return a name that no other group has."""
    return f"group-{next(_numbers)}"


# -- cases -----------------------------------------------------------------------------------------------------------


async def contents(run: Run) -> str:
    """Keys, values and headers of every sort arrive as they were sent, in order."""
    await run.round_trip(records_of_every_sort(run.client.lacks))
    return f"without {', '.join(run.client.lacks)}" if run.client.lacks else ""


def codec(name: str) -> Case:
    """Return the case of a codec: the batches at the broker are compressed with it."""

    async def case(run: Run) -> None:
        wanted = [plain_record(number, b"compressible " * 20) for number in range(200)]
        topic = await run.round_trip(wanted, codec=name)
        found = await asyncio.to_thread(codecs_of, run.cluster, topic)
        require(found == {name}, f"the broker's batches are {', '.join(sorted(found))}")

    return case


async def large_records(run: Run) -> None:
    """Records of 900 KB, of bytes that no codec makes smaller."""
    source = random.Random(5)
    await run.round_trip([plain_record(number, source.randbytes(900_000)) for number in range(12)])


def acks(value: str) -> Case:
    """Return the case of one kind of acknowledgement."""

    async def case(run: Run) -> None:
        await run.round_trip([plain_record(number, b"acks") for number in range(500)], acks=value)

    return case


async def transactions(run: Run) -> None:
    """A committed reader sees the committed transaction only, any other reader sees both."""
    topic, name = await run.topic(), f"transaction-{next(_numbers)}"
    committed = [plain_record(number, b"committed") for number in range(60)]
    aborted = [plain_record(number, b"aborted") for number in range(60)]
    rows = {"committed": [row.to_dict() for row in committed], "aborted": [row.to_dict() for row in aborted]}
    await run.ask("transactions", topic=topic, transactional_id=name, **rows)
    # the last of each partition: a reader that has got it gets nothing more
    last = [plain_record(number, b"last") for number in range(PARTITIONS)]
    await run.produce(topic, last)
    same_records([*committed, *last], await run.consume(topic, 66, isolation="read_committed"))
    everything = await run.consume(topic, 126)
    same = Counter(row.value for row in everything) == Counter(row.value for row in (*committed, *aborted, *last))
    places = len({(row.partition, row.offset) for row in everything})
    require(same, f"an uncommitted reader got {len(everything)} records, from {places} offsets, of 126")


def group(protocol: str) -> Case:
    """Return the case of a group's protocol: read, then share partitions and take them over."""

    async def case(run: Run) -> None:
        topic = await run.topic()
        wanted = [plain_record(number, b"group") for number in range(120)]
        await run.produce(topic, wanted)
        found = await run.consume(topic, len(wanted), protocol=protocol)
        same_records(wanted, found)
        how = {"partitions": PARTITIONS, "protocol": protocol}
        answer = await run.ask("rebalance", topic=topic, group=new_group(), **how)
        first, second, after = (set(answer[name]) for name in ("first", "second", "after"))
        everything = set(range(PARTITIONS))
        shared = bool(first and second) and not first & second and first | second == everything
        require(shared and after == everything, f"partitions were {answer}")

    return case


async def moved_leaders(run: Run) -> None:
    """A consumer goes on at other nodes while the leaders of all partitions move."""
    topic, name = await run.topic(), new_group()
    wanted = [plain_record(number, b"moved") for number in range(120)]
    await run.produce(topic, wanted[:60])
    consuming = asyncio.create_task(run.consume(topic, len(wanted), group=name))
    leaders = Leaders(run.cluster.kafka.bootstrap_servers)
    try:
        await asyncio.to_thread(leaders.wait_for_group, name)
        await asyncio.to_thread(leaders.move, topic)
        await run.produce(topic, wanted[60:])
        same_records(wanted, await consuming)
    finally:
        await asyncio.to_thread(leaders.close)
        consuming.cancel()
        await asyncio.wait([consuming])


async def share_consumer(run: Run) -> None:
    """A share consumer gets every record once; where the client can ask, it sees the lag that is left."""
    name, earliest = new_group(), {"share.auto.offset.reset": "earliest"}
    await asyncio.to_thread(run.cluster.driver.set_group_config, name, earliest)
    # the topic comes second: a node that knows it knows the group's setting too, and does not begin at its end
    topic = await run.topic()
    wanted = [plain_record(number, b"shared") for number in range(120)]
    await run.produce(topic, wanted)
    how = {"count": len(wanted), "timeout_s": READ_SECONDS}
    found = records((await run.ask("share", topic=topic, group=name, **how))["records"])
    same_records(wanted, found)
    if "share_offsets" in run.client.extra:
        await run.produce(topic, wanted[:30])
        lags = (await run.ask("share_offsets", topic=topic, group=name))["lags"]
        require(lags == {str(partition): 5 for partition in range(PARTITIONS)}, f"lag is {lags}, not 5 each")


async def admin(run: Run) -> None:
    """A topic is made, described and deleted, and the nodes are the proxy's ports."""
    name = f"admin-{next(_numbers)}"
    how = {"partitions": PARTITIONS, "replication": len(run.cluster.nodes)}
    answer = await run.ask("admin", topic=name, **how)
    told = {row["id"]: (row["host"], row["port"]) for row in answer["nodes"]}
    require(told == run.cluster.nodes, f"nodes are {told}, not {run.cluster.nodes}")
    require(answer["partitions"] == PARTITIONS, f"{answer['partitions']} partitions")
    wanted = {str(partition): 0 for partition in range(PARTITIONS)}
    offsets = {str(partition): int(offset) for partition, offset in answer["offsets"].items()}
    require(offsets == wanted, f"offsets are {offsets}")


async def login_over_tls(run: Run) -> str:
    """SCRAM over TLS: the client checks the proxy's certificate, the broker checks the client's password."""
    wanted = [plain_record(number, b"secret") for number in range(120)]
    arguments = {
        "bootstrap": run.cluster.secure_bootstrap,
        "ca_file": str(run.cluster.ca_file),
        "user": USER,
        "password": PASSWORD,
        "mechanism": run.client.mechanism,
        "topic": await run.topic(),
        "group": new_group(),
        "records": [record.to_dict() for record in wanted],
    }
    answer = await run.client.ask("roundtrip_sasl_tls", arguments, run.cluster.around)
    same_records(wanted, records(answer["records"]))
    return "" if run.client.mechanism == MECHANISM else f"with {run.client.mechanism}"


# name → title and what is done
CASES: dict[str, tuple[str, Case]] = {
    "contents": ("contents", contents),
    **{name: (name, codec(name)) for name in CODECS if name != "none"},
    "large": ("900 KB", large_records),
    "acks0": ("acks 0", acks("0")),
    "acks1": ("acks 1", acks("1")),
    "transactions": ("transactions", transactions),
    "classic": ("classic group", group("classic")),
    "kip848": ("KIP-848 group", group("consumer")),
    "moves": ("moved leaders", moved_leaders),
    "share": ("share group", share_consumer),
    "admin": ("admin", admin),
    "tls": ("TLS + SCRAM", login_over_tls),
}


MANY_NODES = frozenset({"moves"})  # cases that need more than one node


# -- what is sent and compared ---------------------------------------------------------------------------------------


def plain_record(number: int, text: bytes) -> Record:
    """Return the record of a number, over the partitions in turn."""
    return Record(number % PARTITIONS, f"key-{number}".encode(), b"%d:%b" % (number, text))


def records_of_every_sort(lacks: Sequence[str] = ()) -> list[Record]:
    """Return records with each kind of key, value and headers that Kafka can hold, over the partitions in turn.

    Args:
        lacks: kinds that the client cannot carry, see SORTS.
    """
    headers: tuple[tuple[tuple[str, bytes | None], ...], ...] = (
        (),
        (("name", b"value"), ("name", b"again"), ("other", b"third")),
        (("null", None),),
        (("empty", b""),),
        (("bytes", BINARY_HEADER),),
    )
    keys = (None, b"", b"key", BINARY_KEY)
    values = (b"value", b"", None, "größer ⏎ Wert\n".encode(), BINARY_VALUE)
    every = [Record(0, key, value, named) for named, key, value in itertools.product(headers, keys, values)]
    carried = [record for record in every if not any(SORTS[lack](record) for lack in lacks)]
    return [dataclasses.replace(record, partition=number % PARTITIONS) for number, record in enumerate(carried)]


def same_records(wanted: Sequence[Record], found: Sequence[Record]) -> None:
    """Compare records by content, and by order within each partition.

    Raises:
        ClientFailed: they differ.
    """
    for partition in range(PARTITIONS):
        sent = [row for row in wanted if row.partition == partition]
        got = [row for row in found if row.partition == partition]
        offsets = [row.offset for row in got if row.offset is not None]
        require(len(offsets) == len(got) and offsets == sorted(set(offsets)), f"offsets are not in order: {offsets}")
        require(len(sent) == len(got), f"partition {partition}: {len(got)} of {len(sent)} records")
        for before, after in zip(sent, got, strict=True):
            same = (before.key, before.value, before.headers) == (after.key, after.value, after.headers)
            require(same, f"sent {_shortened(before)}, got {_shortened(after)}")
    require(len(found) == len(wanted), f"{len(found)} of {len(wanted)} records")


def require(condition: bool, otherwise: str) -> None:
    """Raise ClientFailed with a text unless the condition holds."""
    if not condition:
        raise ClientFailed(otherwise)


def codecs_of(cluster: Fronted, topic: str) -> set[str]:
    """Return the codecs of all batches of a topic, as they lie on the brokers' disks."""
    found = set()
    for node in cluster.kafka.nodes:
        properties = cluster.kafka.log_file(node.node_id).with_name("server.properties").read_text()
        data = next(line.removeprefix("log.dirs=") for line in properties.splitlines() if line.startswith("log.dirs="))
        for log in Path(data).glob(f"{topic}-*/*.log"):
            found |= {CODECS[kind] for kind in _kinds(log.read_bytes())}
    return found


def _kinds(log: bytes) -> set[int]:
    # a batch: base offset 8 bytes, length of the rest 4, …; its attributes' low three bits are the codec
    found, at = set(), 0
    while at + 12 < len(log) and (length := int.from_bytes(log[at + 8 : at + 12])):
        found.add(_BATCH_ATTRIBUTES.unpack_from(log, at)[0] & 7)
        at += 12 + length
    return found


def _shortened(record: Record) -> str:
    value = None if record.value is None else record.value[:20]
    return f"({record.key!r}, {value!r}, {list(record.headers)!r})"

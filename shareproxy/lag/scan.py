"""Count what is really there between two offsets: fetch batches within limits and look at their headers.

In: ranges of partitions. Out: how many records a group can be given, exactly or between two bounds.
Must never: leave a fetch session at a broker, go beyond a limit or the deadline, or keep what records contain.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

import msgspec

from shareproxy.lag.brokers import TIMED_OUT, Brokers, Trouble, trouble_from_code
from shareproxy.lag.deliveries import Span, SpanIndex
from shareproxy.lag.leaders import EndOffsets, Wanted
from shareproxy.lag.model import Status
from shareproxy.lag.records import ABORT, RecordBatch, record_batches
from shareproxy.lag.rounds import ask_all
from shareproxy.protocol.errors import DecodeError, ErrorCode
from shareproxy.protocol.ids import NodeId, TopicId
from shareproxy.protocol.messages import (
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchResponsePartitionData,
    FetchTopic,
)

# a connection of its own: megabytes must not hold up the small questions
RECORDS: Final = "records"
READ_COMMITTED: Final = 1
NO_SESSION: Final = 0
NO_SESSION_EPOCH: Final = -1
# one answer is held in memory per leader; a batch that is larger comes whole, as the broker's limits allow it
REQUEST_BYTES: Final = 1 << 19
# room for a producer's usual batch, where only the first one is wanted
FIRST_BATCH_BYTES: Final = 1 << 16
PARTITIONS_PER_REQUEST: Final = 500
# a partition that was first in its request and got nothing twice has nothing to give
MOST_EMPTY: Final = 2


class ScanLimits(msgspec.Struct, frozen=True):
    """How much one look may read.

    Attributes:
        partition_offsets: offsets of one partition; what lies behind stays unseen.
        partition_bytes: bytes of one partition.
        total_bytes: bytes of all partitions together.
    """

    partition_offsets: int = 100_000
    partition_bytes: int = 4 << 20
    total_bytes: int = 64 << 20


class Scanned(msgspec.Struct, frozen=True, gc=False):
    """What was found between two offsets; only offsets that are not done count.

    Attributes:
        records_min: offsets with a record that the group can be given, at least.
        records_max: the same at most; equal where the whole range was seen.
        first_timestamp: of the first such record's batch, ms since 1970.
        found: whether there is such a record.
        voided: offsets of records of aborted transactions, which committed reads leave out.
        unseen: offsets that were not looked at, within `records_max`.
        trouble: why they were not.
    """

    records_min: int
    records_max: int
    first_timestamp: int | None = None
    found: bool = False
    voided: int = 0
    unseen: int = 0
    trouble: Trouble | None = None

    @property
    def exact(self) -> bool:
        """Whether the number of records is known."""
        return self.records_min == self.records_max


class Scan:
    """One range on its way.

    Args:
        item: the partition.
        first: where to begin.
        end: exclusive; at most the high watermark, or the last stable offset for committed reads.
        done: spans of offsets that need no look, in order.
        committed: whether records of aborted transactions are to be left out.
        only_first: whether the first record is enough.
    """

    __slots__ = (
        "_index",
        "_least",
        "_most",
        "committed",
        "cursor",
        "done",
        "empty",
        "end",
        "first",
        "found",
        "item",
        "looked",
        "only_first",
        "read",
        "served",
        "stopped",
        "timestamp",
        "voided",
    )

    def __init__(
        self,
        item: Wanted,
        first: int,
        end: int,
        done: Sequence[Span] = (),
        *,
        committed: bool = False,
        only_first: bool = False,
    ) -> None:
        self.item, self.first, self.end, self.done = item, first, end, tuple(done)
        self._index = SpanIndex(self.done)
        self.committed, self.only_first = committed, only_first
        self._least = self._most = 0
        self.timestamp: int | None = None
        self.found = False
        self.voided = self.looked = self.read = self.served = self.empty = 0
        self.stopped: Trouble | None = None
        self.cursor = self._index.next_outside(first)

    @property
    def finished(self) -> bool:
        """Whether there is nothing left to fetch."""
        return self.cursor >= self.end or self.stopped is not None or (self.only_first and self.found)

    def stop(self, why: Trouble) -> None:
        """Leave the rest unseen."""
        self.stopped = why

    def result(self) -> Scanned:
        """Return what was found until now."""
        unseen = self._open(self.cursor, self.end) if self.cursor < self.end else 0
        return Scanned(
            self._least,
            self._most + unseen,
            self.timestamp,
            self.found,
            self.voided,
            unseen,
            self.stopped if unseen else None,
        )

    def take(self, row: FetchResponsePartitionData, limits: ScanLimits) -> None:
        """Take the batches of one answer.

        Raises:
            DecodeError: they are damaged.
        """
        before = self.cursor
        aborted = sorted((entry.first_offset, entry.producer_id) for entry in row.aborted_transactions or ())
        voids: set[int] = set()
        started = 0
        for batch in record_batches(row.records):
            while started < len(aborted) and aborted[started][0] <= batch.last_offset:
                voids.add(aborted[started][1])
                started += 1
            void = self.committed and batch.transactional and batch.producer_id in voids
            self._take_batch(batch, void=void)
            if batch.control and batch.marker == ABORT:
                voids.discard(batch.producer_id)
            if self.looked + self.cursor - before >= limits.partition_offsets:
                break
        self.read += len(row.records or b"")
        self.looked += self.cursor - before
        if self.cursor == before:
            return
        self.served += 1
        self.empty = 0
        self.cursor = self._index.next_outside(self.cursor)
        if not self.finished and (self.looked >= limits.partition_offsets or self.read >= limits.partition_bytes):
            self.stop(TOO_MUCH)

    def _take_batch(self, batch: RecordBatch, *, void: bool) -> None:
        """Count the open offsets of a batch; those between the cursor and it have gone (compaction)."""
        first, end = max(batch.base_offset, self.cursor), min(batch.last_offset + 1, self.end)
        if first >= end:
            if batch.base_offset >= self.end:
                self.cursor = self.end
            return
        self.cursor = end
        if batch.control or batch.records == 0:
            return
        open_ = self._open(first, end)
        if void:
            self.voided += open_
        if void or not open_:
            return
        if batch.records is None:
            least, most = 0, open_
        elif batch.dense:
            least = most = open_
        else:
            # which offsets of the span are left, the header does not tell
            others = batch.last_offset - batch.base_offset + 1 - open_
            least, most = max(0, batch.records - others), min(batch.records, open_)
        self._least += least
        self._most += most
        if most and not self.found:
            self.found, self.timestamp = True, batch.timestamp

    def _open(self, first: int, end: int) -> int:
        return max(0, end - first) - self._index.within(first, end)


class Scanner:
    """Run scans against one cluster.

    Args:
        brokers: where to fetch.
        limits: how much one call of `run` may read.
    """

    def __init__(self, brokers: Brokers, limits: ScanLimits) -> None:
        self._brokers, self._limits = brokers, limits

    async def run(self, scans: Sequence[Scan], *, deadline: float) -> None:
        """Bring all scans as far as limits and deadline allow; their results tell how far that was."""
        waiting = [scan for scan in scans if not scan.finished]
        answers = await ask_all(_Fetches(self._brokers, self._limits), waiting, deadline=deadline)
        for scan in waiting:
            answer = answers[scan]
            if not scan.finished:
                scan.stop(answer if isinstance(answer, Trouble) else TIMED_OUT)


class _Fetches:
    """The question of `ask_all`: fetch from one leader until the scans of its partitions are through."""

    def __init__(self, brokers: Brokers, limits: ScanLimits) -> None:
        self._brokers, self._leaders = brokers, EndOffsets(brokers)
        self._limits, self._left = limits, limits.total_bytes

    async def route(self, items: Sequence[Scan], *, fresh: bool, deadline: float) -> Mapping[Scan, NodeId | Trouble]:
        wanted = list(dict.fromkeys(scan.item for scan in items))
        routes = await self._leaders.route(wanted, fresh=fresh, deadline=deadline)
        return {scan: routes[scan.item] for scan in items}

    async def ask(self, node_id: NodeId, items: Sequence[Scan], *, deadline: float) -> Mapping[Scan, Trouble | None]:
        answers: dict[Scan, Trouble | None] = {}
        waiting = [scan for scan in items if not scan.finished]
        while waiting:
            if self._left <= 0:
                for scan in waiting:
                    scan.stop(TOO_MUCH)
                break
            # who got least comes first: only the first batch of an answer is certain to come, and whole
            waiting.sort(key=lambda scan: scan.served)
            for lane in _lanes(waiting):
                answers.update(await self._fetch(node_id, lane, deadline))
            waiting = [scan for scan in waiting if not scan.finished and scan not in answers]
        return {scan: answers.get(scan) for scan in items}

    async def _fetch(self, node_id: NodeId, lane: Sequence[Scan], deadline: float) -> dict[Scan, Trouble]:
        """Fetch once for each scan; return those that need another leader."""
        request = self._request(lane)
        response = await self._brokers.request(node_id, request, deadline=deadline, purpose=RECORDS)
        if response.error_code:
            return dict.fromkeys(lane, trouble_from_code(response.error_code))
        rows = _rows(response)
        troubles: dict[Scan, Trouble] = {}
        for number, scan in enumerate(lane):
            item = scan.item
            row = rows.get((item.topic_id, item.partition)) or rows.get((item.topic, item.partition))
            trouble = LEFT_OUT if row is None else self._take(scan, row, first=number == 0)
            if trouble is not None and trouble.again:
                troubles[scan] = trouble
            elif trouble is not None:
                scan.stop(trouble)
        return troubles

    def _take(self, scan: Scan, row: FetchResponsePartitionData, *, first: bool) -> Trouble | None:
        if row.error_code:
            return _trouble(scan.item, row.error_code)
        before = scan.cursor
        try:
            scan.take(row, self._limits)
        except DecodeError as error:
            return Trouble(Status.ERROR, None, f"partition {scan.item.partition} of {scan.item.topic!r}: {error}")
        self._left -= len(row.records or b"")
        if scan.cursor == before:
            scan.empty += first
            if scan.empty >= MOST_EMPTY:
                return NOTHING_CAME
        return None

    def _request(self, lane: Sequence[Scan]) -> FetchRequest:
        topics: dict[tuple[str, TopicId], list[FetchPartition]] = {}
        for scan in lane:
            item = scan.item
            most = FIRST_BATCH_BYTES if scan.only_first else REQUEST_BYTES
            partition = FetchPartition(
                partition=item.partition,
                fetch_offset=scan.cursor,
                partition_max_bytes=max(1, min(most, self._limits.partition_bytes - scan.read)),
            )
            topics.setdefault((item.topic, item.topic_id), []).append(partition)
        return FetchRequest(
            # the log has what is asked for, so there is nothing to wait for
            max_wait_ms=0,
            min_bytes=0,
            max_bytes=max(1, min(REQUEST_BYTES, self._left)),
            isolation_level=READ_COMMITTED if lane[0].committed else 0,
            session_id=NO_SESSION,
            session_epoch=NO_SESSION_EPOCH,
            topics=[FetchTopic(name, topic_id, partitions) for (name, topic_id), partitions in topics.items()],
        )


def _lanes(scans: Sequence[Scan]) -> list[list[Scan]]:
    """Share scans out to requests: each has one isolation level, and no partition twice."""
    lanes: list[tuple[bool, set[Wanted], list[Scan]]] = []
    for scan in scans:
        for committed, items, lane in lanes:
            if committed == scan.committed and scan.item not in items and len(lane) < PARTITIONS_PER_REQUEST:
                items.add(scan.item)
                lane.append(scan)
                break
        else:
            lanes.append((scan.committed, {scan.item}, [scan]))
    return [lane for _, _, lane in lanes]


def _rows(response: FetchResponse) -> dict[tuple[object, int], FetchResponsePartitionData]:
    """Return the rows by topic id and partition, or by name in versions without ids."""
    return {
        (topic.topic or TopicId(topic.topic_id), row.partition_index): row
        for topic in response.responses
        for row in topic.partitions
    }


def _trouble(item: Wanted, code: int) -> Trouble:
    if code == ErrorCode.TOPIC_AUTHORIZATION_FAILED:
        return Trouble(
            Status.NOT_AUTHORIZED,
            code,
            f"this user may not read topic {item.topic!r}, so records cannot be told from what only takes up offsets; "
            "grant READ on the topic",
        )
    if code == ErrorCode.OFFSET_OUT_OF_RANGE:
        text = f"the log of partition {item.partition} of {item.topic!r} moved while it was read; ask again"
        return Trouble(Status.ERROR, code, text)
    return trouble_from_code(code)


TOO_MUCH: Final = Trouble(
    Status.ERROR, None, "there is more to read than the limit of one look allows; the rest is counted as it may be"
)
NOTHING_CAME: Final = Trouble(Status.ERROR, None, "the leader returned no records for offsets that it should have")
LEFT_OUT: Final = Trouble(Status.ERROR, None, "the broker's answer to Fetch leaves this partition out")

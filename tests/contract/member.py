"""A member of a share group that asks raw questions, one connection for its session and one for its heartbeats.

In: what to fetch and to acknowledge. Out: rows that two clusters can be compared by. Must never: repair anything.
"""

from __future__ import annotations

import base64
import time
import uuid
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

from shareproxy.protocol import messages as m
from shareproxy.protocol.message import Request
from tests.contract.wire import Wire

Place = tuple[bytes, int]
"""Topic id and partition."""
Acks = Mapping[Place, Sequence[tuple[int, int, Sequence[int]]]]
"""First offset, last offset, types, of each partition."""
Rows = list[Any]

GAP, ACCEPT, RELEASE, REJECT, RENEW = range(5)
NO_ACKS: Final[Acks] = {}


class Limits(NamedTuple):
    """What a fetch may bring and how long it may take."""

    max_records: int = 500
    max_wait_ms: int = 300
    min_bytes: int = 1
    max_bytes: int = 1 << 20
    mode: int = 0


# whether a broker says the one or the other depends on how it keeps the range
_WORDS: Final = {"owner of batch record": "owner of offset", "The batch cannot be": "The offset cannot be"}
NOTHING: Final = Limits(0, 0, 0, 0)


class Member:
    """One member.

    Attributes:
        epoch: of its session's next request.
        prompt: the last fetch was answered well before its longest wait.
    """

    def __init__(self, address: tuple[str, int], group: str, member_id: str | None = None) -> None:
        self.group = group
        self.member_id = member_id or base64.urlsafe_b64encode(uuid.uuid4().bytes).decode()[:22]
        self.epoch, self.member_epoch = 0, 0
        self.prompt = True
        self._address = address
        self._wire = Wire(address)
        self._sent: tuple[m.ShareFetchRequest, float] | None = None

    def disconnect(self) -> None:
        """Close the connection without a word."""
        self._wire.close()

    def reconnect(self) -> Wire:
        """Go on with another connection, and return the old one, which is open."""
        old, self._wire = self._wire, Wire(self._address)
        return old

    # -- membership ---------------------------------------------------------------------------------------------------

    def beat(self, topics: Sequence[str] | None = None, *, epoch: int | None = None) -> m.ShareGroupHeartbeatResponse:
        """Send a heartbeat; epoch 0 joins, −1 leaves."""
        epoch = self.member_epoch if epoch is None else epoch
        named = None if topics is None else list(topics)
        answer = self._wire.ask(m.ShareGroupHeartbeatRequest(self.group, self.member_id, epoch, None, named))
        if not answer.error_code:
            self.member_epoch = answer.member_epoch
        return answer

    # -- records ------------------------------------------------------------------------------------------------------

    def fetch(self, *places: Place, **more: Any) -> Rows:
        """Fetch; the arguments are those of `send_fetch`."""
        self.send_fetch(*places, **more)
        return self.receive()

    def send_fetch(
        self,
        *places: Place,
        limits: Limits = Limits(),  # noqa: B008 - it cannot be changed
        acks: Acks = NO_ACKS,
        forget: Sequence[Place] = (),
        epoch: int | None = None,
        renews: bool = False,
    ) -> m.ShareFetchRequest:
        """Send a fetch without waiting for its answer, and return it.

        Args:
            places: to add to the session.
            limits: of the fetch.
            acks: to send along.
            forget: what to take out of the session.
            epoch: if it is not the one whose turn it is.
            renews: what the flag of that name says.
        """
        topics: dict[bytes, list[m.ShareFetchRequestFetchPartition]] = {}
        for topic_id, index in [*places, *(place for place in acks if place not in places)]:
            rows = [m.ShareFetchRequestAcknowledgementBatch(*_listed(row)) for row in acks.get((topic_id, index), ())]
            topics.setdefault(topic_id, []).append(m.ShareFetchRequestFetchPartition(index, 0, rows))
        request = m.ShareFetchRequest(
            self.group,
            self.member_id,
            self.epoch if epoch is None else epoch,
            limits.max_wait_ms,
            limits.min_bytes,
            limits.max_bytes,
            limits.max_records,
            limits.max_records,
            limits.mode,
            renews,
            [m.ShareFetchRequestFetchTopic(topic_id, parts) for topic_id, parts in topics.items()],
            [m.ShareFetchRequestForgottenTopic(topic_id, [index]) for topic_id, index in forget],
        )
        self._wire.send(request)
        self._sent = request, time.monotonic()
        return request

    def receive(self) -> Rows:
        """Return the rows of the fetch that was sent: error, and of each partition with any news what it is."""
        assert self._sent is not None
        request, began = self._sent
        answer = self._wire.receive(request)
        self.prompt = time.monotonic() - began < request.max_wait_ms / 2000
        if not answer.error_code:
            self.epoch = request.share_session_epoch + 1
        rows = sorted(_fetched(part) for topic in answer.responses for part in topic.partitions)
        return [(answer.error_code, answer.error_message), *(row for row in rows if any(row[1:]))]

    def acknowledge(self, acks: Acks = NO_ACKS, *, epoch: int | None = None, renews: bool = False) -> Rows:
        """Acknowledge without fetching, and return the error and a row for each partition."""
        topics: dict[bytes, list[m.ShareAcknowledgeRequestAcknowledgePartition]] = {}
        for (topic_id, index), batches in acks.items():
            rows = [m.ShareAcknowledgeRequestAcknowledgementBatch(*_listed(row)) for row in batches]
            topics.setdefault(topic_id, []).append(m.ShareAcknowledgeRequestAcknowledgePartition(index, rows))
        epoch = self.epoch if epoch is None else epoch
        asked = [m.ShareAcknowledgeRequestAcknowledgeTopic(topic_id, parts) for topic_id, parts in topics.items()]
        answer = self._wire.ask(m.ShareAcknowledgeRequest(self.group, self.member_id, epoch, renews, asked))
        if not answer.error_code:
            self.epoch = epoch + 1
        rows_of_answer = sorted(
            (part.partition_index, part.error_code, _words(part.error_message))
            for topic in answer.responses
            for part in topic.partitions
        )
        return [(answer.error_code, answer.error_message), *rows_of_answer]

    def fetch_all(self, *places: Place) -> list[tuple[int, int, int]]:
        """Fetch until nothing comes any more, and return what was acquired; Kafka 4.1 answers emptily in between."""
        found: list[tuple[int, int, int]] = []
        rows = self.fetch(*places)
        while True:
            got = [part for row in rows[1:] for part in row[-1]]
            if not got and not self.prompt:
                return sorted(found)
            found += got
            rows = self.fetch()

    def close(self) -> Rows:
        """Close the session; the next fetch opens another one."""
        rows = self.acknowledge(epoch=-1)
        self.epoch = 0
        return rows

    def ask(self, message: Request[Any]) -> Any:
        """Ask anything on its connection."""
        return self._wire.ask(message)


def _listed(row: tuple[int, int, Sequence[int]]) -> tuple[int, int, list[int]]:
    return row[0], row[1], list(row[2])


def _fetched(row: m.ShareFetchResponsePartitionData) -> tuple[Any, ...]:
    """Return partition, errors, leader, and what was acquired: neighbours joined, as ranges may come in any size."""
    assert row.acquired_records == [] or row.records
    return (
        row.partition_index,
        row.error_code,
        row.error_message,
        row.acknowledge_error_code,
        _words(row.acknowledge_error_message),
        (row.current_leader.leader_id, row.current_leader.leader_epoch) if row.error_code else None,
        tuple(_joined(row.acquired_records)),
    )


def _words(text: str | None) -> str | None:
    for one, other in _WORDS.items():
        text = None if text is None else text.replace(one, other)
    return text


def _joined(ranges: Sequence[m.ShareFetchResponseAcquiredRecords]) -> Iterator[tuple[int, int, int]]:
    first, last, count = -1, -1, -1
    for part in sorted(ranges, key=lambda part: part.first_offset):
        if (part.first_offset, part.delivery_count) == (last + 1, count):
            last = part.last_offset
            continue
        if count >= 0:
            yield first, last, count
        first, last, count = part.first_offset, part.last_offset, part.delivery_count
    if count >= 0:
        yield first, last, count

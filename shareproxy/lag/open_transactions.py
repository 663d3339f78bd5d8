"""Find out who holds transactions open, and with them the last stable offset back.

In: partitions with an open tail. Out: the transactions of each, with the producer's name where it may be seen.
Must never: end a transaction.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence

import msgspec
from msgspec.structs import replace

from shareproxy.cluster.errors import ClusterError
from shareproxy.lag.brokers import Brokers, Trouble, trouble_from_code
from shareproxy.lag.leaders import METADATA_MAX_AGE, EndOffsets, Wanted, fill_in
from shareproxy.lag.model import Status
from shareproxy.lag.rounds import GRACE, ask_all, share_of_time
from shareproxy.protocol.errors import ErrorCode
from shareproxy.protocol.ids import NodeId
from shareproxy.protocol.messages import (
    DescribeProducersRequest,
    DescribeProducersRequestTopicRequest,
    ListTransactionsRequest,
)


class OpenTransaction(msgspec.Struct, frozen=True):
    """One transaction that is open in a partition.

    Attributes:
        first_offset: where it begins.
        last_timestamp: of its producer's newest record, ms since 1970; `None` if the broker has none.
        transactional_id: the producer's name; `None` if this user may not see it.
    """

    producer_id: int
    first_offset: int
    last_timestamp: int | None = None
    transactional_id: str | None = None

    def sentence(self, now_ms: float) -> str:
        """Say who holds what, for a person."""
        who = f"producer {self.producer_id}" if self.transactional_id is None else f"{self.transactional_id!r}"
        text = f"a transaction of {who} is open from offset {self.first_offset} on"
        if self.last_timestamp is None:
            return text
        return f"{text}; its last record is {max(0.0, (now_ms - self.last_timestamp) / 1000):.0f} s old"


Transactions = tuple[OpenTransaction, ...]


async def open_transactions(
    brokers: Brokers, partitions: Sequence[Wanted], *, deadline: float
) -> dict[Wanted, Transactions | Trouble]:
    """Return the open transactions of each partition by first offset, or why they are not known.

    Args:
        brokers: where to ask: leaders for producers, all brokers for names.
        partitions: those whose last stable offset is behind.
        deadline: `loop.time()` seconds.

    Source: KIP-664.
    """
    found = await ask_all(_Producers(brokers), partitions, deadline=share_of_time(deadline, 0.6))
    ids = {one.producer_id for each in found.values() if not isinstance(each, Trouble) for one in each}
    names = await _names(brokers, ids, deadline) if ids else {}
    return {
        item: each
        if isinstance(each, Trouble)
        else tuple(replace(one, transactional_id=names.get(one.producer_id)) for one in each)
        for item, each in found.items()
    }


class _Producers:
    """The `Question` that DescribeProducers answers."""

    def __init__(self, brokers: Brokers) -> None:
        self._brokers, self._leaders = brokers, EndOffsets(brokers)

    async def route(
        self, items: Sequence[Wanted], *, fresh: bool, deadline: float
    ) -> Mapping[Wanted, NodeId | Trouble]:
        return await self._leaders.route(items, fresh=fresh, deadline=deadline)

    async def ask(
        self, node_id: NodeId, items: Sequence[Wanted], *, deadline: float
    ) -> Mapping[Wanted, Transactions | Trouble]:
        by_topic: dict[str, dict[int, Wanted]] = {}
        for item in items:
            by_topic.setdefault(item.topic, {})[item.partition] = item
        topics = [DescribeProducersRequestTopicRequest(name, list(wanted)) for name, wanted in by_topic.items()]
        response = await self._brokers.request(node_id, DescribeProducersRequest(topics), deadline=deadline)
        found: dict[Wanted, Transactions | Trouble] = {}
        for topic in response.topics:
            asked = by_topic.get(topic.name, {})
            for row in topic.partitions:
                wanted_one = asked.get(row.partition_index)
                if wanted_one is None:
                    continue
                if row.error_code:
                    found[wanted_one] = _trouble(topic.name, row.error_code, row.error_message)
                    continue
                found[wanted_one] = tuple(
                    sorted(
                        (
                            OpenTransaction(
                                producer.producer_id,
                                producer.current_txn_start_offset,
                                producer.last_timestamp if producer.last_timestamp >= 0 else None,
                            )
                            for producer in row.active_producers
                            if producer.current_txn_start_offset >= 0
                        ),
                        key=lambda one: one.first_offset,
                    )
                )
        return fill_in(found, items, "DescribeProducers")


async def _names(brokers: Brokers, ids: Iterable[int], deadline: float) -> dict[int, str]:
    """Return transactional ids by producer id, as far as brokers tell: each only knows those it coordinates."""
    request = ListTransactionsRequest(producer_id_filters=sorted(ids))

    async def names(node_id: NodeId) -> dict[int, str]:
        try:
            async with asyncio.timeout_at(deadline + GRACE):
                response = await brokers.request(node_id, request, deadline=deadline)
        except (ClusterError, TimeoutError):
            return {}
        return {row.producer_id: row.transactional_id for row in response.transaction_states}

    try:
        nodes = (await brokers.metadata((), deadline=deadline, max_age=METADATA_MAX_AGE)).nodes
    except ClusterError:
        return {}
    found: dict[int, str] = {}
    for each in await asyncio.gather(*(names(node_id) for node_id in nodes)):
        found.update(each)
    return found


def _trouble(topic: str, code: int, text: str | None) -> Trouble:
    if code == ErrorCode.TOPIC_AUTHORIZATION_FAILED:
        advice = f"who holds a transaction open in topic {topic!r} this user may not see; grant READ on the topic"
        return Trouble(Status.NOT_AUTHORIZED, code, advice)
    return trouble_from_code(code, text)

"""What a worker asks of its group is asked once, and answered from memory for a while."""

from __future__ import annotations

import asyncio

import pytest

from shareproxy.cluster.addresses import parse_addresses
from shareproxy.cluster.cluster import Cluster
from shareproxy.drain import group_questions
from shareproxy.drain.dead_letter_check import DELIVERIES, DeadLetterQueue
from shareproxy.drain.group_questions import RECHECK_SECONDS, GroupQuestions
from shareproxy.testing import SimulatedCluster
from tests.support.virtual_time import in_virtual_time


async def test_a_cluster_is_asked() -> None:
    """There is no queue; the limit is what the group says."""
    with SimulatedCluster() as simulated:
        simulated.set_group_config("mailers", {"share.delivery.count.limit": "3"})
        async with Cluster(parse_addresses(simulated.bootstrap_servers)) as cluster:
            questions = GroupQuestions(cluster, "mailers")

            assert not (await questions.dead_letters()).works
            assert await questions.delivery_limit() == 3


async def test_nobody_answers() -> None:
    """What is not known is taken for the worse: no queue, and Kafka's default limit."""
    async with Cluster(parse_addresses("127.0.0.1:1")) as cluster:
        questions = GroupQuestions(cluster, "mailers")
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(group_questions, "ASK_SECONDS", 0.2)

            queue = await questions.dead_letters()
            assert (queue.works, await questions.delivery_limit()) == (False, DELIVERIES)
            assert "it is not known whether" in queue.why


def test_many_at_once_ask_once_and_again_after_a_while(monkeypatch: pytest.MonkeyPatch) -> None:
    """Somebody may have mended the queue."""
    asked: list[float] = []

    async def ask(cluster: object, group: str, *, deadline: float) -> DeadLetterQueue:
        await asyncio.sleep(1)
        asked.append(asyncio.get_running_loop().time())
        return DeadLetterQueue(len(asked) > 1)

    async def limit(cluster: object, group: str, *, deadline: float) -> int:
        asked.append(asyncio.get_running_loop().time())
        return len(asked)

    async def scene() -> None:
        questions = GroupQuestions(Cluster(parse_addresses("127.0.0.1:1")), "mailers")
        queues = await asyncio.gather(*(questions.dead_letters() for _ in range(10)))
        assert [queue.works for queue in queues] == [False] * 10
        await asyncio.sleep(RECHECK_SECONDS)
        assert (await questions.dead_letters()).works
        assert len(asked) == 2
        assert [await questions.delivery_limit() for _ in range(3)] == [3, 3, 3]

    monkeypatch.setattr(group_questions, "dead_letter_queue", ask)
    monkeypatch.setattr(group_questions, "delivery_limit", limit)
    in_virtual_time(scene())

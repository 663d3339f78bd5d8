"""Filling lag into an answer."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest
from structlog.testing import capture_logs

from shareproxy.cluster.errors import Unreachable
from shareproxy.lag.model import AskedRow, SourceChoice
from shareproxy.protocol.errors import DecodeError
from shareproxy.protocol.headers import decode_response, encode_response
from shareproxy.protocol.ids import GroupId, TopicId
from shareproxy.protocol.messages import DescribeShareGroupOffsetsResponse
from shareproxy.proxy.answer_stream import LagStep
from shareproxy.proxy.meter import Meter
from shareproxy.proxy.out_of_range import LocalTopic, Places
from shareproxy.proxy.share_offsets import LagAnswer, Lags, fill
from tests.proxy.frames import TOPIC_ID, share_offsets

AUTO = SourceChoice.AUTO
G = GroupId("g")


def lag_answer(message: DescribeShareGroupOffsetsResponse, version: int, choice: SourceChoice = AUTO) -> LagAnswer:
    """Take a broker's answer."""
    return LagAnswer(LagStep(encode_response(message, version, 7), version), choice)


def rows_of(answer: LagAnswer) -> list[tuple[str, int, int, int, int]]:
    """Decode what the client gets: topic, partition, start offset, error code and lag of each row."""
    _, message = decode_response(DescribeShareGroupOffsetsResponse, 1, b"".join(answer.frame()))
    return [
        (topic.topic_name, row.partition_index, row.start_offset, row.error_code, row.lag)
        for group in message.groups
        for topic in group.topics
        for row in topic.partitions
    ]


class Filler:
    """Answers by group with what it was given: numbers, an error, or a wait without end."""

    def __init__(self, **by_group: Lags | Exception | None) -> None:
        self.by_group = by_group
        self.asked: list[GroupId] = []
        self.started, self.cancelled = asyncio.Event(), list[GroupId]()

    async def fill(self, group: GroupId, rows: Sequence[AskedRow], *, deadline: float) -> Lags:
        """Play the part."""
        self.asked.append(group)
        self.started.set()
        found = self.by_group[group]
        if found is None:
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                self.cancelled.append(group)
                raise
        if isinstance(found, Exception):
            raise found
        return found or {}

    async def out_of_range(self, asked: Places, *, deadline: float) -> Places:
        """Say that everything exists."""
        return {}


def soon(seconds: float = 30.0) -> float:
    """Return a deadline in the loop's time."""
    return asyncio.get_running_loop().time() + seconds


async def test_lag_is_put_into_a_version_0_answer() -> None:
    """The client gets version 1 with everything the broker said."""
    answer = lag_answer(share_offsets((0, 2, -1), (1, 9, -1)), 0)

    await fill(answer, Filler(g={("t", 0): 7, ("t", 1): 0}), soon(), Meter())

    assert rows_of(answer) == [("t", 0, 2, 0, 7), ("t", 1, 9, 0, 0)]


async def test_rows_are_asked_as_the_broker_answered_them() -> None:
    """Start offset and leader epoch are those the asking client may see."""
    answer = lag_answer(share_offsets((3, 2, -1)), 0)

    assert answer.asked == {G: [AskedRow("t", TopicId(TOPIC_ID), 3, 2, 5, -1)]}


async def test_real_negative_lag_passes() -> None:
    """A start offset beyond the end is a number below zero on the wire (KIP-1226)."""
    answer = lag_answer(share_offsets((0, 50, -1)), 0)

    await fill(answer, Filler(g={("t", 0): -39}), soon(), Meter())

    assert rows_of(answer) == [("t", 0, 50, 0, -39)]


def test_lag_that_the_broker_knows_passes_byte_for_byte() -> None:
    """Where nothing is unknown, the broker's own bytes go on."""
    frame = encode_response(share_offsets((0, 2, 5), (1, -1, -1)), 1, 7)

    answer = LagAnswer(LagStep(frame, 1), AUTO)

    assert not answer.asked
    assert answer.frame()[0] is frame


def test_only_unknown_lag_is_asked_for() -> None:
    """Known lag stays the broker's; a row without start offset has no lag."""
    answer = lag_answer(share_offsets((0, 2, 5), (1, 3, -1), (2, -1, -1)), 1)

    assert [row.partition for row in answer.asked[G]] == [1]


def test_pinned_source_is_asked_for_all_granted_rows() -> None:
    """`--lag-source summary` replaces the broker's own numbers."""
    answer = lag_answer(share_offsets((0, 2, 5), (1, 3, -1), (2, -1, -1)), 1, SourceChoice.SUMMARY)

    assert [row.partition for row in answer.asked[G]] == [0, 1]


def test_source_broker_asks_for_nothing() -> None:
    """`--lag-source broker` shows what the broker says and nothing else."""
    answer = lag_answer(share_offsets((0, 2, -1)), 0, SourceChoice.BROKER)

    assert not answer.asked
    assert rows_of(answer) == [("t", 0, 2, 0, -1)]


async def test_rows_with_an_error_stay() -> None:
    """A row without a right keeps its code and text, and is not looked up."""
    message = share_offsets((0, 2, -1), (1, 0, -1))
    row = message.groups[0].topics[0].partitions[1]
    row.error_code, row.error_message = 29, "Topic authorization failed."
    answer = lag_answer(message, 0)

    await fill(answer, Filler(g={("t", 0): 7, ("t", 1): 8}), soon(), Meter())

    assert rows_of(answer) == [("t", 0, 2, 0, 7), ("t", 1, 0, 29, -1)]
    assert b"Topic authorization failed." in b"".join(answer.frame())


def test_group_with_an_error_is_not_asked_for() -> None:
    """Group error 30 says that the client may see nothing of it."""
    message = share_offsets((0, 2, -1))
    message.groups[0].error_code = 30

    assert not lag_answer(message, 0).asked


async def test_groups_are_looked_up_side_by_side() -> None:
    """One group that gives no answer does not hold up the others, nor the deadline."""
    message = share_offsets((0, 2, -1), group="slow")
    message.groups += share_offsets((0, 3, -1), group="quick").groups + share_offsets((0, 4, -1), group="broken").groups
    answer = lag_answer(message, 0)
    filler = Filler(slow=None, quick={("t", 0): 7}, broken=Unreachable("nobody is there"))

    with capture_logs() as logs:
        await fill(answer, filler, soon(0.05), Meter())

    assert [row[4] for row in rows_of(answer)] == [-1, 7, -1]
    assert filler.asked == ["slow", "quick", "broken"]
    assert [(line["event"], line["group"]) for line in logs] == [
        ("lag not found in time", "slow"),
        ("lag not found", "broken"),
    ]
    assert logs[1]["exc_info"] is None


async def test_look_ups_are_counted_by_their_outcome() -> None:
    """Each group is one; the rows that stay unknown are counted too."""
    message = share_offsets((0, 2, -1), group="slow")
    for group in ("found", "partial", "unknown", "broken"):
        message.groups += share_offsets((0, 3, -1), (1, 3, -1), group=group).groups
    answer, meter = lag_answer(message, 0), Meter()
    whole = {("t", 0): 7, ("t", 1): 0}
    filler = Filler(slow=None, found=whole, partial={("t", 0): 7}, unknown={}, broken=Unreachable("nobody is there"))

    with capture_logs():
        await fill(answer, filler, soon(0.05), meter)

    counters = meter.to_dict()["counters"]
    assert counters["lag_lookups"] == {"timeout": 1, "found": 1, "partial": 1, "unknown": 1, "error": 1}
    assert counters["lag_rows"] == {"unknown": 1 + 0 + 1 + 2 + 2}


async def test_lookup_without_an_answer_is_cancelled() -> None:
    """Nothing goes on behind the answer's back."""
    answer = lag_answer(share_offsets((0, 2, -1)), 0)
    filler = Filler(g=None)

    with capture_logs():
        await fill(answer, filler, soon(0), Meter())
    await asyncio.sleep(0)

    assert filler.cancelled == ["g"] or not filler.asked


async def test_cancelled_fill_cancels_its_lookups() -> None:
    """When the client goes away, its look-ups end."""
    answer = lag_answer(share_offsets((0, 2, -1)), 0)
    filler = Filler(g=None)
    task = asyncio.create_task(fill(answer, filler, soon(), Meter()))
    await filler.started.wait()

    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    await asyncio.sleep(0)

    assert filler.cancelled == ["g"]


async def test_bug_in_the_lookup_is_logged_with_its_traceback() -> None:
    """The client still gets its answer."""
    answer = lag_answer(share_offsets((0, 2, -1)), 0)

    with capture_logs() as logs:
        await fill(answer, Filler(g=ZeroDivisionError("bug")), soon(), Meter())

    assert rows_of(answer) == [("t", 0, 2, 0, -1)]
    assert isinstance(logs[0]["exc_info"], ZeroDivisionError)


async def test_same_group_twice_is_looked_up_once() -> None:
    """Both of its rows get the number."""
    message = share_offsets((0, 2, -1))
    message.groups += share_offsets((1, 3, -1)).groups
    answer = lag_answer(message, 0)
    filler = Filler(g={("t", 0): 7, ("t", 1): 8})

    await fill(answer, filler, soon(), Meter())

    assert filler.asked == ["g"]
    assert [row[4] for row in rows_of(answer)] == [7, 8]


def test_header_tags_and_unknown_tags_are_kept() -> None:
    """What is not understood goes on to the client."""
    message = share_offsets((0, 2, -1))
    message.unknown_tags = ((9, b"nine"),)
    frame = encode_response(message, 0, 7)
    tagged = frame[:4] + b"\x01\x05\x02ab" + frame[5:]

    out = b"".join(LagAnswer(LagStep(tagged, 0), AUTO).frame())

    assert out[:9] == tagged[:9]
    assert out.endswith(b"\x01\x09\x04nine")


@pytest.mark.parametrize("cut", [3, 4, 5, 9, 20, -1])
def test_damaged_answer_is_refused(cut: int) -> None:
    """It is not passed on half understood."""
    frame = encode_response(share_offsets((0, 2, -1)), 0, 7)

    with pytest.raises(DecodeError):
        LagAnswer(LagStep(frame[:cut], 0), AUTO)


async def test_local_rows_are_put_into_a_version_0_answer_for_a_version_0_client() -> None:
    """It gets its own version, without Lag, and nothing is looked up."""
    local = ({"t": LocalTopic((7,), stands_in=False)},)
    answer = LagAnswer(LagStep(encode_response(share_offsets((0, 2, -1)), 0, 7), 0, 0, local), AUTO)

    _, message = decode_response(DescribeShareGroupOffsetsResponse, 0, b"".join(answer.frame()))

    assert [(row.partition_index, row.start_offset) for row in message.groups[0].topics[0].partitions] == [
        (0, 2),
        (7, -1),
    ]
    assert not answer.asked

"""DescribeShareGroupOffsets: the request without what does not exist, the answer with its Lag.

In: decisions, out of which a request and a broker's answer to it are built, whole or damaged. Out: nothing, or a
finding: another error than `DecodeError`, a question the client did not ask, or a row that changed beyond its Lag.
"""

from __future__ import annotations

from collections.abc import Iterator
from random import Random
from typing import Final

from fuzz.damage import damaged
from fuzz.dice import Dice
from fuzz.finding import expect
from fuzz.messages import read
from fuzz.target import Target
from shareproxy.lag.model import SourceChoice
from shareproxy.protocol.errors import DecodeError
from shareproxy.protocol.headers import encode_request, encode_response
from shareproxy.protocol.messages import (
    DescribeShareGroupOffsetsRequest,
    DescribeShareGroupOffsetsRequestGroup,
    DescribeShareGroupOffsetsRequestTopic,
    DescribeShareGroupOffsetsResponse,
    DescribeShareGroupOffsetsResponseGroup,
    DescribeShareGroupOffsetsResponsePartition,
    DescribeShareGroupOffsetsResponseTopic,
)
from shareproxy.proxy.answer_stream import LagStep
from shareproxy.proxy.out_of_range import ANY_PARTITION, LocalRows, OffsetsRequest
from shareproxy.proxy.requests import header_end
from shareproxy.proxy.share_offsets import LagAnswer

_NAMES: Final = ("orders", "payments", "", "größe")
_ERRORS: Final = (0, 0, 0, 3, 29, -1)
_CHOICES: Final = tuple(SourceChoice)
Asked = DescribeShareGroupOffsetsRequest
Answer = DescribeShareGroupOffsetsResponse


def run(data: bytes) -> None:
    """Take the decisions."""
    dice = Dice(data)
    version, broker_version = dice.choose((1, 0)), dice.choose((1, 0))
    frame = encode_request(asked_for(dice), version, 7, dice.choose(("admin", None, "")))
    if spoilt := dice.seldom():
        frame = damaged(frame, dice)
    try:
        request = OffsetsRequest(frame, version)
    except DecodeError:
        expect(spoilt, "a client's request is read", frame)
        return
    missing = {name: {index for index in sorted(rows) if dice.below(2)} for name, rows in request.asked.items()}
    sent, local = request.without(missing)
    question = _question(sent, version)
    _check_question(_question(frame, version), question, missing, local)
    answer = answer_to(question, dice)
    _check_answer(answer, local, version, broker_version if version else 0, dice)


def _question(frame: bytes, version: int) -> Asked:
    question = read(Asked, version, frame, header_end(frame))
    expect(question is not None, "a broker can read what is sent on", frame)
    assert question is not None
    return question


def _check_question(before: Asked, after: Asked, missing: dict[str, set[int]], local: LocalRows | None) -> None:
    expect(len(before.groups) == len(after.groups), "each group is asked for", before, after)
    for number, (old, new) in enumerate(zip(before.groups, after.groups, strict=True)):
        expect((old.group_id, old.topics is None) == (new.group_id, new.topics is None), "groups stay", old, new)
        asked, sent = _by_name(old), _by_name(new)
        here = {name: set(row.partitions) for name, row in (local[number] if local else {}).items()}
        expect(set(sent) == set(asked), "topics stay", old, new)
        for name, indexes in asked.items():
            gone = indexes & missing.get(name, set())
            rest = indexes - gone
            expect(here.get(name, set()) == gone, "what is not asked is answered here", name, local)
            expect(sent[name] == (rest or {ANY_PARTITION} if gone else rest), "the rest is asked", name, old, new)


def _by_name(group: DescribeShareGroupOffsetsRequestGroup) -> dict[str, set[int]]:
    found: dict[str, set[int]] = {}
    for topic in group.topics or ():
        found.setdefault(topic.topic_name, set()).update(topic.partitions)
    return found


def _check_answer(answer: Answer, local: LocalRows | None, version: int, broker_version: int, dice: Dice) -> None:
    frame = encode_response(answer, broker_version, 7)
    if spoilt := dice.seldom():
        frame = damaged(frame, dice)
    try:
        filled = LagAnswer(LagStep(frame, broker_version, version, local), dice.choose(_CHOICES))
    except DecodeError:
        expect(spoilt, "a broker's answer is read", frame)
        return
    found: dict[tuple[str, str, int], int] = {}
    for group_id, rows in filled.asked.items():
        expect(version == 1, "no lag is looked up for a version without it", version)
        for row in rows:
            if dice.below(4):
                found[group_id, row.topic, row.partition] = dice.signed(2)
        filled.put(group_id, {key[1:]: lag for key, lag in found.items() if key[0] == group_id})
    edited = b"".join(filled.frame())
    if spoilt:
        return
    after = read(Answer, version, edited, 5)
    expect(after is not None and edited[:5] == frame[:5], "a client can read the answer", frame, edited)
    assert after is not None
    before = read(Answer, broker_version, frame, 5)
    assert before is not None
    expect((before.throttle_time_ms, len(before.groups)) == (after.throttle_time_ms, len(after.groups)), "groups stay")
    for number, (old, new) in enumerate(zip(before.groups, after.groups, strict=True)):
        expect(
            (old.group_id, old.error_code, old.error_message) == (new.group_id, new.error_code, new.error_message), ""
        )
        _check_rows(old, new, local[number] if local and not old.error_code else {}, found, version)


def _check_rows(
    old: DescribeShareGroupOffsetsResponseGroup,
    new: DescribeShareGroupOffsetsResponseGroup,
    here: object,
    found: dict[tuple[str, str, int], int],
    version: int,
) -> None:
    assert isinstance(here, dict)
    written = {id(topic): list(topic.partitions) for topic in new.topics}
    first = {topic.topic_name: topic for topic in reversed(new.topics)}
    for name, rows in here.items():
        topic = first[name]
        count = len(rows.partitions)
        added = topic.partitions[len(topic.partitions) - count :]
        expect([row.partition_index for row in added] == list(rows.partitions), "rows are put back", name, new)
        expect(all(row.start_offset == -1 == row.lag for row in added), "what does not exist has no lag", added)
        written[id(topic)] = topic.partitions[: len(topic.partitions) - count]
    kept = new.topics[: len(old.topics)]
    expect(all(topic.topic_name in here for topic in new.topics[len(old.topics) :]), "no topic is made up", old, new)
    for before, after in zip(old.topics, kept, strict=True):
        rows = before.partitions
        local = here.get(before.topic_name)
        if local is not None and local.stands_in and first[before.topic_name] is after:
            rows = [row for row in rows if row.partition_index != ANY_PARTITION]
        expect((before.topic_name, before.topic_id) == (after.topic_name, after.topic_id), "topics stay", before, after)
        expect(len(rows) == len(written[id(after)]), "no row is lost", before, after)
        for one, other in zip(rows, written[id(after)], strict=True):
            lag = other.lag
            if version == 1 and lag != one.lag:
                key = (old.group_id, before.topic_name, one.partition_index)
                expect(not one.error_code and one.start_offset >= 0 and found.get(key) == lag, "only Lag", one, other)
            other.lag = one.lag
            expect(one == other or version == 0, "only Lag is filled in", one, other)


def asked_for(dice: Dice) -> Asked:
    """Return a request for a few groups."""
    groups = []
    for _ in range(dice.below(4)):
        topics = None
        if dice.below(5):
            topics = [
                DescribeShareGroupOffsetsRequestTopic(
                    dice.choose(_NAMES), [dice.below(4) for _ in range(dice.below(4))]
                )
                for _ in range(dice.below(4))
            ]
        groups.append(DescribeShareGroupOffsetsRequestGroup(dice.choose(("g", "", "share")), topics))
    return Asked(groups)


def answer_to(question: Asked, dice: Dice) -> Answer:
    """Return what a broker may answer."""
    groups = []
    for group in question.groups:
        topics = [(topic.topic_name, topic.partitions) for topic in group.topics or ()]
        if group.topics is None:
            topics = [(name, list(range(dice.below(4)))) for name in _NAMES[: dice.below(4)]]
        if error_code := dice.choose((0, 0, 0, 30)):
            topics = []
        answered = [
            DescribeShareGroupOffsetsResponseTopic(name, bytes(16), [_row(index, dice) for index in indexes])
            for name, indexes in topics
        ]
        groups.append(
            DescribeShareGroupOffsetsResponseGroup(group.group_id, answered, error_code, "no" if error_code else None)
        )
    return Answer(dice.number(), groups)


def _row(index: int, dice: Dice) -> DescribeShareGroupOffsetsResponsePartition:
    if error_code := dice.choose(_ERRORS):
        return DescribeShareGroupOffsetsResponsePartition(index, -1, 0, -1, error_code, "no")
    return DescribeShareGroupOffsetsResponsePartition(
        index, dice.choose((5, 0, -1)), dice.below(3), dice.choose((-1, 3))
    )


def seeds() -> Iterator[bytes]:
    """Yield decisions at random."""
    random = Random(6)
    for _ in range(40):
        yield fresh(random)


def fresh(random: Random) -> bytes:
    """Return decisions at random."""
    return random.randbytes(random.choice((20, 60, 200)))


TARGET: Final = Target("lag_answers", "DescribeShareGroupOffsets requests and answers", run, seeds, fresh, 600)

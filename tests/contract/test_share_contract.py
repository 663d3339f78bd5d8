"""The simulated cluster answers share consumers as real brokers do, request by request, in every story and release."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import pytest

from shareproxy.protocol import messages as m
from tests.contract.conftest import Pair
from tests.contract.member import Member
from tests.contract.share_stories import GROUPS, LIMITING, RENEWING, SMALL, STORIES, Ground, Story
from tests.contract.stages import Stage
from tests.contract.wire import Wire
from tests.support.waiting import wait_until

# where a whole further look would only take time
LIKE_ANOTHER = {"4.2.0": "4.2.2", "4.3.1": "4.4.0"}
EVERY_GROUP = {"share.auto.offset.reset": "earliest", "share.heartbeat.interval.ms": "200"}


@dataclass(frozen=True)
class Grounds:
    """The grounds of all stories, on both clusters, by the stories' names."""

    version: str
    real: Mapping[str, Ground]
    simulated: Mapping[str, Ground]


@pytest.fixture(scope="module")
def grounds(pair: Pair) -> Grounds:
    """A topic for each story, and the groups, which begin with all topics at once, as that takes real brokers long."""
    if pair.version in LIKE_ANOTHER:
        pytest.skip(f"Kafka {pair.version} treats share consumers as {LIKE_ANOTHER[pair.version]} does")
    return Grounds(
        pair.version,
        _prepared(pair.real_stage, pair.real_wire, pair.version),
        _prepared(pair.simulated_stage, pair.simulated_wire, pair.version),
    )


def _prepared(stage: Stage, wire: Wire, version: str) -> dict[str, Ground]:
    names = [story.__name__ for story in STORIES]
    for name in names:
        stage.create_topic(name)
    for group in _groups(version):
        stage.set_group_config(group, EVERY_GROUP | GROUPS[group])
    answer = wire.ask(m.MetadataRequest([m.MetadataRequestTopic(name=name) for name in names], False))
    grounds = {
        topic.name or "": Ground(stage, wire.address, topic.name or "", topic.topic_id, version >= "4.2")
        for topic in answer.topics
    }
    for group in _groups(version):
        _begin(Member(wire.address, group), names)
    return grounds


def _groups(version: str) -> list[str]:
    return [group for group in GROUPS if group != SMALL or version >= "4.3"]


def _begin(member: Member, topics: list[str]) -> None:
    """Join until everything is assigned, then leave: the group has the topics' states from now on."""
    member.ask(m.FindCoordinatorRequest("", 0, [member.group]))
    known: set[bytes] = set()

    def assigned() -> bool:
        answer = member.beat(topics if member.member_epoch == 0 else None)
        if answer.assignment is not None:
            known.update(row.topic_id for row in answer.assignment.topic_partitions)
        return len(known) == len(topics)

    wait_until(assigned, f"{member.group} has begun")
    member.beat(epoch=-1)


@pytest.mark.parametrize("story", STORIES, ids=lambda story: story.__name__)
def test_the_same_answers(story: Story, grounds: Grounds) -> None:
    """Every line of the story reads the same on both clusters."""
    if (story in RENEWING and grounds.version < "4.2") or (story in LIMITING and grounds.version < "4.3"):
        pytest.skip(f"Kafka {grounds.version} does not have that")

    real = list(story(grounds.real[story.__name__]))
    simulated = list(story(grounds.simulated[story.__name__]))

    unlike = [
        f"{one[0]}\n  real      {one[1]}\n  simulated {other[1]}"
        for one, other in zip(real, simulated, strict=False)
        if one != other
    ]
    assert not unlike, "\n".join([f"Kafka {grounds.version}:", *unlike])
    assert len(real) == len(simulated)

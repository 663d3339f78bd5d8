"""The simulated cluster answers as real brokers do, row by row, in every story and every release."""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Iterator
from typing import Any

import pytest

from shareproxy.protocol.messages import MetadataRequest, MetadataRequestTopic
from tests.contract.conftest import Pair
from tests.contract.observation import comparable, differences, observe
from tests.contract.questions import questions
from tests.contract.scenarios import STORIES, Story, begin
from tests.support.waiting import wait_until

SETTLE_SECONDS = 3.0  # a real broker writes some things a moment after the client was told that they are done
# Kafka's client may fetch once more what it has just released, before it leaves; then the story is told again
TRIES = 3
_numbers = itertools.count(1)


@pytest.mark.parametrize("story", STORIES, ids=lambda story: story.__name__)
def test_the_same_rows(story: Story, pair: Pair) -> None:
    """At each moment of the story every answer of the simulated cluster is that of the real one."""
    for _ in range(TRIES):
        unlike = _told(story, pair)
        if not unlike:
            break

    assert not unlike, "\n".join([f"Kafka {pair.version}:", *unlike])


def _told(story: Story, pair: Pair) -> list[str]:
    """Play a story on a topic and a group of its own, and return a line for each difference."""
    number = next(_numbers)
    topic, group = f"topic-{number}", f"group-{number}"
    if "colon" in story.__name__:
        group = f"{group}:with:colons"
    topics = [topic, f"{topic}-other"]
    return [
        f"{moment}: {line}" for moment in _together(story, pair, topic, group) for line in _unlike(pair, group, topics)
    ]


def _unlike(pair: Pair, group: str, topics: list[str]) -> list[str]:
    """Return a line for each question that both clusters still answer differently after a while."""
    found: dict[str, tuple[Any, Any]] = {}

    def same() -> bool:
        found.clear()
        real = observe(pair.real_wire, group, topics)
        found.update(differences(real, observe(pair.simulated_wire, group, topics)))
        return not found

    with contextlib.suppress(AssertionError):
        wait_until(same, "both answer the same", SETTLE_SECONDS)
    return [f"{name}\n  real      {real}\n  simulated {simulated}" for name, (real, simulated) in found.items()]


def _together(story: Story, pair: Pair, topic: str, group: str) -> Iterator[str]:
    """Play the story on both clusters, from moment to moment."""
    real, simulated = story(pair.real_stage, topic, group), story(pair.simulated_stage, topic, group)
    try:
        for moment, other in zip(real, simulated, strict=True):
            assert moment == other
            yield moment
    finally:
        for told in (real, simulated):
            told.close()  # type: ignore[attr-defined]


def test_the_same_refusals(pair: Pair) -> None:
    """What nobody should ask gets the same errors and texts."""
    answers = []
    for stage, wire in ((pair.real_stage, pair.real_wire), (pair.simulated_stage, pair.simulated_wire)):
        begin(stage, "refusals", "refused")
        stage.create_topic("stateless")
        stage.produce("refusals", 0, 5)
        stage.share_consume("refused", ["refusals"], {0: "accept"}, otherwise="release", max_records=5)
        [topic] = wire.ask(MetadataRequest([MetadataRequestTopic(name="refusals")], False)).topics
        names = {topic.topic_id: "refusals"}
        asked = questions("refused", "refusals", topic.topic_id)
        answers.append({name: comparable(wire.ask(request, version), names) for name, request, version in asked})

    real, simulated = answers
    unlike = [
        f"{name}\n  real      {real[name]}\n  simulated {simulated[name]}" for name in differences(real, simulated)
    ]
    assert not unlike, "\n".join([f"Kafka {pair.version}:", *unlike])

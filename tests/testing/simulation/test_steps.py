"""Which step of a share consumer's life a request is."""

from __future__ import annotations

import pytest

from shareproxy.protocol import messages as m
from shareproxy.protocol.message import Request
from shareproxy.testing.simulation.steps import Step, steps_of


def fetch(epoch: int, *types: int) -> m.ShareFetchRequest:
    """Return a fetch with one acknowledgement of these types."""
    batches = [m.ShareFetchRequestAcknowledgementBatch(0, 0, list(types))] if types else []
    row = m.ShareFetchRequestFetchPartition(0, 0, batches)
    return m.ShareFetchRequest("g", "m", epoch, topics=[m.ShareFetchRequestFetchTopic(bytes(16), [row])])


@pytest.mark.parametrize(
    ("message", "steps"),
    [
        (m.ShareGroupHeartbeatRequest("g", "m", 0), {Step.JOIN}),
        (m.ShareGroupHeartbeatRequest("g", "m", 5), {Step.HEARTBEAT}),
        (m.ShareGroupHeartbeatRequest("g", "m", -1), {Step.LEAVE}),
        (fetch(0), {Step.OPEN}),
        (fetch(1), {Step.FETCH}),
        (fetch(1, 1), {Step.FETCH, Step.ACKNOWLEDGE}),
        (fetch(1, 4), {Step.FETCH, Step.RENEW}),
        (fetch(1, 4, 2), {Step.FETCH, Step.RENEW, Step.ACKNOWLEDGE}),
        (fetch(-1, 2), {Step.CLOSE, Step.ACKNOWLEDGE}),
        (m.ShareAcknowledgeRequest("g", "m", 3), set()),
        (m.ShareAcknowledgeRequest("g", "m", -1), {Step.CLOSE}),
        (m.MetadataRequest(), set()),
        (None, set()),
    ],
)
def test_steps(message: Request[m.MetadataResponse] | None, steps: set[Step]) -> None:
    """A fetch that carries acknowledgements is two."""
    assert steps_of(message) == steps

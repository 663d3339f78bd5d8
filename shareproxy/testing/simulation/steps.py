"""Which step of a share consumer's life a request is, so that a fault can be about one of them.

In: a request. Out: its steps; a fetch that carries acknowledgements is two. Must never: change the request.
"""

from __future__ import annotations

from collections.abc import Iterator
from enum import StrEnum
from typing import Any, Final

from shareproxy.protocol import messages as m
from shareproxy.protocol.message import Request

FIRST_EPOCH: Final = 0
LAST_EPOCH: Final = -1
RENEW: Final = 4


class Step(StrEnum):
    """What a share consumer does."""

    JOIN = "join"
    HEARTBEAT = "heartbeat"
    LEAVE = "leave"
    OPEN = "open"
    FETCH = "fetch"
    ACKNOWLEDGE = "acknowledge"
    RENEW = "renew"
    CLOSE = "close"


ACKNOWLEDGING: Final = frozenset({Step.ACKNOWLEDGE, Step.RENEW})
NO_STEPS: Final[frozenset[Step]] = frozenset()


def steps_of(message: Request[Any] | None) -> frozenset[Step]:
    """Return the steps of a request, none for one that is no share consumer's."""
    if isinstance(message, m.ShareGroupHeartbeatRequest):
        return frozenset({_OF_MEMBERS.get(message.member_epoch, Step.HEARTBEAT)})
    if isinstance(message, m.ShareFetchRequest | m.ShareAcknowledgeRequest):
        return frozenset(_steps(message))
    return NO_STEPS


_OF_MEMBERS: Final = {FIRST_EPOCH: Step.JOIN, LAST_EPOCH: Step.LEAVE}
_OF_SESSIONS: Final = {FIRST_EPOCH: Step.OPEN, LAST_EPOCH: Step.CLOSE}


def _steps(message: m.ShareFetchRequest | m.ShareAcknowledgeRequest) -> Iterator[Step]:
    fetches = isinstance(message, m.ShareFetchRequest)
    if message.share_session_epoch in _OF_SESSIONS:
        yield _OF_SESSIONS[message.share_session_epoch]
    elif fetches:
        yield Step.FETCH
    for topic in message.topics:
        for row in topic.partitions:
            for batch in row.acknowledgement_batches:
                kinds = set(batch.acknowledge_types)
                if RENEW in kinds:
                    yield Step.RENEW
                if kinds - {RENEW}:
                    yield Step.ACKNOWLEDGE

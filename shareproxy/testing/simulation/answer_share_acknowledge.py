"""What leaders answer to members that acknowledge without fetching: ShareAcknowledge.

In: calls. Out: a result per partition. Must never: answer before the acknowledgements count.
"""

from __future__ import annotations

from shareproxy.protocol import messages as m
from shareproxy.testing.simulation.call import Call
from shareproxy.testing.simulation.share_requests import (
    Refusal,
    acknowledge,
    acknowledged,
    lock_milliseconds,
    refused,
    releases,
)
from shareproxy.testing.simulation.share_sessions import INVALID_EPOCH, Place
from shareproxy.testing.simulation.sharing import end_session, wake_for_released
from shareproxy.testing.simulation.steps import FIRST_EPOCH, LAST_EPOCH


def share_acknowledge(call: Call[m.ShareAcknowledgeRequest]) -> m.ShareAcknowledgeResponse:
    """Answer ShareAcknowledge."""
    message = call.message
    code, text = refused(call)
    if code:
        return m.ShareAcknowledgeResponse(0, code, text)
    epoch = message.share_session_epoch
    if epoch == FIRST_EPOCH:
        return m.ShareAcknowledgeResponse(0, INVALID_EPOCH)
    session = call.node.sessions.find(message.group_id or "", message.member_id or "", epoch)
    if isinstance(session, int):
        return m.ShareAcknowledgeResponse(0, session)
    session.advance()
    results = {place: acknowledge(call, place, batches) for place, batches in acknowledged(call)}
    if epoch == LAST_EPOCH:
        end_session(call.state, call.node, session)
    else:
        freed = [place for place, rows in acknowledged(call) if releases(rows) and not results[place][0]]
        wake_for_released(call.state, freed)
    return m.ShareAcknowledgeResponse(acquisition_lock_timeout_ms=lock_milliseconds(call), responses=_rows(results))


def _rows(results: dict[Place, Refusal]) -> list[m.ShareAcknowledgeTopicResponse]:
    topics: dict[bytes, list[m.ShareAcknowledgeResponsePartitionData]] = {}
    for (topic_id, index), (code, text) in results.items():
        topics.setdefault(topic_id, []).append(m.ShareAcknowledgeResponsePartitionData(index, code, text))
    return [m.ShareAcknowledgeTopicResponse(topic_id, rows) for topic_id, rows in topics.items()]

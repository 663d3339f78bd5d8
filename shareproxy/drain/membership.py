"""Decide what a member of a share group tells its coordinator, and when: it joins, beats, joins again, leaves.

In: answers to ShareGroupHeartbeat (76), lost answers, the time. Out: the next request, and what each answer changed.
Must never: read a clock, or send two requests at once. Losing membership touches neither sessions nor held records.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import Enum
from math import inf
from typing import Final
from uuid import uuid4

import msgspec

from shareproxy.protocol.errors import ErrorCode
from shareproxy.protocol.ids import TopicId, topic_id_text
from shareproxy.protocol.messages import ShareGroupHeartbeatRequest, ShareGroupHeartbeatResponse

Assignment = Mapping[TopicId, tuple[int, ...]]
"""Partition numbers, ascending, by topic."""

LONGEST_MEMBER_ID: Final = 36
"""Characters that Kafka 4.2 takes at most."""

UNKNOWN_MEMBER_ID: Final = 25
GROUP_MAX_SIZE_REACHED: Final = 81
FENCED_MEMBER_EPOCH: Final = 110

_LEAVING_EPOCH: Final = -1
# Kafka's default for share groups, in seconds, until an answer says what is true
_USUAL_INTERVAL: Final = 5.0
# the first assignment takes 0.2 to 1.2 s (facts §3.1); where the topic is still missing it may take for ever
_FAST_INTERVAL: Final = 0.3
_FAST_GROWTH: Final = 1.5
_FIRST_RETRY: Final = 0.1
# a cold cluster refuses the first heartbeats while it makes its group's topic ready
_LONGEST_RETRY: Final = 1.0


class MemberState(Enum):
    """Where a member is in its life."""

    JOINING = "joining"
    """It has not been let in yet, or has to be let in again."""
    WAITING = "waiting"
    """It is in, and no partition has been assigned to it yet: it beats fast."""
    STEADY = "steady"
    """It is in and has partitions."""
    LEAVING = "leaving"
    """The next request says goodbye."""
    LEFT = "left"
    """It is out; nothing more is sent."""
    REFUSED = "refused"
    """The coordinator will never let it in; nothing more is sent."""


class Refusal(Enum):
    """Why a member will never be let in."""

    NOT_A_SHARE_GROUP = "not_a_share_group"
    """The id belongs to a group of another type (69 on joining)."""
    ACCESS_DENIED = "access_denied"
    """29, 30, 31."""
    INVALID = "invalid"
    """24, 42: group, member id or topics are not as the broker wants them."""
    NOT_SUPPORTED = "not_supported"
    """35: share groups are off."""


_REFUSALS: Final[Mapping[int, Refusal]] = {
    ErrorCode.GROUP_ID_NOT_FOUND: Refusal.NOT_A_SHARE_GROUP,
    ErrorCode.TOPIC_AUTHORIZATION_FAILED: Refusal.ACCESS_DENIED,
    ErrorCode.GROUP_AUTHORIZATION_FAILED: Refusal.ACCESS_DENIED,
    ErrorCode.CLUSTER_AUTHORIZATION_FAILED: Refusal.ACCESS_DENIED,
    ErrorCode.INVALID_GROUP_ID: Refusal.INVALID,
    ErrorCode.INVALID_REQUEST: Refusal.INVALID,
    ErrorCode.UNSUPPORTED_VERSION: Refusal.NOT_SUPPORTED,
}
# the coordinator knows the member no more, or another epoch of it, or (69, once joined) the group no more
_FENCED: Final = frozenset({UNKNOWN_MEMBER_ID, FENCED_MEMBER_EPOCH, int(ErrorCode.GROUP_ID_NOT_FOUND)})
_ELSEWHERE: Final = frozenset({int(ErrorCode.COORDINATOR_NOT_AVAILABLE), int(ErrorCode.NOT_COORDINATOR)})


class HeartbeatOutcome(msgspec.Struct, frozen=True):
    """What an answer, or its loss, changed.

    Attributes:
        assignment: all partitions from now on, where that changed; else `None`.
        joined: whether the coordinator let the member in with this answer (also again).
        fenced: whether the coordinator had forgotten or overtaken the member (25, 110, 69 later on): it joins again.
        find_coordinator: whether the coordinator has to be looked up before the next request.
        group_full: whether there is no place in the group (81); joining is tried again.
        refused: why nothing more is sent.
        left: whether the member is out, as it wished.
        error_code: Kafka's; `None` where no answer came.
        message: the broker's words.
    """

    assignment: Assignment | None = None
    joined: bool = False
    fenced: bool = False
    find_coordinator: bool = False
    group_full: bool = False
    refused: Refusal | None = None
    left: bool = False
    error_code: int | None = 0
    message: str | None = None


def new_member_id() -> str:
    """Return a member id that nobody else has: 22 characters of URL-safe base64."""
    return topic_id_text(TopicId(uuid4().bytes))


class Membership:
    """One member of one share group; it is driven by `next_request`, `on_answer` and `on_lost`.

    Args:
        group: id of the share group.
        topics: exact names, at least one.
        member_id: as the member keeps it for life; a new one by itself.
        rack: where it runs.

    Raises:
        ValueError: no group, no topic, or a member id that is empty or too long.
    """

    def __init__(
        self, group: str, topics: Iterable[str], *, member_id: str | None = None, rack: str | None = None
    ) -> None:
        self.member_id = new_member_id() if member_id is None else member_id
        if not group:
            raise ValueError("a share group needs a name")
        if not 0 < len(self.member_id) <= LONGEST_MEMBER_ID:
            raise ValueError(f"a member id has 1 to {LONGEST_MEMBER_ID} characters, not {len(self.member_id)}")
        self.group, self.rack = group, rack
        self.topics = _names(topics)
        self.state = MemberState.JOINING
        self.epoch = 0
        """What the next heartbeat says."""
        self.assignment: Assignment = {}
        """What was assigned last; empty before that."""
        self.interval = _USUAL_INTERVAL
        """Seconds between heartbeats, as the coordinator wants it."""
        self._in_flight: ShareGroupHeartbeatRequest | None = None
        self._due = -inf
        self._assigned = False  # since it joined last
        self._fast = _FAST_INTERVAL
        self._failures = 0
        self._ever_sent = False

    @property
    def wake_at(self) -> float | None:
        """Return when `next_request` has something; `None` while an answer is awaited and at the end; −inf for now."""
        return None if self._in_flight is not None or self._over else self._due

    @property
    def _over(self) -> bool:
        return self.state in (MemberState.LEFT, MemberState.REFUSED)

    def next_request(self, now: float) -> ShareGroupHeartbeatRequest | None:
        """Return the heartbeat that is due now, if one is; its answer or loss must come before the next one."""
        if self._in_flight is not None or self._over or now < self._due:
            return None
        leaving, joining = self.state is MemberState.LEAVING, self.state is MemberState.JOINING
        self._in_flight = ShareGroupHeartbeatRequest(
            group_id=self.group,
            member_id=self.member_id,
            member_epoch=_LEAVING_EPOCH if leaving else self.epoch,
            rack_id=self.rack if joining else None,
            # told again, they make the coordinator write the whole assignment again (facts §3.1)
            subscribed_topic_names=list(self.topics) if joining else None,
        )
        self._ever_sent = True
        return self._in_flight

    def on_answer(self, response: ShareGroupHeartbeatResponse, now: float) -> HeartbeatOutcome:
        """Take the answer to the last request.

        Raises:
            ValueError: there was none.
        """
        request = self._in_flight
        if request is None:
            raise ValueError("no answer to a heartbeat is awaited")
        self._in_flight = None
        if request.member_epoch == _LEAVING_EPOCH:
            # whatever it says: the member was there no more, or will be given up after its session's time
            self.state, self.assignment = MemberState.LEFT, {}
            return HeartbeatOutcome(left=True, error_code=response.error_code, message=response.error_message)
        if response.error_code != ErrorCode.NONE:
            return self._take_error(request, response, now)
        self._failures = 0
        if response.heartbeat_interval_ms > 0:
            self.interval = response.heartbeat_interval_ms / 1000
        self.epoch = response.member_epoch
        joined = self.state is MemberState.JOINING
        changed = None
        if response.assignment is not None:
            assigned = {
                TopicId(topic.topic_id): tuple(sorted(topic.partitions))
                for topic in response.assignment.topic_partitions
                if topic.partitions
            }
            self._assigned = bool(assigned)
            if assigned != self.assignment:
                self.assignment = changed = assigned
        if self.state is not MemberState.LEAVING:
            self.state = MemberState.STEADY if self._assigned else MemberState.WAITING
            self._due = now + self._pause()
        return HeartbeatOutcome(assignment=changed, joined=joined)

    def on_lost(self, now: float) -> HeartbeatOutcome:
        """Take it that the last request got no answer: the same is sent again after a pause (never a later epoch)."""
        request, self._in_flight = self._in_flight, None
        if self._over:
            return HeartbeatOutcome(error_code=None)
        if request is not None and request.member_epoch == _LEAVING_EPOCH:
            # the goodbye may have arrived; if not, the coordinator gives the member up after its session's time
            self.state, self.assignment = MemberState.LEFT, {}
            return HeartbeatOutcome(left=True, error_code=None)
        self._retry(now)
        return HeartbeatOutcome(find_coordinator=True, error_code=None)

    def leave(self) -> None:
        """Say goodbye with the next request, which is due at once; who never asked to join has left already."""
        if not self._over:
            self.state = MemberState.LEAVING if self._ever_sent else MemberState.LEFT
            self._due = -inf

    def _pause(self) -> float:
        """Return when to beat again after a good answer: fast as long as no partition has come, ever slower."""
        if self._assigned:
            self._fast = _FAST_INTERVAL
            return self.interval
        pause = min(self._fast, self.interval)
        self._fast = min(self._fast * _FAST_GROWTH, self.interval)
        return pause

    def _retry(self, now: float) -> None:
        if self.state is not MemberState.LEAVING:
            self._due = now + min(_FIRST_RETRY * 2**self._failures, _LONGEST_RETRY)
        self._failures = min(self._failures + 1, 10)

    def _take_error(
        self, request: ShareGroupHeartbeatRequest, response: ShareGroupHeartbeatResponse, now: float
    ) -> HeartbeatOutcome:
        code, message = response.error_code, response.error_message
        if self.state is MemberState.LEAVING:
            # the goodbye goes out next
            return HeartbeatOutcome(find_coordinator=code in _ELSEWHERE, error_code=code, message=message)
        refusal = _REFUSALS.get(code)
        if code == ErrorCode.GROUP_ID_NOT_FOUND and request.member_epoch != 0:
            refusal = None
        if refusal is not None:
            self.state = MemberState.REFUSED
            return HeartbeatOutcome(refused=refusal, error_code=code, message=message)
        if code in _FENCED:
            return self._join_again(request, response, now)
        self._retry(now)
        if code == GROUP_MAX_SIZE_REACHED:
            self._due = now + self.interval
        return HeartbeatOutcome(
            find_coordinator=code in _ELSEWHERE,
            group_full=code == GROUP_MAX_SIZE_REACHED,
            error_code=code,
            message=message,
        )

    def _join_again(
        self, request: ShareGroupHeartbeatRequest, response: ShareGroupHeartbeatResponse, now: float
    ) -> HeartbeatOutcome:
        """Start over with the same id. Only 110 says that the assignment is out of date; 25 leaves it as it was."""
        changed: Assignment | None = None
        if response.error_code == FENCED_MEMBER_EPOCH and self.assignment:
            self.assignment = changed = {}
        if request.member_epoch == 0:
            self._retry(now)  # that was a join already
        else:
            self._due = -inf
        self.state, self.epoch, self._assigned = MemberState.JOINING, 0, False
        self._fast = _FAST_INTERVAL
        return HeartbeatOutcome(
            assignment=changed, fenced=True, error_code=response.error_code, message=response.error_message
        )


def _names(topics: Iterable[str]) -> list[str]:
    names = sorted(set(topics))
    if not names or not all(names):
        raise ValueError("a member needs at least one topic, by its exact name")
    return names

"""Keep a member in its group: heartbeats to the coordinator, wherever it is.

In: what the membership wants to send. Out: assignments, events, or the reason why the group does not take the member.
Must never: create a second member, or wait for the share sessions.
"""

from __future__ import annotations

import asyncio
import contextlib
from typing import Final, Protocol

from shareproxy.admin.errors import AccessDenied, AdminError, NotAShareGroup, NotSupported, WrongArgument
from shareproxy.admin.failures import READ
from shareproxy.cluster.cluster import CONTROL, Cluster
from shareproxy.cluster.errors import BrokerError, ClusterError, UnsupportedApi
from shareproxy.cluster.retries import Backoff, Retry
from shareproxy.drain.errors import DrainError, GroupIsFull
from shareproxy.drain.events import BrokerLost, ConsumerEvent, GroupFull, MemberFenced
from shareproxy.drain.membership import Assignment, HeartbeatOutcome, Membership, MemberState, Refusal
from shareproxy.protocol.errors import ErrorCode, error_name
from shareproxy.protocol.ids import GroupId, NodeId
from shareproxy.protocol.messages import FindCoordinatorRequest

GROUP_KEY: Final = 0
# FindCoordinator takes a list of keys from here on; every broker with share groups knows it
FIND_VERSION: Final = 4
# a coordinator that is silent for longer is looked up again: members are given up after 45 s
HEARTBEAT_SECONDS: Final = 10.0
SHORTEST_SLEEP: Final = 0.002


class Owner(Protocol):
    """What a membership needs of its consumer."""

    def assigned(self, assignment: Assignment) -> None:
        """Take all partitions of this member from now on."""

    def tell(self, event: ConsumerEvent) -> None:
        """Tell the caller."""

    def failed(self, error: Exception) -> None:
        """Give up: the same would happen again."""


class MembershipLoop:
    """One member of one share group.

    Args:
        membership: not joined yet.
        cluster: finds and reaches the coordinator.
        owner: the consumer.
        request_timeout: seconds for joining; one heartbeat takes half of it at most.
    """

    def __init__(self, membership: Membership, cluster: Cluster, owner: Owner, request_timeout: float) -> None:
        self.membership = membership
        self._cluster, self._owner, self._request_timeout = cluster, owner, request_timeout
        self._coordinator: NodeId | None = None
        self._wake = asyncio.Event()
        self._joined: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._trouble: Exception | None = None
        self._left = False

    async def joined(self, deadline: float) -> None:
        """Wait until the group has taken the member.

        Raises:
            AdminError, DrainError: it has not, or not in time; says why.
        """
        done, _ = await asyncio.wait([self._joined], timeout=deadline - asyncio.get_running_loop().time())
        if done:
            self._joined.result()
        elif self._trouble is not None:
            raise self._trouble
        else:
            group = self.membership.group
            raise DrainError(f"group {group!r} did not take the member in time; is its coordinator well?")

    def leave(self) -> None:
        """Say goodbye; `run` returns then."""
        self._left = True
        self.membership.leave()
        self._wake.set()

    async def run(self) -> None:
        """Beat until the member has left or is refused."""
        try:
            await self._beat()
        except Exception as error:  # a bug: whoever waits for the group shall not do so to the end
            if not self._joined.done():
                self._give_up(error)
            raise

    async def _beat(self) -> None:
        membership, clock = self.membership, asyncio.get_running_loop().time
        while membership.state not in (MemberState.LEFT, MemberState.REFUSED):
            self._wake.clear()
            now = clock()
            request = membership.next_request(now)
            if request is None:
                await self._sleep(membership.wake_at)
                continue
            # half of it, so that a coordinator that is silent leaves time for the one after it
            deadline = now + min(self._request_timeout / 2, HEARTBEAT_SECONDS)
            try:
                coordinator = await self._find(deadline)
                answer = await self._cluster.request(coordinator, request, deadline=deadline, purpose=CONTROL)
            except ClusterError as error:
                self._lost(error)
                outcome = membership.on_lost(clock())
            else:
                outcome = membership.on_answer(answer, clock())
            self._take(outcome)
            if self._left and outcome.error_code is None:
                return  # the broker forgets a silent member by itself

    async def _find(self, deadline: float) -> NodeId:
        """Return the coordinator. Unlike a look at lag, joining may create the topic that groups are kept in."""
        if self._coordinator is not None:
            return self._coordinator
        group = GroupId(self.membership.group)
        backoff = Backoff()
        while True:
            answer = await self._cluster.ask_any(
                FindCoordinatorRequest(key_type=GROUP_KEY, coordinator_keys=[group]),
                deadline=deadline,
                min_version=FIND_VERSION,
            )
            row = answer.coordinators[0] if answer.coordinators else None
            code = row.error_code if row is not None else int(ErrorCode.COORDINATOR_NOT_AVAILABLE)
            if row is not None and not code:
                self._coordinator = NodeId(row.node_id)
                return self._coordinator
            error = BrokerError(code, row.error_message if row else None, f"group {group}: no coordinator")
            if error.retry is Retry.FINAL or not await backoff.pause(deadline):
                raise error

    def _lost(self, error: ClusterError) -> None:
        self._trouble = _from_cluster(error, self.membership.group)
        final = isinstance(error, UnsupportedApi) or (
            isinstance(error, BrokerError) and error.code == ErrorCode.GROUP_AUTHORIZATION_FAILED
        )
        if final or (error.retry is Retry.FINAL and not self._joined.done()):
            self._give_up(self._trouble)
            return
        self._owner.tell(BrokerLost(self._coordinator, str(error)))
        self._coordinator = None

    def _take(self, outcome: HeartbeatOutcome) -> None:
        membership = self.membership
        if outcome.find_coordinator:
            self._coordinator = None
        if outcome.fenced:
            self._owner.tell(MemberFenced(outcome.error_code or 0, outcome.message))
        if outcome.group_full:
            full = GroupIsFull(
                f"group {membership.group!r} is full: {outcome.message or 'it has as many members as brokers allow'}; "
                "stop a member, or raise group.share.max.size on the brokers",
                outcome.error_code,
            )
            self._trouble = full
            self._owner.tell(GroupFull(str(full)))
        elif outcome.error_code and not outcome.fenced and self._trouble is None:
            self._trouble = DrainError(
                f"group {membership.group!r}: {outcome.message or error_name(outcome.error_code)}", outcome.error_code
            )
        if outcome.refused is not None:
            self._give_up(_from_refusal(outcome, membership))
        if outcome.assignment is not None:
            self._owner.assigned(outcome.assignment)
        if outcome.joined and not self._joined.done():
            self._trouble = None
            self._joined.set_result(None)

    def _give_up(self, error: Exception) -> None:
        if not self._joined.done():
            self._joined.set_exception(error)
            self._joined.exception()  # whether anybody waits or not
        else:
            self._owner.failed(error)

    async def _sleep(self, until: float | None) -> None:
        clock = asyncio.get_running_loop().time
        if until is None:
            await self._wake.wait()
            return
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout_at(max(until, clock() + SHORTEST_SLEEP)):
                await self._wake.wait()


def _from_cluster(error: ClusterError, group: str) -> Exception:
    from shareproxy.admin.failures import admin_error

    if isinstance(error, UnsupportedApi):
        return NotSupported(
            f"{error}; share groups need Kafka 4.1 with feature share.version switched on, or Kafka 4.2",
            int(ErrorCode.UNSUPPORTED_VERSION),
        )
    if isinstance(error, BrokerError) and error.code == ErrorCode.GROUP_AUTHORIZATION_FAILED:
        return _denied(group, error.code)
    return admin_error(error, group)


def _denied(group: str, code: int | None) -> AccessDenied:
    resource = f"group {group!r}"
    return AccessDenied(
        f"this user may not consume with {resource}: READ on the group is needed",
        code,
        operation=READ,
        resource=resource,
    )


def _from_refusal(outcome: HeartbeatOutcome, membership: Membership) -> AdminError:
    group, code = membership.group, outcome.error_code
    words = (outcome.message or "the broker gave no reason").rstrip(".")
    match outcome.refused:
        case Refusal.NOT_A_SHARE_GROUP:
            return NotAShareGroup(
                f"group {group!r} exists and is not a share group: {words}; choose another name, or delete that group",
                code,
            )
        case Refusal.ACCESS_DENIED if code == ErrorCode.TOPIC_AUTHORIZATION_FAILED:
            return AccessDenied(
                f"this user may not read the topics of group {group!r}: DESCRIBE on them is needed",
                code,
                operation="DESCRIBE",
                resource="topics",
            )
        case Refusal.ACCESS_DENIED:
            return _denied(group, code)
        case Refusal.NOT_SUPPORTED:
            return NotSupported(f"group {group!r}: share groups are switched off on the brokers: {words}", code)
        case _:
            return WrongArgument(f"the coordinator refuses the member: {words}", code)

"""Run the share session with one broker over a connection of its own.

In: partitions to serve, room for records, acknowledgements. Out: records in lots, results, events.
Must never: have two requests in flight, go on with a connection after a lost answer, or wait without a deadline.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
from collections import deque
from collections.abc import Coroutine, Iterable
from math import inf
from typing import Final, NamedTuple, Protocol

from shareproxy.cluster.addresses import Address
from shareproxy.cluster.connection import Connection
from shareproxy.cluster.errors import ClusterError
from shareproxy.cluster.security import Security
from shareproxy.drain.errors import DrainError
from shareproxy.drain.events import (
    AcknowledgementsLost,
    BrokerLost,
    ConsumerEvent,
    GapsAcknowledged,
    LockLost,
    PartitionRefused,
    RecordsSkipped,
    SessionReopened,
)
from shareproxy.drain.lot import HeldLot, PartitionAcks
from shareproxy.drain.model import Acknowledgement, OffsetRange, TopicPartition
from shareproxy.drain.record import ShareRecord
from shareproxy.drain.record_data import Deserializer, decode_acquired
from shareproxy.drain.session import (
    AcquiredRecords,
    EndReason,
    PartitionTrouble,
    Remedy,
    SessionEnd,
    SessionOutcome,
    SessionRequest,
    SessionResponse,
    SharePartition,
    ShareSession,
)
from shareproxy.drain.tickets import PendingAcks
from shareproxy.protocol.errors import error_name
from shareproxy.protocol.ids import NodeId
from shareproxy.protocol.messages import ShareAcknowledgeRequest, ShareFetchRequest

# acknowledgements that no fetch takes along go by themselves after this time, looked at twice in it
LINGER_SECONDS: Final = 0.1
LINGER_MS: Final = round(LINGER_SECONDS * 1000)
# Where records come one by one, a fetch takes no acknowledgements along: the broker would keep the records back until
# those are written down, some 10 ms. So many of them do go along: a partition has 2,000 locks.
MOST_LEFT: Final = 250
# A fetch that nobody waits for finds nothing: the next such one follows after this time. A broker could wait in our
# place, but so would acknowledgements.
QUIET_SECONDS: Final = 0.1
# What came so lately is acknowledged soon, and a fetch that the broker holds back for longer would hold that up.
BUSY_SECONDS: Final = 1.0
# with so many records in an answer the next request is written before they are decoded, and the broker works meanwhile
MANY_RECORDS: Final = 100
# seconds for one attempt to connect, login included
CONNECT_SECONDS: Final = 5.0
JITTER: Final = 0.2
# seconds; so that a session that wants to be asked at once, and has nothing to ask, cannot keep the event loop busy
SHORTEST_SLEEP: Final = 0.002


class Room(NamedTuple):
    """How many records may be asked for.

    Attributes:
        waits: whether the broker may wait for records; else it answers with what there is.
    """

    records: int
    waits: bool = True


NO_ROOM: Final = Room(0)


class Owner(Protocol):
    """What a broker loop needs of its consumer."""

    unseen: deque[PendingAcks]
    """Acknowledgements whose answer nobody looked at."""

    def room(self, loop: BrokerLoop) -> Room:
        """Return how many records may be asked for now."""

    def records_came(self, lot: HeldLot, records: list[ShareRecord]) -> None:
        """Take records to be handed out."""

    def acknowledged(self) -> None:
        """Take it that there is more room."""

    def tell(self, event: ConsumerEvent) -> None:
        """Tell the caller."""

    def misplaced(self, node_id: NodeId, trouble: PartitionTrouble) -> None:
        """Find out who leads a partition that left this broker."""

    def unreachable(self, node_id: NodeId) -> None:
        """Find out whether the partitions of this broker have moved."""

    def failed(self, error: Exception) -> None:
        """Give up: the same would happen again."""

    async def address_of(self, node_id: NodeId, deadline: float) -> Address:
        """Return where a broker is now."""


class BrokerLoop:
    """One broker, as a member of a share group sees it.

    Args:
        node_id: the broker.
        session: not opened yet.
        owner: the consumer.
        security, client_id: of the connection.
        request_timeout: seconds for an answer, beyond what the broker was asked to wait.
        deserializers: of keys and values.
    """

    def __init__(
        self,
        node_id: NodeId,
        session: ShareSession,
        owner: Owner,
        *,
        security: Security,
        client_id: str,
        request_timeout: float,
        deserializers: tuple[Deserializer | None, Deserializer | None],
    ) -> None:
        self.node_id, self.session = node_id, session
        self.has_more = False
        """Whether the last fetch brought about as many records as it asked for."""
        self.lost: str | None = None
        """Why this broker cannot be reached; `None` while it can, or nobody tried."""
        self._quiet_until = self._busy_until = -inf
        self.undecoded = 0
        """How many offsets came with the last answer and are not handed on yet."""
        self._fresh: list[tuple[HeldLot, AcquiredRecords]] = []
        self._owner = owner
        self._security, self._client_id, self._request_timeout = security, client_id, request_timeout
        self._key_deserializer, self._value_deserializer = deserializers
        self._acks: dict[SharePartition, PartitionAcks] = {}
        # by name, as results have it; a topic that was made anew can be there twice for a while
        self._by_name: dict[TopicPartition, list[PartitionAcks]] = {}
        self._noted: list[PartitionAcks] = []
        self._awaited = False
        self._overdue = False
        self._closing = False
        self._wake = asyncio.Event()
        self._linger: asyncio.TimerHandle | None = None
        self._reopening: SessionReopened | None = None
        self._connection: Connection | None = None

    # the consumer calls these

    def serve(self, partitions: Iterable[SharePartition]) -> None:
        """Say which partitions this broker shall serve from now on."""
        self.session.set_wanted(partitions)
        self._wake.set()

    def wake(self) -> None:
        """Look again whether something can be asked."""
        self._wake.set()

    def send_now(self) -> None:
        """Send acknowledgements without waiting for a fetch: somebody awaits the answer."""
        self._awaited = True
        self._wake.set()

    def outstanding(self) -> set[PendingAcks]:
        """Return the acknowledgements that have no answer yet."""
        return {pending for acks in self._acks.values() for pending in acks.outstanding()}

    def begin_close(self) -> None:
        """Fetch no more, deliver what was noted, close the session; `run` returns then."""
        self._closing = True
        self._wake.set()

    @property
    def busy(self) -> bool:
        """Whether an answer is here that was not looked at, or a request that is not written yet."""
        return self.session.in_flight and self._connection is not None and self._connection.idle

    @property
    def open_count(self) -> int:
        """Return how many offsets are held that nobody has acknowledged yet, whether handed out or not."""
        return sum(lot.open for acks in self._acks.values() for lot in acks.lots)

    async def run(self) -> None:
        """Serve until closed."""
        try:
            while not (self._closing and not self.session.is_open):
                if self.session.is_idle and not self.session.is_open:
                    await self._idle()
                    continue
                connection = await self._connect()
                if connection is None:
                    continue
                self._connection = connection
                try:
                    end = await self._serve(connection)
                finally:
                    self._connection = None
                    await connection.close()
                if end is not None and not end.final and not self._closing:
                    await self._pause(end.retry_after)
        finally:
            if self._linger is not None:
                self._linger.cancel()
            self._end_session("the consumer was closed before an answer came")

    async def _connect(self) -> Connection | None:
        now = asyncio.get_running_loop().time()
        deadline = now + min(CONNECT_SECONDS, self._request_timeout)
        try:
            address = await self._owner.address_of(self.node_id, deadline)
            connection = await Connection.open(address, self._security, client_id=self._client_id, deadline=deadline)
        except ClusterError as error:
            await self._lost(str(error))
            return None
        try:
            self.session.version = min(
                connection.version_of(ShareFetchRequest), connection.version_of(ShareAcknowledgeRequest)
            )
        except ClusterError as error:
            await connection.close()
            self._owner.failed(error)
            await self._lost(str(error))
            return None
        connection.when_finished(self._wake.set)
        return connection

    async def _lost(self, reason: str) -> None:
        """Deal with a broker that cannot be reached."""
        outcome = self.session.on_lost(asyncio.get_running_loop().time(), reason)
        self._take(outcome)
        self.lost = reason
        if outcome.end is None:
            self._end_session(reason)
        self._owner.tell(BrokerLost(self.node_id, reason))
        self._owner.unreachable(self.node_id)
        if not self._closing:
            await self._pause(outcome.end.retry_after if outcome.end else 0.5)

    async def _serve(self, connection: Connection) -> SessionEnd | None:
        """Ask and answer until the session or the connection ends."""
        session, clock = self.session, asyncio.get_running_loop().time
        while True:
            self._wake.clear()
            now = clock()
            if session.wake_at is not None and session.wake_at <= now:
                self._take(session.expire(now))
            if self._closing:
                session.begin_close()
            if connection.closed:
                return self._line_lost(f"node {self.node_id} closed the connection")
            room = NO_ROOM if self._closing else self._owner.room(self)
            quiet = room.records > 0 and not room.waits and now < self._quiet_until
            if quiet:
                room = NO_ROOM
            if connection.worn:
                # its login ends soon: let nothing more be held on it, and go on with a new one
                if not session.held_count and not session.unconfirmed_count and not self._noted:
                    session.on_lost(now, "the login is renewed")
                    return None
                room = NO_ROOM
            request = self._next_request(room, now)
            if request is None:
                if self._fresh:
                    self._decode()
                    continue
                if session.is_closed:
                    return None
                await self._sleep(min(session.wake_at or inf, self._quiet_until if quiet else inf))
                continue
            end = await self._ask(connection, request, now)
            if end is not None:
                return end

    def _next_request(self, room: Room, now: float) -> SessionRequest | None:
        overdue, awaited, noted = self._overdue, self._awaited, bool(self._noted)
        if awaited or self._closing:
            self._flush(whole=False)
        elif overdue or (room.records and self._takes_along()):
            self._flush(whole=True)  # else what was noted waits for a fetch that takes it along
        wait_ms = None if room.waits else 0
        session = self.session
        if noted or session.unconfirmed_count:
            wait_ms = 0  # somebody may wait for what it says of them; the next one waits for records
        elif room.waits and session.held_count and now < self._busy_until:
            wait_ms = min(LINGER_MS, session.limits.max_wait_ms)
        self._awaited = False
        return session.next_request(
            now, capacity=room.records, waiting=awaited or (overdue and not self.has_more), max_wait_ms=wait_ms
        )

    def _takes_along(self) -> bool:
        """Return whether the next fetch shall carry what was noted."""
        return self.has_more or self.session.held_count - self.open_count >= MOST_LEFT

    async def _ask(self, connection: Connection, request: SessionRequest, now: float) -> SessionEnd | None:
        session = self.session
        exchange = self._exchange(connection, request, now + self._request_timeout)
        try:
            answer = await (self._while_decoding(exchange) if self._fresh else exchange)
        except ClusterError as error:
            return self._line_lost(str(error))
        outcome = session.on_answer(answer, asyncio.get_running_loop().time())
        self.lost = None
        if isinstance(request, ShareFetchRequest):
            brought = sum(last - first + 1 for each in outcome.acquired for first, last, _ in each.ranges)
            self.has_more = 0 < request.max_records <= 2 * brought
            then = asyncio.get_running_loop().time()
            self._quiet_until = -inf if brought else then + QUIET_SECONDS
            if brought:
                self._busy_until = then + BUSY_SECONDS
        self._take(outcome)
        if outcome.end is not None:
            self._ended(outcome.end)
        elif self._reopening is not None and session.is_open:
            self._owner.tell(self._reopening)
            self._reopening = None
        return outcome.end

    async def _exchange(self, connection: Connection, request: SessionRequest, deadline: float) -> SessionResponse:
        if isinstance(request, ShareFetchRequest):
            deadline += request.max_wait_ms / 1000
            return await connection.request(request, deadline=deadline, max_version=self.session.version)
        return await connection.request(request, deadline=deadline, max_version=self.session.version)

    async def _while_decoding(self, exchange: Coroutine[None, None, SessionResponse]) -> SessionResponse:
        """Have a request written, decode what the last answer brought, and return the answer."""
        asking = asyncio.ensure_future(exchange)
        try:
            await asyncio.sleep(0)  # it is written now
            await asyncio.sleep(0)  # and uvloop has given it to the socket
            self._decode()
            return await asking
        finally:
            asking.cancel()

    def _line_lost(self, reason: str) -> SessionEnd:
        outcome = self.session.on_lost(asyncio.get_running_loop().time(), reason)
        self._take(outcome)
        end = outcome.end or SessionEnd(EndReason.LINE_LOST, None, reason, False, 0.1)
        self.lost = reason
        if not self._closing:
            self._owner.tell(BrokerLost(self.node_id, reason))
            self._owner.unreachable(self.node_id)
        self._ended(end)
        return end

    def _ended(self, end: SessionEnd) -> None:
        if end.reason is EndReason.CLOSED:
            self._end_session("the session was closed")
            return
        code = "" if end.error_code is None else f" ({error_name(end.error_code)})"
        reason = f"{end.message or end.reason.value}{code}"
        self._end_session(reason)
        if end.final:
            self._owner.failed(_final_error(self.node_id, end, reason))
        elif not self._closing:
            self._reopening = SessionReopened(self.node_id, reason, end.error_code)

    def _end_session(self, reason: str) -> None:
        """Take it that nothing is held of this broker any more."""
        self._decode()  # so that whoever hands them out tells of them
        for acks in self._acks.values():
            acks.lose_all(reason)
        self._noted.clear()
        self._acks.clear()
        self._by_name.clear()
        self._owner.acknowledged()

    # what came

    def _take(self, outcome: SessionOutcome) -> None:
        for result in outcome.results:
            for acks in self._by_name.get(result.partition, ()):
                acks.answer(result)
            if not result.confirmed:
                ranges = tuple(each for each, kind in result.ranges if kind is not Acknowledgement.RENEW)
                if ranges:
                    self._owner.tell(AcknowledgementsLost(result.partition, ranges, result.error_code, result.message))
        for lost in outcome.locks_lost:
            acks_of = self._acks.get(lost.partition)
            undone = acks_of.lose(lost.ranges) if acks_of is not None else ()
            if undone:
                self._owner.tell(LockLost(lost.partition.name, tuple(undone), delivered=True))
        for trouble in outcome.troubles:
            self._trouble(trouble)
        for acquired in outcome.acquired:
            self._hand_over(acquired)
        if self.undecoded < MANY_RECORDS:
            self._decode()
        if outcome.results or outcome.locks_lost:
            self._owner.acknowledged()

    def _trouble(self, trouble: PartitionTrouble) -> None:
        name = trouble.partition.name
        match trouble.remedy:
            case Remedy.MOVE | Remedy.REFRESH:
                self._owner.misplaced(self.node_id, trouble)
            case Remedy.STOP:
                self._owner.tell(PartitionRefused(name, trouble.error_code, trouble.message))
                self._owner.failed(_refused(name, trouble))
            case Remedy.WAIT:
                self._owner.tell(PartitionRefused(name, trouble.error_code, trouble.message))

    def _hand_over(self, acquired: AcquiredRecords) -> None:
        partition = acquired.partition
        acks = self._acks.get(partition)
        if acks is None:
            acks = PartitionAcks(partition, self.session, self._note, self.send_now, self._owner.unseen)
            self._acks[partition] = acks
            self._by_name.setdefault(partition.name, []).append(acks)
        lot = acks.hand_over(acquired.ranges, acquired.pieces)
        self._fresh.append((lot, acquired))
        self.undecoded += lot.open

    def _decode(self) -> None:
        """Decode what came, and hand it on."""
        fresh, self._fresh, self.undecoded = self._fresh, [], 0
        for lot, acquired in fresh:
            self._decode_lot(lot, acquired)

    def _decode_lot(self, lot: HeldLot, acquired: AcquiredRecords) -> None:
        partition = acquired.partition
        try:
            decoded = decode_acquired(
                acquired.records,
                acquired.ranges,
                topic=partition.topic,
                partition=partition.partition,
                lot=lot,
                key_deserializer=self._key_deserializer,
                value_deserializer=self._value_deserializer,
            )
        except DrainError as error:  # a package is missing that reads the compression
            lot.set_aside([OffsetRange(lot.first, lot.last)], Acknowledgement.RELEASE)
            self._owner.failed(error)
            return
        if decoded.gaps:
            lot.set_aside(decoded.gaps, Acknowledgement.GAP)
            self._owner.tell(GapsAcknowledged(partition.name, tuple(decoded.gaps)))
        if decoded.unread:
            lot.set_aside(decoded.unread, Acknowledgement.RELEASE)
        for damage in decoded.damaged:
            lot.set_aside(damage.ranges, Acknowledgement.RELEASE)
            self._owner.tell(RecordsSkipped(partition.name, damage.ranges, damage.reason, rejected=False))
        self._owner.records_came(lot, decoded.records)

    # what goes out

    def _note(self, acks: PartitionAcks) -> None:
        self._noted.append(acks)
        if self._linger is None and not self._closing:
            self._linger = asyncio.get_running_loop().call_later(LINGER_SECONDS / 2, self._lingered)

    def _lingered(self) -> None:
        self._linger = None
        if self._noted and not self._closing:
            if sum(acks.grow_old() for acks in self._noted):  # each of them has to be told
                self._overdue = True
            self._linger = asyncio.get_running_loop().call_later(LINGER_SECONDS / 2, self._lingered)
            self._wake.set()  # also for those who wait because no more may be held

    def _flush(self, *, whole: bool) -> None:
        """Give what was noted to the session; `whole` keeps parts of pieces back that have not waited long."""
        noted, self._noted = self._noted, []
        self._overdue = False
        self._noted += [acks for acks in noted if not acks.flush(whole=whole)]

    async def _sleep(self, until: float = inf) -> None:
        if self._wake.is_set():
            return
        if until == inf:
            await self._wake.wait()
            return
        until = max(until, asyncio.get_running_loop().time() + SHORTEST_SLEEP)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout_at(until):
                await self._wake.wait()

    async def _idle(self) -> None:
        """Wait until there is something to serve; the connection to a broker without partitions need not be kept."""
        self._wake.clear()
        if not self._closing:
            await self._sleep()

    async def _pause(self, seconds: float) -> None:
        """Wait before the next attempt; closing cuts it short."""
        until = asyncio.get_running_loop().time() + seconds * random.uniform(1.0, 1.0 + JITTER)
        while not self._closing and asyncio.get_running_loop().time() < until:
            self._wake.clear()
            await self._sleep(until)


def _final_error(node_id: NodeId, end: SessionEnd, reason: str) -> Exception:
    from shareproxy.admin.errors import AccessDenied

    text = f"node {node_id} refuses the share session: {reason}"
    if end.reason is EndReason.DENIED:
        return AccessDenied(f"{text}; READ on the group and its topics is needed", end.error_code)
    return DrainError(text, end.error_code)


def _refused(name: TopicPartition, trouble: PartitionTrouble) -> Exception:
    from shareproxy.admin.errors import AccessDenied

    return AccessDenied(
        f"this user may not read topic {name.topic!r}: READ on the topic is needed",
        trouble.error_code,
        operation="READ",
        resource=f"topic {name.topic!r}",
    )

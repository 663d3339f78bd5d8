"""The asyncio share consumer: records of a queue, handed out under a lock, acknowledged one by one or in batches.

In: brokers, a group, topics. Out: records and batches, results of acknowledgements, events.
Must never: acknowledge a record that nobody acknowledged (markers and holes of the log aside), or wait for ever without
having been asked to.
"""

from __future__ import annotations

import asyncio
import os
from collections import deque
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable, Sequence
from types import TracebackType
from typing import Any, Final, Never, Self

from shareproxy.admin.failures import admin_error
from shareproxy.cluster.addresses import Address
from shareproxy.cluster.cluster import Cluster
from shareproxy.cluster.errors import ClusterError
from shareproxy.cluster.security import Security
from shareproxy.drain.batch import RecordBatch, RecordBuffer
from shareproxy.drain.broker_loop import NO_ROOM, BrokerLoop, Room
from shareproxy.drain.consumer_settings import Acknowledging, check_settings, refuse_unknown, whole
from shareproxy.drain.deserializers import Deserializer, deserializer
from shareproxy.drain.errors import ConsumerClosed
from shareproxy.drain.event_stream import EventStream
from shareproxy.drain.events import AssignmentChanged, ConsumerEvent, LockLost, RecordsGivenBack
from shareproxy.drain.freed_memory import keep_freed_memory
from shareproxy.drain.lot import HeldLot
from shareproxy.drain.membership import Assignment, Membership, new_member_id
from shareproxy.drain.membership_loop import MembershipLoop
from shareproxy.drain.model import AckResults, AcquireMode, TopicPartition
from shareproxy.drain.pace import Pace, asked_ahead
from shareproxy.drain.placement import Placed, Placement
from shareproxy.drain.record import ShareRecord
from shareproxy.drain.session import FetchLimits, PartitionTrouble, ShareSession
from shareproxy.drain.tickets import PendingAcks, by_partition
from shareproxy.protocol.ids import NodeId
from shareproxy.protocol.messages import ShareAcknowledgeRequest

# renewals came with this version of ShareAcknowledge (KIP-1222)
RENEW_VERSION: Final = 2
# seconds, until a broker has told
USUAL_LOCK: Final = 30.0
# part of the time for closing that is kept for leaving the group, however silent a broker is: partitions would else be
# assigned to nobody until the member's session is over
GOODBYE_SHARE: Final = 0.2
# of the event loop, for an answer that has come and the request that follows it, before a caller gets its records
MOST_TURNS: Final = 10
# answers kept for the next commit; a caller who never commits has no use for them
MOST_UNSEEN: Final = 1_000


class ShareConsumer:
    """A member of a share group; use it as a context manager, or start and close it.

    Any number of members share the records of a partition. A record is locked for the member that gets it (30 s unless
    the group has another `share.record.lock.duration.ms`), and comes again, here or elsewhere, unless it is accepted or
    rejected in that time. All methods belong to one event loop; several tasks may call them.

    Args:
        bootstrap_servers: `"host:port[,host:port…]"`, or several `"host:port"`.
        group: name of the share group.
        topics: by name; share groups have no patterns. One that may not be read stops the consumer: its error names it.
        security: how connections are secured; not together with `command_config`.
        command_config: path of a Java client property file with `security.protocol` and so on.
        max_records: of one batch at most; also what one fetch asks a broker for, unless `prefetch` is on.
        acquire_mode: `batch` takes whole producer batches (quick; what is above `max_records` waits here), `record`
            keeps to the number (Kafka 4.2; older brokers take whole batches all the same).
        max_wait: seconds that a broker may wait for records, half a lock at most; results of acknowledgements may wait
            as long.
        max_bytes: of one fetch; a larger first batch comes all the same.
        capacity: records held and not yet acknowledged at which nothing more is fetched.
        prefetch: always fetch while the caller works, as many as `capacity` lets; takes records from idle members.
            Without it that is done for a quick caller only, as many as it works off in a moment.
        acknowledgement: `explicit`, or `implicit`: whatever was handed out before is accepted with the next call.
        renew: prolong locks by itself, at half their time, while records are held (Kafka 4.2).
        key_deserializer: makes a key of bytes; what it raises is in `record.error`. A function, or the name of one:
            `string`, `json`, `short`, `int`, `long`, `float`, `double`.
        value_deserializer: the same for values.
        client_id: our name in the brokers' logs and quotas.
        client_rack: where this member runs.
        request_timeout: seconds for an answer of a broker.
        close_timeout: seconds for `close`; then connections are cut, and the brokers release what was held.
        on_event: called with every event.

    Attributes:
        notes: sentences on what the property file says and is not used here.
        deserializers: what makes keys and values of bytes; `None` leaves them as they are.

    Raises:
        WrongArgument: an argument cannot be used; says what to write.

    Source: KIP-932, KIP-1206 (acquire modes), KIP-1222 (renewal).
    """

    def __init__(
        self,
        bootstrap_servers: str | Sequence[str],
        group: str,
        topics: str | Sequence[str],
        *,
        security: Security | None = None,
        command_config: str | os.PathLike[str] | None = None,
        max_records: int = 500,
        acquire_mode: AcquireMode | str = AcquireMode.BATCH,
        max_wait: float = 0.5,
        max_bytes: int = 50 * 1024 * 1024,
        capacity: int = 2_000,
        prefetch: bool = False,
        acknowledgement: str = "explicit",
        renew: bool = True,
        key_deserializer: Deserializer | str | None = None,
        value_deserializer: Deserializer | str | None = None,
        client_id: str = "shareproxy",
        client_rack: str | None = None,
        request_timeout: float = 30.0,
        close_timeout: float = 10.0,
        on_event: Callable[[ConsumerEvent], None] | None = None,
        **elsewhere: Never,
    ) -> None:
        refuse_unknown(tuple(elsewhere))
        self._settings = settings = check_settings(
            bootstrap_servers,
            group,
            topics,
            security=security,
            command_config=command_config,
            max_records=max_records,
            acquire_mode=acquire_mode,
            max_wait=max_wait,
            max_bytes=max_bytes,
            capacity=capacity,
            prefetch=prefetch,
            acknowledgement=acknowledgement,
            renew=renew,
            client_id=client_id,
            client_rack=client_rack,
            request_timeout=request_timeout,
            close_timeout=close_timeout,
        )
        self.notes = settings.notes
        self._implicit = settings.acknowledging is Acknowledging.IMPLICIT
        self.deserializers = (
            deserializer("key_deserializer", key_deserializer),
            deserializer("value_deserializer", value_deserializer),
        )
        self._member_id = new_member_id()
        self._events = EventStream(on_event)
        self._limits = FetchLimits(
            max_records=settings.capacity,
            max_wait_ms=round(settings.max_wait * 1000),
            max_bytes=settings.max_bytes,
            acquire_mode=settings.acquire_mode,
        )
        self._cluster: Cluster | None = None
        self._membership: MembershipLoop
        self._placement: Placement
        self._loops: dict[NodeId, BrokerLoop] = {}
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._buffer = RecordBuffer()
        self.unseen: deque[PendingAcks] = deque(maxlen=MOST_UNSEEN)
        self._waiting: dict[asyncio.Future[None], int] = {}
        self._delivered: list[RecordBatch | ShareRecord] = []
        self._assignment: frozenset[TopicPartition] = frozenset()
        self._renews = True
        self._pace = Pace(settings.capacity)
        self._taking = 0
        self._surplus: asyncio.TimerHandle | None = None
        self._error: Exception | None = None
        self._closing: asyncio.Task[None] | None = None
        self._closed = False

    def __repr__(self) -> str:
        state = "closed" if self._closed else f"{len(self._assignment)} partitions" if self._cluster else "not started"
        return f"<ShareConsumer {self._member_id} of group {self.group}: {state}>"

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    @property
    def group(self) -> str:
        """Return the name of the group."""
        return self._settings.group

    @property
    def topics(self) -> tuple[str, ...]:
        """Return the topics by name."""
        return self._settings.topics

    @property
    def member_id(self) -> str:
        """Return the id of this member; it keeps it for life."""
        return self._member_id

    @property
    def assignment(self) -> frozenset[TopicPartition]:
        """Return the partitions that this member gets records of; others may be assigned the same ones."""
        return self._assignment

    @property
    def lock_duration(self) -> float | None:
        """Return for how many seconds a record is ours, as a broker last said; `None` before one did."""
        known = [loop.session.lock_duration for loop in self._loops.values()]
        return max((seconds for seconds in known if seconds is not None), default=None)

    @property
    def can_renew(self) -> bool:
        """Return whether the brokers can prolong locks (Kafka 4.2).

        A group may forbid it (`share.renew.acknowledge.enable`, Kafka 4.4); the answer to a renewal says so then.
        """
        sessions = [loop.session for loop in self._loops.values() if loop.session.is_open]
        return all(session.can_renew for session in sessions) if sessions else self._renews

    @property
    def held(self) -> int:
        """Return how many records are held here and not yet acknowledged, those not yet handed out included."""
        return sum(loop.session.held_count for loop in self._loops.values())

    @property
    def lost(self) -> str | None:
        """Return why no records can come now: no broker that has any for us is reached; `None` while one is."""
        serving = [loop for loop in self._loops.values() if not loop.session.is_idle]
        if not serving or any(loop.lost is None for loop in serving):
            return None
        return "; ".join(f"node {loop.node_id}: {loop.lost}" for loop in serving)

    async def start(self) -> None:
        """Join the group; partitions are assigned a moment later.

        A new group that starts at `latest` gets what is written from the first call for records on: brokers look up
        where a partition starts when it is first fetched. Set `share.auto.offset.reset` to `earliest` to miss nothing.

        Raises:
            CannotReach: no broker answers.
            AccessDenied: the login failed, or the user may not read the group.
            NotAShareGroup: a group of another type has this name.
            NotSupported: the brokers have no share groups, or they are switched off.
            GroupIsFull: the group has as many members as it may have, all the time of `request_timeout`.
            ConsumerClosed: it was started before.
        """
        if self._cluster is not None or self._closed:
            raise ConsumerClosed("a ShareConsumer starts once only; make a new one")
        keep_freed_memory()
        settings = self._settings
        deadline = asyncio.get_running_loop().time() + settings.request_timeout
        self._cluster = Cluster(settings.bootstrap_servers, settings.security, client_id=settings.client_id)
        self._placement = Placement(self._cluster, settings.topics, self._placed, self._events.tell)
        membership = Membership(settings.group, settings.topics, member_id=self._member_id, rack=settings.client_rack)
        self._membership = MembershipLoop(membership, self._cluster, self, settings.request_timeout)
        try:
            try:
                versions = await self._cluster.versions(None, deadline=deadline)
            except ClusterError as error:
                raise admin_error(error, settings.group) from error
            self._renews = (versions.highest(ShareAcknowledgeRequest) or 0) >= RENEW_VERSION
            self._spawn("heartbeats", self._membership.run())
            await self._membership.joined(deadline)
            self._spawn("placement", self._placement.run())
        except BaseException:
            self._closed = True
            await self._stop()
            raise

    async def close(self) -> None:
        """Deliver what was acknowledged, release the rest, leave the group and close the connections.

        It takes `close_timeout` at most; more than once is harmless.

        Source: KIP-932; the order matters: leaving first would keep records locked, cutting first would lose
        acknowledgements.
        """
        if self._closing is None:
            self._closed = True
            self._closing = asyncio.ensure_future(self._close())
        await asyncio.shield(self._closing)

    async def get_batch(self, max_records: int | None = None, timeout: float | None = None) -> RecordBatch:
        """Wait for records and return them; whatever a fetch brings beyond `max_records` waits for the next call.

        Cancelling it loses no record.

        Args:
            max_records: at most this many; by default as the consumer was made.
            timeout: seconds, then the batch is empty; `None` waits until there is something.

        Raises:
            ConsumerClosed: the consumer is closed, or was while this waited.
            AdminError, DrainError: there is no use in going on, such as when a right was taken away.
        """
        most = self._settings.max_records if max_records is None else whole("max_records", max_records)
        self._accept_delivered()
        self._note_pace()
        if self._buffer.count:
            await self._fetch_ahead(most)
        if not await self._records(most, timeout):
            return RecordBatch()
        batch = self._buffer.take(most)
        if self._implicit:
            self._delivered.append(batch)
        self._pace.handed(len(batch), asyncio.get_running_loop().time())
        return batch

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> ShareRecord:
        """Return the next record; the end comes with `close`."""
        if self._delivered:
            self._accept_delivered()
        record = self._buffer.take_one()
        if record is None:
            self._note_pace()
            if self._buffer.count:
                await self._fetch_ahead(self._buffer.front)
            try:
                await self._records(self._settings.max_records, None)
            except ConsumerClosed:
                if not self._closed:
                    raise  # it was never started: an end would look like an empty queue
                raise StopAsyncIteration from None
            self._pace.handed(self._buffer.front, asyncio.get_running_loop().time())
            record = self._buffer.take_first()
        if self._implicit:
            self._delivered.append(record)
        return record

    async def commit(self) -> AckResults:
        """Send all acknowledgements noted so far and wait for their answers.

        Returns:
            A result for each partition that had acknowledgements without answer, or with an answer that came since the
            last commit and that nobody awaited; empty if there were none.

        Raises:
            ConsumerClosed: the consumer is closed.
        """
        self._check_started()
        self._accept_delivered()
        told = [pending for pending in self.unseen if not pending.seen]
        self.unseen.clear()
        waiting: list[PendingAcks] = []
        for loop in self._loops.values():
            outstanding = loop.outstanding()
            if outstanding:
                loop.send_now()
                waiting.extend(outstanding)
        for pending in waiting:
            pending.seen = True  # by this commit; another one has nothing to tell of it
        for pending in waiting:
            await pending.wait()
        return by_partition([*told, *waiting])

    def events(self) -> AsyncIterator[ConsumerEvent]:
        """Give each event from now on; the end comes with `close`."""
        return self._events.listen()

    # the membership, placement and broker loops call these

    def assigned(self, assignment: Assignment) -> None:
        """Take all partitions of this member from now on."""
        self._placement.assign(assignment)

    def tell(self, event: ConsumerEvent) -> None:
        """Tell the caller."""
        self._events.tell(event)

    def failed(self, error: Exception) -> None:
        """Give up: the same would happen again."""
        if self._error is None:
            self._error = admin_error(error, self.group) if isinstance(error, ClusterError) else error
        self._wake_waiting()

    def room(self, loop: BrokerLoop) -> Room:
        """Return how many records may be asked for now."""
        settings = self._settings
        ready = max(self._ready - self._taking, 0)
        ahead = settings.capacity if settings.prefetch else self._pace.ahead if loop.has_more else 0
        if self._pace.away:
            ahead = 0  # what was given back would be here again at once
        free = settings.capacity - self._open
        # where nobody waits for records, acknowledgements shall not wait for a parked fetch
        waits = bool(self._waiting) and not ready
        wanted = max(ahead, *self._waiting.values()) if waits else asked_ahead(ahead, ready, free)
        if min(wanted, free) <= 0 or self._error is not None:
            return NO_ROOM
        # a part for each broker: one that waits for records must not keep the others from being asked
        serving = sum(not other.session.is_idle for other in self._loops.values())
        return Room(min(wanted, max(free // max(serving, 1), 1)), waits)

    def records_came(self, lot: HeldLot, records: list[ShareRecord]) -> None:
        """Take records to be handed out."""
        self._buffer.add(lot, records)
        self._wake_waiting()
        self._watch_surplus()

    def acknowledged(self) -> None:
        """Take it that there is more room."""
        if self._waiting or self._settings.prefetch:
            self._look_around()

    def misplaced(self, node_id: NodeId, trouble: PartitionTrouble) -> None:
        """Find out who leads a partition that left a broker."""
        self._placement.misplaced(node_id, trouble)

    def unreachable(self, node_id: NodeId) -> None:
        """Find out whether the partitions of a broker have moved."""
        self._placement.look_again()

    async def address_of(self, node_id: NodeId, deadline: float) -> Address:
        """Return where a broker is now."""
        return await self._placement.address_of(node_id, deadline)

    # inside

    async def _records(self, most: int, timeout: float | None) -> bool:
        """Wait until there are records that are still ours; return False at the timeout."""
        buffer = self._buffer
        loop = asyncio.get_running_loop()
        deadline = None if timeout is None else loop.time() + timeout
        while True:
            self._check_started()
            if buffer.count:
                self._drop_lost(loop.time())
                if buffer.count:
                    return True
            if self._error is not None:
                raise self._error
            waiter: asyncio.Future[None] = loop.create_future()
            self._waiting[waiter] = most
            self._look_around()
            try:
                async with asyncio.timeout_at(deadline):
                    await waiter
            except TimeoutError:
                return False
            finally:
                del self._waiting[waiter]

    def _note_pace(self) -> None:
        self._pace.asked(asyncio.get_running_loop().time(), done=self._open == self._ready)

    @property
    def _open(self) -> int:
        """How many offsets are held that the caller has not acknowledged, handed out or not."""
        return sum(loop.open_count for loop in self._loops.values())

    @property
    def _ready(self) -> int:
        """How many of them were not handed out."""
        return self._buffer.count + sum(loop.undecoded for loop in self._loops.values())

    async def _fetch_ahead(self, most: int) -> None:
        """Let a fetch go out before the caller gets its next records: it may never let go of the loop."""
        if self._pace.ahead or self._settings.prefetch:
            self._taking = most
            self._look_around()
            try:
                # nothing has been taken yet, so that being cancelled here loses nothing
                await asyncio.sleep(0)
                for _ in range(MOST_TURNS):
                    if not any(broker.busy for broker in self._loops.values()):
                        break
                    await asyncio.sleep(0)
                await asyncio.sleep(0)  # what was written is with the socket now; uvloop takes a turn for that
            finally:
                self._taking = 0

    def _watch_surplus(self) -> None:
        """See to it that records are not kept here for a caller who does not come for them."""
        if self._surplus is None:
            after = self.lock_duration or USUAL_LOCK
            loop = asyncio.get_running_loop()
            self._surplus = loop.call_later(after, self._give_surplus_back, after, self._buffer.place)

    def _give_surplus_back(self, after: float, place: tuple[int, int]) -> None:
        self._surplus = None
        if not self._buffer.count or self._closed:
            return
        loop = asyncio.get_running_loop()
        # who takes one record after the other asks for more only now and then
        comes = self._waiting or self._buffer.place != place or loop.time() - self._pace.asked_at < after
        if not comes:
            self._pace.stays_away()
            for partition, ranges in self._buffer.release_fresh():
                self._events.tell(RecordsGivenBack(partition, ranges))
        if self._buffer.count:
            self._watch_surplus()

    def _drop_lost(self, now: float) -> None:
        for partition, lost in self._buffer.drop_lost(now):
            self._events.tell(LockLost(partition, (lost,), delivered=False))

    def _accept_delivered(self) -> None:
        """Accept what was handed out before, in implicit mode."""
        delivered, self._delivered = self._delivered, []
        for each in delivered:
            if isinstance(each, RecordBatch) or (isinstance(each.lot, HeldLot) and each.lot.is_open(each.offset)):
                each.accept()

    def _check_started(self) -> None:
        if self._closed:
            raise ConsumerClosed("the consumer is closed")
        if self._cluster is None:
            raise ConsumerClosed("the consumer is not started; write `async with`, or await start() first")

    def _look_around(self) -> None:
        for loop in self._loops.values():
            loop.wake()

    def _wake_waiting(self) -> None:
        for waiter in self._waiting:
            if not waiter.done():
                waiter.set_result(None)

    def _placed(self, placed: Placed) -> None:
        """Take it who leads what."""
        before, now = self._assignment, frozenset(partition.name for partition in self._placement.named())
        if now != before:
            self._assignment = now
            self._events.tell(AssignmentChanged(now, now - before, before - now))
        if self._closed:
            return
        for node_id, partitions in placed.items():
            if node_id not in self._loops:
                self._loops[node_id] = self._new_loop(node_id)
                self._spawn(f"node {node_id}", self._loops[node_id].run())
            self._loops[node_id].serve(partitions)
        for node_id in self._loops.keys() - placed.keys():
            self._loops[node_id].serve(())

    def _new_loop(self, node_id: NodeId) -> BrokerLoop:
        settings = self._settings
        session = ShareSession(
            settings.group, self._member_id, version=1, limits=self._limits, auto_renew=settings.renew
        )
        return BrokerLoop(
            node_id,
            session,
            self,
            security=settings.security,
            client_id=settings.client_id,
            request_timeout=settings.request_timeout,
            deserializers=self.deserializers,
        )

    def _spawn(self, name: str, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work, name=f"share consumer {self._member_id}: {name}")
        self._tasks[name] = task
        task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[None]) -> None:
        error = None if task.cancelled() else task.exception()
        if isinstance(error, Exception):
            self.failed(error)  # a bug of ours: whoever waits for records is told

    async def _close(self) -> None:
        self._wake_waiting()
        loop = asyncio.get_running_loop()
        deadline = loop.time() + self._settings.close_timeout
        try:
            for broker in self._loops.values():
                broker.begin_close()
            goodbye = self._settings.close_timeout * GOODBYE_SHARE
            await self._wait_for([name for name in self._tasks if name.startswith("node ")], deadline - goodbye)
            if "heartbeats" in self._tasks:
                self._membership.leave()
                await self._wait_for(["heartbeats"], deadline)
        finally:
            await self._stop()

    async def _wait_for(self, names: Iterable[str], deadline: float) -> None:
        tasks = [self._tasks[name] for name in names]
        if tasks:
            await asyncio.wait(tasks, timeout=max(0.0, deadline - asyncio.get_running_loop().time()))

    async def _stop(self) -> None:
        """End whatever still runs, and cut the connections."""
        if self._surplus is not None:
            self._surplus.cancel()
        for task in self._tasks.values():
            task.cancel()
        await asyncio.gather(*self._tasks.values(), return_exceptions=True)
        self._buffer.clear()
        self._delivered.clear()  # through their lots they refer to this, and no collector looks at records
        self._wake_waiting()
        self._events.end()
        if self._cluster is not None:
            await self._cluster.close()

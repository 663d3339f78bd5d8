"""Share partitions, told as naively as can be: every offset has an entry of its own, and lag is counted.

In: what producers, members and administrators do. Out: what is waiting, by looking at one offset after the other.
Must never: import anything of the project, or work with ranges; it judges code that does.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

# with more, brokers since 4.2 hand out records that were delivered often in smaller numbers, the last time alone
DELIVERY_LIMIT = 2
AVAILABLE, ACQUIRED, ACKNOWLEDGED, ARCHIVED = "available", "acquired", "acknowledged", "archived"
DONE = (ACKNOWLEDGED, ARCHIVED)
VERDICTS = {"accept": ACKNOWLEDGED, "release": AVAILABLE, "reject": ARCHIVED}


@dataclass(frozen=True)
class Kafka:
    """What a release does differently, as the facts say."""

    version: str

    @property
    def counts(self) -> bool:
        """Whether the delivery-complete count is kept (4.2)."""
        return self.version >= "4.2"

    @property
    def alters(self) -> bool:
        """Whether setting offsets has an effect (4.2)."""
        return self.version >= "4.2"

    @property
    def leaving_counts(self) -> bool:
        """Whether what a member held when it left counts as delivered (4.2)."""
        return self.version >= "4.2"

    @property
    def added_start(self) -> int | None:
        """Start offset of a partition added to a topic that the group knows (4.4: at once)."""
        return 0 if self.version >= "4.4" else None


@dataclass
class Offset:
    """One offset of a log."""

    batch: int
    timestamp: int
    marker: bool = False
    transaction: str | None = None
    fate: str = "committed"  # of its transaction: open, committed or aborted
    compacted: bool = False


@dataclass
class Log:
    """One partition's log."""

    offsets: list[Offset] = field(default_factory=list)
    log_start: int = 0
    led: bool = True
    batches: int = 0

    @property
    def end(self) -> int:
        """The high watermark."""
        return len(self.offsets)

    @property
    def stable_end(self) -> int:
        """The last stable offset."""
        return next((at for at, slot in enumerate(self.offsets) if slot.fate == "open"), self.end)

    def append(self, count: int, timestamp: int, transaction: str | None = None) -> None:
        """Write one batch."""
        self.batches += 1
        fate = "committed" if transaction is None else "open"
        for _ in range(count):
            self.offsets.append(Offset(self.batches, timestamp, transaction=transaction, fate=fate))

    def end_transaction(self, transaction: str, timestamp: int, *, commit: bool) -> None:
        """Write a marker if that transaction is open here."""
        mine = [slot for slot in self.offsets if slot.transaction == transaction and slot.fate == "open"]
        if mine:
            for slot in mine:
                slot.fate = "committed" if commit else "aborted"
            self.batches += 1
            self.offsets.append(Offset(self.batches, timestamp, marker=True))

    def has_record(self, at: int, *, committed: bool) -> bool:
        """Tell whether a member of a group could be given a record at this offset."""
        slot = self.offsets[at]
        visible = slot.fate == "committed" or not committed
        return at >= self.log_start and not slot.marker and not slot.compacted and visible

    def in_log(self, at: int) -> bool:
        """Tell whether the batch of an offset is still there: compaction takes those left without records."""
        slot = self.offsets[at]
        if slot.marker:
            return True
        return any(other.batch == slot.batch and not other.compacted for other in self.offsets)


@dataclass
class Held:
    """What a leader remembers about one offset."""

    state: str
    deliveries: int
    member: str | None = None


class Memory:
    """What a leader of a share partition holds in memory."""

    def __init__(self, start: int, states: Mapping[int, Held]) -> None:
        self.start = start
        self.states = {at: Held(held.state, held.deliveries) for at, held in states.items()}
        self.handed_out = max(states, default=start - 1) + 1  # the first offset nobody was given yet
        if states:
            for at in range(start, self.handed_out):
                self.states.setdefault(at, Held(AVAILABLE, 0))
        self.settle()

    def settle(self) -> None:
        """Move the start to the first offset that is not done."""
        waiting = [at for at, held in self.states.items() if held.state not in DONE]
        self.start = max(self.start, min(waiting, default=self.handed_out))
        self.states = {at: held for at, held in self.states.items() if at >= self.start}


class SharePartition:
    """One partition as one group has it: what is written down, and what the leader holds."""

    def __init__(self, log: Log, kafka: Kafka, *, committed: bool, earliest: bool, start: int | None) -> None:
        self.log, self.kafka, self.committed, self.earliest = log, kafka, committed, earliest
        self.start = start
        self.done: set[int] | None = set() if start is not None and kafka.counts else None
        self.written: dict[int, Held] = {}
        self.memory: Memory | None = None

    # -- what happens ------------------------------------------------------------------------------------------------

    def leader(self) -> Memory:
        """Return what the leader knows; it begins with what is written."""
        if self.memory is None:
            start = self.start
            if start is None:
                start = self.log.log_start if self.earliest else self.log.end
            self.memory = Memory(start, self.written)
        return self.memory

    def acquire(self, member: str, most: int) -> list[int]:
        """Give a member records until it is enough, and return the offsets.

        What lies together in a batch and was delivered as often comes as a whole.
        """
        memory, log = self.leader(), self.log
        memory.start = max(memory.start, log.log_start)
        memory.settle()
        got: list[int] = []
        readable = log.stable_end if self.committed else log.end
        before: tuple[int, int, int] | None = None
        for at, slot in enumerate(log.offsets[:readable]):
            held = memory.states.get(at, Held(AVAILABLE, 0))
            if at < memory.start or not log.in_log(at) or held.state != AVAILABLE:
                continue
            here = (at, slot.batch, held.deliveries)
            together = before is not None and here == (before[0] + 1, *before[1:])
            if len(got) >= most and not together:
                break
            before = here
            if self.committed and slot.fate == "aborted":
                memory.states[at] = Held(ARCHIVED, 1)  # in memory only
            else:
                memory.states[at] = Held(ACQUIRED, held.deliveries + 1, member)
                got.append(at)
            memory.handed_out = max(memory.handed_out, at + 1)
        memory.settle()
        return got

    def acknowledge(self, verdicts: Mapping[int, str]) -> None:
        """Change what is acquired, and write that down if there is any change."""
        memory = self.leader()
        changed = {}
        for at, state in verdicts.items():
            held = memory.states.get(at)
            if held is not None and held.state == ACQUIRED:
                exhausted = state == AVAILABLE and held.deliveries >= DELIVERY_LIMIT
                changed[at] = Held(ARCHIVED if exhausted else state, held.deliveries)
        if not changed:
            return
        memory.states |= changed
        self.start = memory.start
        done = {at for at, held in memory.states.items() if held.state in DONE}
        self.done = done if self.kafka.counts else None
        self.written = {at: held for at, held in {**self.written, **changed}.items() if at >= memory.start}
        memory.settle()

    def expire(self) -> None:
        """Take back what members hold."""
        if self.memory is not None:
            held = [at for at, row in self.memory.states.items() if row.state == ACQUIRED]
            self.acknowledge(dict.fromkeys(held, AVAILABLE))

    def leave(self, member: str) -> None:
        """Take back what a member that leaves holds."""
        held = self.held_by(member)
        for at in held:
            if self.memory is not None and not self.kafka.leaving_counts:
                self.memory.states[at].deliveries -= 1
        if held:
            self.acknowledge(dict.fromkeys(held, AVAILABLE))

    def held_by(self, member: str) -> list[int]:
        """Return the offsets that a member holds."""
        states = {} if self.memory is None else self.memory.states
        return [at for at, held in states.items() if held.state == ACQUIRED and held.member == member]

    def alter(self, start: int) -> None:
        """Set the start by hand."""
        self.start, self.done, self.written, self.memory = start, set(), {}, None

    # -- what is counted ---------------------------------------------------------------------------------------------

    @property
    def in_flight(self) -> int:
        """Offsets that members hold."""
        states = {} if self.memory is None else self.memory.states
        return sum(held.state == ACQUIRED for held in states.values())

    def _from_start(self) -> Iterable[int]:
        assert self.start is not None
        return range(self.start, self.log.end)

    def done_in_states(self) -> set[int]:
        """Offsets whose written state says that they are done."""
        return {at for at, held in self.written.items() if held.state in DONE}

    def waiting(self, done: set[int]) -> list[int]:
        """Offsets that the lag counts."""
        return [at for at in self._from_start() if at not in done]

    def consumable(self) -> list[int]:
        """Offsets with a record that a member can still be given."""
        log = self.log
        readable = log.stable_end if self.committed else log.end
        done = self.done_in_states()
        return [
            at
            for at in self._from_start()
            if at < readable and at not in done and log.has_record(at, committed=self.committed)
        ]

    def phantom(self, done: set[int]) -> list[int]:
        """Offsets that the lag counts and that no record will ever be behind, open transactions aside."""
        readable = self.log.stable_end if self.committed else self.log.end
        # what was deleted is no open transaction any more, even where the last stable offset still says so
        settled = max(readable, min(self.log.log_start, self.log.end))
        records = set(self.consumable())
        return [at for at in self.waiting(done) if at < settled and at not in records]


class Group:
    """One share group that reads one topic; members are known by names of the test."""

    def __init__(self, kafka: Kafka, *, committed: bool, earliest: bool) -> None:
        self.kafka, self.committed, self.earliest = kafka, committed, earliest
        self.partitions: dict[int, SharePartition] = {}
        self.members: dict[str, set[tuple[int, int]]] = {}  # member → partition and offset of what it has to answer

    def begin(self, logs: list[Log]) -> None:
        """Know partitions that were not known."""
        known = bool(self.partitions)
        for index, log in enumerate(logs):
            if index not in self.partitions:
                start = self.kafka.added_start if known else None
                self.partitions[index] = SharePartition(
                    log, self.kafka, committed=self.committed, earliest=self.earliest, start=start
                )

    def assigned(self, member: str) -> list[int]:
        """Return a member's partitions: all are dealt out in turn, and again while somebody has none."""
        members, known = list(self.members), sorted(self.partitions)
        dealt: dict[int, None] = {}
        for turn in range(max(len(members), len(known)) if known else 0):
            if members[turn % len(members)] == member:
                dealt[known[turn % len(known)]] = None
        return list(dealt)

    def poll(self, member: str, logs: list[Log], most: int) -> set[tuple[int, int]]:
        """Let a member, who joins if it has not, get records; offsets without one it gives back as done at once."""
        if member not in self.members:
            self.members[member] = set()
            self.begin(logs)
        if self.members[member]:
            return set()
        got: set[tuple[int, int]] = set()
        gaps: dict[int, list[int]] = {}
        for index in self.assigned(member):
            log, share = logs[index], self.partitions[index]
            if len(got) >= most or not log.led:
                continue
            for at in share.acquire(member, most - len(got)):
                # an aborted record is one for who reads uncommitted; a compacted one is none for anybody
                if log.has_record(at, committed=self.committed):
                    got.add((index, at))
                else:
                    gaps.setdefault(index, []).append(at)
        for index, offsets in gaps.items():
            self.partitions[index].acknowledge(dict.fromkeys(offsets, ARCHIVED))
        self.members[member] = set(got)
        return got

    def leave(self, member: str) -> None:
        """Let a member leave."""
        if self.members.pop(member, None) is not None:
            for share in self.partitions.values():
                share.leave(member)

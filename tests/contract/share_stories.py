"""Short stories of share consumers, told in raw requests to a real and to a simulated cluster alike.

In: a ground with a topic that nobody else uses. Out: what happened, line by line, the same on both clusters.
Must never: depend on which member of two that ask at once is first.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Final

from tests.contract.member import ACCEPT, GAP, NOTHING, REJECT, RELEASE, RENEW, Limits, Member, Place, Rows
from tests.contract.stages import Stage
from tests.support.waiting import wait_until

Lines = Iterator[tuple[str, Any]]

PLAIN, COMMITTED, SHORT, SMALL = "plain", "committed", "short", "small"
GROUPS: Final = {
    PLAIN: {},
    COMMITTED: {"share.isolation.level": "read_committed"},
    SHORT: {"share.record.lock.duration.ms": "1000"},
    SMALL: {"share.partition.max.record.locks": "100"},
}
LONG: Final = Limits(max_wait_ms=3000)
NOWAIT: Final = Limits(max_wait_ms=0)


@dataclass(frozen=True)
class Ground:
    """Where a story happens.

    Attributes:
        stage: writes records.
        address: of the one broker.
        topic: name.
        topic_id: of that topic, which has one partition and whose state every group has.
        epochs_rest: the group's epoch changes only when members or topics do.
    """

    stage: Stage
    address: tuple[str, int]
    topic: str
    topic_id: bytes
    epochs_rest: bool = True

    @property
    def place(self) -> Place:
        """The topic's partition."""
        return self.topic_id, 0

    def member(self, group: str = PLAIN, member_id: str | None = None) -> Member:
        """Return a new member."""
        return Member(self.address, group, member_id)

    def produce(self, *batches: int) -> None:
        """Write batches of so many records."""
        for count in batches:
            self.stage.produce(self.topic, 0, count)


def acquired(rows: Rows) -> list[tuple[int, int, int]]:
    """Return the ranges of an answer."""
    return [part for row in rows[1:] for part in row[-1]]


def heartbeats(ground: Ground) -> Lines:
    """Epochs of members: joining, the epoch before, wrong ones, leaving twice."""
    ada = ground.member()
    answer = ada.beat([ground.topic], epoch=0)
    yield "joined", (answer.error_code, answer.error_message, answer.member_id == ada.member_id)
    yield "interval", answer.heartbeat_interval_ms
    if not (answer.assignment and answer.assignment.topic_partitions):
        wait_until(lambda: ada.beat().assignment is not None, "she is assigned something")
    epoch = ada.member_epoch
    # in 4.1 a group's epoch may grow with each heartbeat
    for number in (epoch, epoch + 1, epoch - 2, -3) if ground.epochs_rest else (-3,):
        answer = ada.beat(epoch=number)
        told = (answer.error_message or "").replace(str(epoch + 1), "next").replace(str(epoch - 2), "old")
        yield f"{number - epoch if number > 0 else number}", (answer.error_code, told.replace(str(epoch), "now"))
    answer = ada.beat([ground.topic])
    assert answer.assignment is not None
    yield (
        "topics again",
        [(row.topic_id == ground.topic_id, row.partitions) for row in answer.assignment.topic_partitions],
    )
    answer = ada.beat(epoch=-1)
    yield "left", (answer.error_code, answer.member_epoch, answer.heartbeat_interval_ms)
    for name, member, epoch, topics in (
        ("left twice", ada, -1, None),
        ("no member", ground.member(member_id="nobody"), 3, None),
        ("no topics", ground.member(), 0, None),
        ("no topic", ground.member(), 0, []),
        ("no group", ground.member("nowhere"), 3, None),
        ("leave no group", ground.member("nowhere"), -1, None),
        ("no group id", ground.member(""), 0, [ground.topic]),
        ("long member id", ground.member(member_id="x" * 37), 0, [ground.topic]),
    ):
        answer = member.beat(topics, epoch=epoch)
        yield name, (answer.error_code, (answer.error_message or "").replace(ada.member_id, "ada"))
        if not answer.error_code:
            member.beat(epoch=-1)


def acquisition(ground: Ground) -> Lines:
    """Whole batches until it is enough, then nothing."""
    ground.produce(10, 10, 10)
    ada = ground.member()
    yield "one", ada.fetch(ground.place, limits=Limits(1))
    yield "fifteen", ada.fetch(limits=Limits(15))
    yield "nothing", ada.fetch()
    yield "it waited", ada.prompt
    ada.send_fetch(limits=LONG)
    ground.produce(2)
    yield "what comes later", ada.receive()
    yield "at once", ada.prompt
    yield "close", ada.close()


def kinds_of_acknowledgement(ground: Ground) -> Lines:
    """Accepted, released, rejected, left out as gaps; then what comes again, and how often it was delivered."""
    ground.produce(10)
    ada = ground.member()
    yield "open", ada.fetch(ground.place)
    batches = [(0, 1, [ACCEPT]), (2, 5, [RELEASE, ACCEPT, RELEASE, REJECT]), (6, 6, [GAP])]
    yield "all kinds", ada.acknowledge({ground.place: batches})
    yield "again", ada.fetch()
    yield "below the start", ada.acknowledge({ground.place: [(0, 1, [ACCEPT])]})
    yield "with a fetch", ada.fetch(acks={ground.place: [(2, 2, [ACCEPT]), (4, 4, [RELEASE])]})
    yield "close with the last", ada.acknowledge({ground.place: [(7, 7, [ACCEPT])]}, epoch=-1)
    bob = ground.member()
    yield "the next", bob.fetch_all(ground.place)
    yield "close", bob.acknowledge({ground.place: [(4, 4, [ACCEPT]), (8, 9, [ACCEPT])]}, epoch=-1)


def refused_acknowledgements(ground: Ground) -> Lines:
    """What is malformed, done already, beyond the end, or another's; none of the partition's ranges counts then."""
    ground.produce(10)
    ada, bob = ground.member(), ground.member()
    yield "open", ada.fetch(ground.place, limits=Limits(1))
    yield "once", ada.acknowledge({ground.place: [(3, 4, [ACCEPT])]})
    for name, batches in (
        ("twice", [(3, 4, [ACCEPT])]),
        ("a good one beside it", [(1, 1, [ACCEPT]), (4, 5, [ACCEPT])]),
        ("too many types", [(1, 2, [ACCEPT] * 3)]),
        ("no types", [(1, 2, [])]),
        ("backwards", [(2, 1, [ACCEPT])]),
        ("not ascending", [(2, 2, [ACCEPT]), (1, 1, [ACCEPT])]),
        ("overlapping", [(0, 2, [ACCEPT]), (1, 1, [ACCEPT])]),
        ("touching", [(0, 2, [ACCEPT]), (2, 2, [ACCEPT])]),
        ("unknown type", [(1, 1, [9])]),
        ("renewed without saying so", [(1, 1, [RENEW])]),
        ("beyond the end", [(12, 12, [ACCEPT])]),
    ):
        yield name, ada.acknowledge({ground.place: batches})
    yield "with a fetch", ada.fetch(acks={ground.place: [(3, 3, [ACCEPT])]})
    bob.fetch(ground.place, limits=NOWAIT)
    yield "another's", bob.acknowledge({ground.place: [(1, 1, [ACCEPT])]})
    yield "nobody's topic", ada.acknowledge({(b"no such topic id", 0): [(1, 1, [ACCEPT])]})
    yield "all else is there", ada.acknowledge({ground.place: [(0, 2, [ACCEPT]), (5, 9, [ACCEPT])]})
    yield "close", (ada.close(), bob.close())


def session_epochs(ground: Ground) -> Lines:
    """Epochs that are not the session's turn, sessions that do not exist, requests that a session does not take."""
    ground.produce(10)
    ada = ground.member()
    yield "no session", ada.fetch(epoch=3)
    yield "acknowledge to open", ada.acknowledge({ground.place: [(0, 0, [ACCEPT])]}, epoch=0)
    yield "open with acknowledgements", ada.fetch(epoch=0, acks={ground.place: [(0, 0, [ACCEPT])]})
    yield "open", ada.fetch(ground.place)
    yield "ahead", ada.fetch(epoch=7)
    yield "again", ada.acknowledge({ground.place: [(0, 0, [ACCEPT])]}, epoch=0)
    yield "the same once more", ada.acknowledge(epoch=0)
    yield "its turn", ada.acknowledge({ground.place: [(0, 0, [ACCEPT])]})
    yield "open again: what is held stays", ada.fetch(ground.place, epoch=0)
    yield "and can be acknowledged", ada.acknowledge({ground.place: [(1, 1, [ACCEPT])]})
    yield "a lost answer", ada.acknowledge({ground.place: [(2, 2, [ACCEPT])]}, epoch=1)
    yield "close", ada.close()
    yield "close twice", ada.close()
    yield "close with a fetch", ada.fetch(epoch=-1)
    ada.epoch = 0
    yield "given back", ada.fetch_all(ground.place)
    yield "closed with a fetch", ada.fetch(epoch=-1, acks={ground.place: [(2, 2, [ACCEPT])]})


def renewals(ground: Ground) -> Lines:
    """RENEW, in an acknowledgement and in a fetch that fetches nothing (KIP-1222)."""
    ground.produce(10)
    ada = ground.member()
    yield "open", ada.fetch(ground.place)
    yield "renewed", ada.acknowledge({ground.place: [(0, 4, [RENEW])]}, renews=True)
    yield "mixed", ada.acknowledge({ground.place: [(0, 2, [RENEW, ACCEPT, RENEW])]}, renews=True)
    yield "with limits", ada.fetch(acks={ground.place: [(0, 0, [RENEW])]}, renews=True)
    yield "in a fetch", ada.fetch(acks={ground.place: [(0, 0, [RENEW])]}, renews=True, limits=NOTHING)
    yield "done already", ada.acknowledge({ground.place: [(1, 1, [RENEW])]}, renews=True)
    yield "close", ada.close()


def exact_numbers(ground: Ground) -> Lines:
    """No more records than asked for, from the middle of a batch (KIP-1206)."""
    ground.produce(10, 10)
    ada = ground.member()
    yield "seven", ada.fetch(ground.place, limits=Limits(7, mode=1))
    yield "six", ada.fetch(limits=Limits(6, mode=1))
    yield "no such mode", ada.fetch(limits=Limits(5, mode=7))
    yield "the rest", ada.fetch(ground.place, epoch=0)
    yield "close", ada.close()


def leaving(ground: Ground) -> Lines:
    """Members that leave or lose their connection, sessions that end: who gets what they held."""
    ground.produce(10)
    ada, bob = ground.member(), ground.member()
    ada.beat([ground.topic], epoch=0)
    yield "open", ada.fetch(ground.place)
    ada.beat(epoch=-1)
    yield "she left: nothing is free", bob.fetch(ground.place)
    yield "and hers to acknowledge", ada.acknowledge({ground.place: [(0, 0, [ACCEPT])]})
    ada.disconnect()
    got: Rows = []

    def given_back() -> bool:
        got[:] = bob.fetch()
        return bool(acquired(got))

    wait_until(given_back, "the connection's records are free")
    yield "she is gone", got
    old = bob.reconnect()
    yield "he reopens on another connection", bob.fetch(ground.place, epoch=0)
    old.close()
    cyd = ground.member()
    cyd.fetch(ground.place)  # the broker has seen the end of the connection by the time it has waited
    yield "the first one ends", bob.acknowledge({ground.place: [(1, 1, [ACCEPT])]})
    yield "close", bob.close()[0][0] in (0, 122)


def forgotten_partition(ground: Ground) -> Lines:
    """A partition that is forgotten while its records are held: closing no longer gives them back."""
    ground.produce(10)
    ada, bob = ground.member(), ground.member()
    yield "open", ada.fetch(ground.place)
    yield "forget", ada.fetch(forget=[ground.place], limits=NOWAIT)
    yield "still hers", ada.acknowledge({ground.place: [(0, 0, [ACCEPT])]})
    yield "close", ada.close()
    yield "nothing is free", bob.fetch(ground.place)
    yield "and even now", ada.fetch(ground.place)
    yield "still", ada.acknowledge({ground.place: [(1, 9, [ACCEPT])]})
    yield "closed", (ada.close(), bob.close())


def places_that_are_none(ground: Ground) -> Lines:
    """Topics and partitions that do not exist, and a group that never began with the topic."""
    ground.produce(1)
    ada = ground.member()
    yield "open", ada.fetch(ground.place, (ground.topic_id, 7))
    yield "it stays", ada.fetch(limits=NOWAIT)
    yield "no such topic", ada.fetch((b"no such topic id", 4), limits=NOWAIT)
    yield "it stays as well", ada.fetch(limits=NOWAIT)
    if ada.epoch == 2:  # the broker counted what it refused (4.1)
        ada.epoch = 3
    gone = [(b"no such topic id", 4), (ground.topic_id, 7)]
    yield "forgotten", ada.fetch(forget=gone, limits=NOWAIT)
    yield "another group", ground.member("strangers").fetch(ground.place)
    yield "a long member id", ground.member(member_id="x" * 37).fetch(ground.place, limits=NOWAIT)
    yield "close", ada.acknowledge({ground.place: [(0, 0, [ACCEPT])]}, epoch=-1)


def deleted_topic(ground: Ground) -> Lines:
    """A topic that is deleted while its records are held."""
    ground.produce(2)
    ada = ground.member()
    yield "open", ada.fetch(ground.place)
    ground.stage.delete_topic(ground.topic)
    rows: Rows = []

    def seen() -> bool:
        rows[:] = ada.fetch(limits=NOWAIT)
        return rows != [(0, None)]

    wait_until(seen, "the broker has deleted it")
    yield "deleted", rows
    ada.epoch += 1 if rows[0][0] else 0  # the broker counted what it refused (4.1)
    yield "acknowledged", ada.acknowledge({ground.place: [(0, 1, [ACCEPT])]})
    yield "closed", ada.close()


def many_attempts(ground: Ground) -> Lines:
    """A batch released again and again: fewer at a time since 4.2, so that a bad record takes few others with it."""
    ground.produce(10)
    ada = ground.member()
    rows = ada.fetch(ground.place)
    for attempt in range(1, 9):
        ranges = acquired(rows)
        yield f"attempt {attempt}", ranges
        if not ranges:
            break
        batches = [(first, last, [RELEASE]) for first, last, _ in ranges]
        assert ada.acknowledge({ground.place: batches})[1][1] == 0
        rows = ada.fetch()
        if not acquired(rows):  # an empty row may come first (4.1)
            rows = ada.fetch()
    yield "close", ada.close()


def locks_run_out(ground: Ground) -> Lines:
    """A lock of a second: then it is another's, who was waiting, and the first one is too late."""
    ground.produce(4)
    ada, bob = ground.member(SHORT), ground.member(SHORT)
    yield "open", ada.fetch(ground.place)
    bob.send_fetch(ground.place, limits=LONG)
    yield "it woke who waited", bob.receive()
    yield "in time", bob.prompt
    yield "too late", ada.acknowledge({ground.place: [(0, 3, [ACCEPT])]})
    yield "his", bob.acknowledge({ground.place: [(0, 3, [ACCEPT])]})
    yield "closed", (ada.close(), bob.close())


def markers(ground: Ground, group: str = PLAIN) -> Lines:
    """Committed and aborted transactions: markers are to be acknowledged, whoever reads."""
    name = f"id-{ground.topic}"
    ground.stage.produce_transaction(ground.topic, 0, 3, transactional_id=name)
    ground.stage.produce_transaction(ground.topic, 0, 4, commit=False, transactional_id=name)
    ground.stage.produce_transaction(ground.topic, 0, 2, transactional_id=name)
    ada = ground.member(group)
    rows = ada.fetch(ground.place)
    yield "open", rows
    batches = [(first, last, [ACCEPT]) for first, last, _ in acquired(rows)]
    yield "accepted", ada.acknowledge({ground.place: batches})
    yield "close", ada.close()


def committed_markers(ground: Ground) -> Lines:
    """The same for a group that reads committed records only."""
    return markers(ground, COMMITTED)


def full_window(ground: Ground) -> Lines:
    """A window of 100 offsets: its head decides, whatever was acknowledged behind it."""
    ground.produce(30, 30, 30, 30, 30)
    ada, bob = ground.member(SMALL), ground.member(SMALL)
    yield "open", ada.fetch(ground.place)
    yield "full", bob.fetch(ground.place)
    yield "behind the head", ada.acknowledge({ground.place: [(40, 119, [ACCEPT])]})
    yield "still full", bob.fetch()
    bob.send_fetch(limits=LONG)
    yield "the head", ada.acknowledge({ground.place: [(0, 39, [ACCEPT])]})
    yield "who waited", bob.receive()
    yield "at once", bob.prompt
    yield "closed", (ada.close(), bob.close())


def released_and_waited_for(ground: Ground) -> Lines:
    """RELEASE and a fetch that waits: since 4.2 it does not wake, in 4.1 the first answer is empty."""
    ground.produce(4)
    ada, bob = ground.member(), ground.member()
    ada.fetch(ground.place)
    wait = Limits(max_wait_ms=1200)
    yield "the same request", ada.fetch(acks={ground.place: [(0, 3, [RELEASE])]}, limits=wait)
    yield "at once", ada.prompt
    ada.fetch(limits=NOWAIT)
    bob.send_fetch(ground.place, limits=wait)
    ada.fetch()  # his fetch waits by the time that hers has waited
    ada.acknowledge({ground.place: [(0, 3, [RELEASE])]})
    yield "another's", bob.receive()
    yield "at once then", bob.prompt
    yield "closed", (ada.close(), bob.close())


def fetch_of_nothing(ground: Ground) -> Lines:
    """No records asked for, or no bytes: answered at once, or not."""
    ground.produce(4)
    ada = ground.member()
    ada.fetch(ground.place)
    wait = Limits(max_records=0, max_wait_ms=600)
    yield "no records", ada.fetch(limits=wait)
    yield "at once", ada.prompt
    yield "with acknowledgements", ada.fetch(acks={ground.place: [(0, 0, [ACCEPT])]}, limits=wait)
    yield "at once as well", ada.prompt
    yield "no bytes", ada.fetch(limits=Limits(min_bytes=0, max_wait_ms=600))
    yield "at once, too", ada.prompt
    yield "close", ada.close()


def two_in_flight(ground: Ground) -> Lines:
    """A second request of a session while its fetch waits: that one fails, with its records locked until the end."""
    ada = ground.member()
    ada.fetch(ground.place, limits=NOWAIT)
    request = ada.send_fetch(limits=LONG)
    first = ada.reconnect()
    second = ground.member(member_id=ada.member_id)
    second.epoch = 2
    wait_until(lambda: second.acknowledge()[0][0] == 0, "the first one has been seen")
    ground.produce(4)
    yield "the first", first.receive(request).error_code
    yield "locked", ground.member().fetch(ground.place)
    first.close()
    cyd, got = ground.member(), list[Any]()

    def given_back() -> bool:
        got[:] = cyd.fetch(*([ground.place] if cyd.epoch == 0 else []))
        return bool(acquired(got))

    wait_until(given_back, "the session's records are free")
    yield "free again", got
    yield "close", cyd.close()


Story = Callable[[Ground], Lines]
RENEWING: Final = frozenset({renewals, exact_numbers})
"""Stories of what Kafka 4.1 does not have."""
LIMITING: Final = frozenset({full_window})
"""Stories of what groups can be told since 4.3."""
STORIES: Final[tuple[Story, ...]] = (
    heartbeats,
    acquisition,
    kinds_of_acknowledgement,
    refused_acknowledgements,
    session_epochs,
    renewals,
    exact_numbers,
    leaving,
    forgotten_partition,
    places_that_are_none,
    deleted_topic,
    many_attempts,
    locks_run_out,
    markers,
    committed_markers,
    full_window,
    released_and_waited_for,
    fetch_of_nothing,
    two_in_flight,
)

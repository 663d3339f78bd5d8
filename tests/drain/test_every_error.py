"""Every error at every step of a share consumer's life: nothing is lost, nothing is accepted that nobody accepted."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Mapping

import pytest

from shareproxy.testing import SimulatedCluster
from shareproxy.testing.simulation.faults import Fault
from tests.drain.every_error import GROUP, LOCK_SECONDS, REQUEST_SECONDS, TOPIC, Event, Story, tell

SILENCE = "done, silence"
HEARTBEAT, FETCH, ACKNOWLEDGE = 76, 78, 79
SESSION = (FETCH, ACKNOWLEDGE)
STEPS: Mapping[str, tuple[int, ...]] = {
    "join": (HEARTBEAT,),
    "heartbeat": (HEARTBEAT,),
    "leave": (HEARTBEAT,),
    "open": (FETCH,),
    "fetch": (FETCH,),
    "acknowledge": SESSION,
    "renew": SESSION,
    "close": SESSION,
}
OF_MEMBERS = (-1, 7, 14, 15, 16, 25, 29, 30, 35, 42, 69, 81, 110)
OF_SESSIONS = (-1, 2, 3, 6, 7, 29, 30, 35, 42, 56, 74, 100, 121, 122, 123, 124, 133)
# with these the same request would only fail again: the consumer may give up, with an error for a person
DENIED = {29, 30}
FINAL: Mapping[str, set[int]] = {
    "join": DENIED | {35, 42, 69},
    "heartbeat": DENIED | {35, 42},
    "open": DENIED | {35, 42},
    "fetch": DENIED,
    "acknowledge": DENIED,
    "renew": DENIED,
}
MOST_AT_ONCE = 16
# of a consumer that gets no answer; all others have more patience
SILENCE_SECONDS = 3.0
SEEDS = 16

Begin = Callable[[SimulatedCluster], Fault]


async def told(
    faults: Mapping[str, Begin], *, step: str, may_give_up: Callable[[str], bool] = lambda name: False
) -> list[str]:
    """Tell the story of each fault, several at once, and return what must not be."""
    gate = asyncio.Semaphore(MOST_AT_ONCE)

    async def one(name: str, begin: Begin) -> Story:
        patience = SILENCE_SECONDS if name == SILENCE else REQUEST_SECONDS
        async with gate:
            return await tell(
                lambda cluster: [begin(cluster)],
                waits_for_hit=step in ("heartbeat", "renew"),
                request_timeout=patience,
            )

    stories = await asyncio.gather(*(one(*fault) for fault in faults.items()))
    found = []
    for name, story in zip(faults, stories, strict=True):
        complaints = list(story.complaints)
        if not story.hits:
            complaints.append("it never came about")
        if story.error is not None and not may_give_up(name):
            complaints.append(f"the consumer gave up: {story.error!r}")
        found += [f"{step}, {name}: {complaint}" for complaint in complaints]
    return found


@pytest.mark.parametrize("step", STEPS)
async def test_a_code_for_the_whole_request(step: str) -> None:
    """The broker refuses the request, and does nothing of it."""
    faults = {
        f"{code}": lambda cluster, code=code: cluster.fail(STEPS[step], code, step=step, times=1)
        for code in (OF_MEMBERS if STEPS[step] == (HEARTBEAT,) else OF_SESSIONS)
    }

    complaints = await told(faults, step=step, may_give_up=lambda name: int(name) in FINAL.get(step, ()))

    assert not complaints, "\n".join(complaints)


@pytest.mark.parametrize("step", ["open", "fetch", "acknowledge", "renew"])
async def test_a_code_for_one_partition(step: str) -> None:
    """The broker gives no records of a partition, or does not take its acknowledgements."""
    faults = {
        f"{code}": lambda cluster, code=code: cluster.fail(
            STEPS[step], code, topic=TOPIC, partition=0, step=step, times=1
        )
        for code in OF_SESSIONS
    }

    complaints = await told(faults, step=step, may_give_up=lambda name: int(name) in DENIED)

    assert not complaints, "\n".join(complaints)


@pytest.mark.parametrize("step", STEPS)
async def test_a_line_that_fails(step: str) -> None:
    """The connection ends before or after the broker has done what was asked, or the answer never comes."""
    faults: dict[str, Begin] = {
        "not done": lambda cluster: cluster.cut(STEPS[step], step=step),
        "done, no answer": lambda cluster: cluster.lose(STEPS[step], step=step),
        "done, half an answer": lambda cluster: cluster.cut(STEPS[step], step=step, after_bytes=7),
        SILENCE: lambda cluster: cluster.lose(STEPS[step], step=step, close=False),
        "slow": lambda cluster: cluster.slow(0.3, STEPS[step], step=step, times=2),
        "thrice not done": lambda cluster: cluster.cut(STEPS[step], step=step, times=3),
        "thrice no answer": lambda cluster: cluster.lose(STEPS[step], step=step, times=3),
    }

    complaints = await told(faults, step=step)

    assert not complaints, "\n".join(complaints)


def _restart(cluster: SimulatedCluster, member: str) -> None:
    cluster.stop_node(1)
    cluster.start_node(1)


def _for_a_while(begin: Callable[[], object], end: Callable[[], object]) -> None:
    begin()
    asyncio.get_running_loop().call_later(0.5, end)


def _hang(cluster: SimulatedCluster, member: str) -> None:
    _for_a_while(lambda: cluster.freeze_node(2), lambda: cluster.thaw_node(2))


def _lead_by_nobody(cluster: SimulatedCluster, member: str) -> None:
    leader = cluster.describe_topic(TOPIC).leaders[0]
    _for_a_while(lambda: cluster.move_leader(TOPIC, 0, None), lambda: cluster.move_leader(TOPIC, 0, leader))


def _answer_after_the_locks(cluster: SimulatedCluster, member: str) -> None:
    cluster.slow(LOCK_SECONDS * 1.5, FETCH, step="fetch", times=2)


def _forget_the_coordinator(cluster: SimulatedCluster, member: str) -> None:
    _for_a_while(lambda: cluster.move_group_coordinator(GROUP, None), lambda: cluster.move_group_coordinator(GROUP, 1))


EVENTS: Mapping[str, Event] = {
    "connections break": lambda cluster, member: cluster.drop_connections(1),
    "a broker starts again": _restart,
    "a broker is gone": lambda cluster, member: cluster.stop_node(2),
    "a leader moves": lambda cluster, member: cluster.move_leader(
        TOPIC, 0, 3 - (cluster.describe_topic(TOPIC).leaders[0] or 1)
    ),
    "sessions are forgotten": lambda cluster, member: cluster.end_share_sessions(GROUP),
    "the member is forgotten": lambda cluster, member: cluster.fence(GROUP, member),
    "locks run out": lambda cluster, member: cluster.expire_locks(GROUP),
    "the coordinator moves": lambda cluster, member: cluster.move_group_coordinator(
        GROUP, 3 - (cluster.group_coordinator(GROUP) or 1)
    ),
    "another member comes and leaves": lambda cluster, member: cluster.leave(GROUP, cluster.join(GROUP, [TOPIC])),
    "a broker hangs": _hang,
    "nobody leads for a while": _lead_by_nobody,
    "nobody coordinates for a while": _forget_the_coordinator,
    "answers come after the locks": _answer_after_the_locks,
    "a partition comes": lambda cluster, member: cluster.add_partitions(TOPIC, 3),
    "records come": lambda cluster, member: cluster.produce(TOPIC, 0, 3),
}


@pytest.mark.parametrize("version", ["4.1.2", "4.4.0"])
async def test_what_happens_to_the_cluster(version: str) -> None:
    """Brokers, leaders, coordinators, sessions and members go and come while records are being worked on."""

    async def one(event: Event) -> Story:
        return await tell(lambda cluster: [], version=version, meanwhile=event)

    stories = await asyncio.gather(*(one(event) for event in EVENTS.values()))

    complaints = [
        f"{name}: {complaint}"
        for name, story in zip(EVENTS, stories, strict=True)
        for complaint in [*story.complaints, *([f"it gave up: {story.error!r}"] if story.error else [])]
    ]
    assert not complaints, "\n".join(complaints)


def _some_faults(seed: int, cluster: SimulatedCluster) -> list[Fault]:
    """Let five things go wrong that a consumer has to survive."""
    chance = random.Random(seed)
    found = []
    for _ in range(5):
        step = chance.choice([*STEPS])
        apis, times = STEPS[step], chance.randint(1, 2)
        codes = [code for code in (OF_MEMBERS if apis == (HEARTBEAT,) else OF_SESSIONS) if code not in FINAL["join"]]
        kind = chance.choice(["whole", "whole", "row", "not done", "no answer", "slow"])
        if kind == "row" and step in ("open", "fetch", "acknowledge", "renew"):
            partition = chance.randint(0, 1)
            found.append(
                cluster.fail(apis, chance.choice(codes), topic=TOPIC, partition=partition, step=step, times=times)
            )
        elif kind == "not done":
            found.append(cluster.cut(apis, step=step, times=times))
        elif kind == "no answer":
            found.append(cluster.lose(apis, step=step, times=times))
        elif kind == "slow":
            found.append(cluster.slow(chance.random() / 2, apis, step=step, times=times))
        else:
            found.append(cluster.fail(apis, chance.choice(codes), step=step, times=times))
    return found


@pytest.mark.parametrize("version", ["4.1.2", "4.4.0"])
async def test_several_things_at_once(version: str) -> None:
    """Errors upon errors, other ones for each seed."""

    async def one(seed: int) -> Story:
        async with gate:
            events = [*EVENTS.values()]
            return await tell(
                lambda cluster: _some_faults(seed, cluster),
                version=version,
                meanwhile=events[seed % len(events)],
            )

    gate = asyncio.Semaphore(MOST_AT_ONCE)
    seeds = range(SEEDS)
    stories = await asyncio.gather(*(one(seed) for seed in seeds))

    complaints = [
        f"{version}, seed {seed}: {complaint}"
        for seed, story in zip(seeds, stories, strict=True)
        for complaint in [*story.complaints, *([f"it gave up: {story.error!r}"] if story.error else [])]
    ]
    assert not complaints, "\n".join(complaints)

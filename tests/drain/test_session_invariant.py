"""R23 and its kin, whatever happens in whatever order: random callers, lost locks, lost lines, one strict broker."""

from __future__ import annotations

from collections import Counter

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from shareproxy.drain.model import Acknowledgement
from shareproxy.drain.session import SessionOutcome, SessionRequest, SharePartition, ShareSession
from tests.drain.model_broker import ACQUIRED, ModelBroker
from tests.drain.share_answers import BILLS, ORDERS

RECORDS = 30
PARTITIONS = [ORDERS, BILLS]
RENEW = Acknowledgement.RENEW
KINDS = st.sampled_from([*Acknowledgement])
SPANS = st.tuples(st.integers(0, RECORDS - 1), st.integers(0, 8))

Asked = tuple[SharePartition, int, Acknowledgement]


class SessionMachine(RuleBasedStateMachine):
    """One session, its caller, and the broker."""

    def __init__(self) -> None:
        super().__init__()
        self.session = ShareSession("group", "member", version=2)
        self.session.set_wanted(PARTITIONS)
        self.now = 0.0
        # what the caller asked for and has no result yet; renewals may be one for several wishes
        self.asked: Counter[Asked] = Counter()
        self.request: SessionRequest | None = None
        self.broker = ModelBroker(PARTITIONS, RECORDS, self.judge)
        # a failed step must not be followed by the failures it causes
        self.sound = True

    def judge(self, partition: SharePartition, offset: int, kind: int) -> None:
        """What reaches the broker is what the caller said, and has no result yet; renewals may be the session's own."""
        asked = partition, offset, Acknowledgement(kind)
        assert asked[2] is RENEW or self.asked[asked] == 1, f"nobody asked for {asked}"

    @rule(partition=st.sampled_from(PARTITIONS), span=SPANS, kind=KINDS)
    def acknowledge(self, partition: SharePartition, span: tuple[int, int], kind: Acknowledgement) -> None:
        """The caller decides over some offsets."""
        first, last = span[0], span[0] + span[1]
        held = {o for r in self.session.held(partition) for o in range(r.first, r.last + 1)}

        missing = self.session.acknowledge(partition, first, last, kind)

        lacking = {o for r in missing for o in range(r.first, r.last + 1)}
        assert lacking == set(range(first, last + 1)) - held
        for offset in set(range(first, last + 1)) - lacking:
            if kind is RENEW:
                self.asked[partition, offset, kind] = 1
            else:
                self.asked[partition, offset, kind] += 1

    @precondition(lambda self: self.request is None)
    @rule(capacity=st.integers(0, 12), waiting=st.booleans())
    def send(self, capacity: int, waiting: bool) -> None:
        """The session asks, if it has something."""
        self.request = self.session.next_request(self.now, capacity=capacity, waiting=waiting)

    @precondition(lambda self: self.request is not None)
    @rule()
    def answer(self) -> None:
        """The broker answers."""
        assert self.request is not None
        self.sound = False
        request, self.request = self.request, None
        self.settle(self.session.on_answer(self.broker.serve(request), self.now))

    @rule(served=st.booleans())
    def cut(self, served: bool) -> None:
        """The line breaks, before or after the broker saw the request."""
        self.sound = False
        if self.request is not None and served:
            self.broker.serve(self.request)
        self.request = None
        self.broker.drop()
        outcome = self.session.on_lost(self.now, "cut")
        assert not any(result.confirmed for result in outcome.results)
        self.settle(outcome)
        assert not +self.asked, "left without a result"
        assert self.session.held_count == self.session.unconfirmed_count == 0

    @rule(partition=st.sampled_from(PARTITIONS), span=SPANS)
    def lose_lock(self, partition: SharePartition, span: tuple[int, int]) -> None:
        """A lock runs out at the broker."""
        self.broker.lose_lock(partition, span[0], span[0] + span[1])

    @rule(seconds=st.floats(0.1, 20.0))
    def wait(self, seconds: float) -> None:
        """Time goes by."""
        self.now += seconds
        outcome = self.session.expire(self.now)
        for lost in outcome.locks_lost:
            for first, last in lost.ranges:
                self.broker.lose_lock(lost.partition, first, last)
        self.settle(outcome)

    @rule(wanted=st.sets(st.sampled_from(PARTITIONS)))
    def assign(self, wanted: set[SharePartition]) -> None:
        """The coordinator changes its mind."""
        self.session.set_wanted(wanted)

    def settle(self, outcome: SessionOutcome) -> None:
        """Each result is for something that was asked, once."""
        self.sound = False
        by_name = {partition.name: partition for partition in PARTITIONS}
        for result in outcome.results:
            for (first, last), kind in result.ranges:
                for offset in range(first, last + 1):
                    asked = by_name[result.partition], offset, kind
                    assert kind is RENEW or self.asked[asked] > 0, f"a result for {asked} that nobody awaits"
                    self.asked[asked] = max(0, self.asked[asked] - 1)
        self.sound = True

    @invariant()
    def counts_agree(self) -> None:
        """What has no result is what the session says."""
        waiting = sum(count for (_, _, kind), count in self.asked.items() if kind is not RENEW)
        assert self.session.unconfirmed_count <= waiting
        if not any(kind is RENEW for _, _, kind in +self.asked):
            assert self.session.unconfirmed_count == waiting

    def teardown(self) -> None:
        """In the end everything can be acknowledged, and the close settles it all."""
        if not self.sound:
            return
        if self.request is not None:
            self.answer()
        for partition in PARTITIONS:
            self.acknowledge(partition, (0, RECORDS - 1), Acknowledgement.ACCEPT)
        self.session.begin_close()
        for _ in range(500):
            self.request = self.session.next_request(self.now, capacity=5)
            if self.request is None:
                break
            self.answer()
        assert self.session.is_closed
        assert not +self.asked
        assert not any(ACQUIRED in states for states in self.broker.state.values())


TestSession = SessionMachine.TestCase
TestSession.settings = settings(
    max_examples=25, stateful_step_count=30, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)

"""A closer look at any log in any state, beside what one counts offset by offset."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field

from hypothesis import given, settings
from hypothesis import strategies as st

from shareproxy.lag.engine import LagEngine
from shareproxy.lag.model import PartitionLag
from shareproxy.lag.visible import VisibleReader
from shareproxy.lag.visible_model import Want
from tests.lag.logs import Log, LogBrokers
from tests.lag.simulated_brokers import N1, T1, Group, Stored, Topic, soon


@dataclass
class Model:
    """A log and a share partition, offset by offset."""

    log: Log = field(default_factory=Log)
    records: set[int] = field(default_factory=set)
    aborted: set[int] = field(default_factory=set)
    states: dict[int, int] = field(default_factory=dict)
    start: int = 0

    @property
    def stable(self) -> int:
        """Last stable offset."""
        return self.log.end if self.log.stable is None else self.log.stable

    def write(self, kind: str, count: int, producer_id: int) -> None:
        """Append plain records, a transaction, or offsets that compaction left empty."""
        first = self.log.end
        if kind == "hole":
            self.log.end += count
            return
        if kind == "plain":
            self.log.add(count)
        elif kind == "empty":
            self.log.add(0, span=count)
            return
        else:
            self.log.transaction(count, producer_id, commit=kind == "commit")
        written = range(first, first + count)
        self.records.update(written)
        if kind == "abort":
            self.aborted.update(written)

    def done(self) -> list[int]:
        """Offsets from the start that are acknowledged or archived."""
        return [offset for offset, state in self.states.items() if offset >= self.start and state in (2, 4)]

    def truth(self, *, committed: bool) -> tuple[int, int, int]:
        """Return lag, consumable lag and phantom offsets."""
        end = self.stable if committed else self.log.end
        seen = self.records - self.aborted if committed else self.records
        first = max(self.start, self.log.start)
        given = [offset for offset in range(first, end) if offset in seen and self.states.get(offset) not in (2, 3, 4)]
        lag = self.log.end - self.start - len(self.done())
        tail = len([offset for offset in range(max(first, end), self.log.end) if self.states.get(offset) not in (2, 4)])
        archiving = len([offset for offset in range(self.start, end) if self.states.get(offset) == 3])
        return lag, len(given), lag - len(given) - tail - archiving


@st.composite
def models(draw: st.DrawFn) -> Model:
    """Draw a log of a few batches, an open transaction perhaps, deleted records, and states of offsets."""
    model = Model()
    kinds = st.sampled_from(["plain", "commit", "abort", "hole", "empty"])
    for kind, count, producer_id in draw(st.lists(st.tuples(kinds, st.integers(1, 4), st.integers(1, 2)), max_size=6)):
        model.write(kind, count, producer_id)
    model.write("plain", 1, -1)  # the last batch of a log is never compacted away
    if draw(st.booleans()):
        model.log.stable = model.log.end
        model.write("plain", draw(st.integers(1, 3)), -1)
    end = model.stable
    model.start = draw(st.integers(0, end))
    model.log.start = draw(st.integers(0, model.log.end))
    for offset in range(model.start, end):
        state = draw(st.sampled_from([0, 0, 2, 2, 3, 4, None]))
        if state is not None:
            model.states[offset] = state
    return model


async def look(model: Model, *, committed: bool, may_read_state: bool) -> PartitionLag:
    """Report on the model, and look closer."""
    brokers = LogBrokers()
    brokers.topics["orders"] = Topic(T1, [N1], [model.log.end])
    brokers.logs["orders", 0] = model.log
    brokers.groups["g"] = Group()
    brokers.cluster_action = may_read_state
    batches = [(offset, offset, state) for offset, state in model.states.items()]
    brokers.states["g", T1, 0] = Stored(model.start, epoch=1, count=len(model.done()), batches=batches)
    level = "read_committed" if committed else "read_uncommitted"
    # with a dead-letter topic the batches are read even if nothing is done
    brokers.settings["g"] = {"share.isolation.level": level, "errors.deadletterqueue.topic.name": "dlq"}
    report = await LagEngine(brokers).report(["g"])
    reader = VisibleReader(brokers, clock=lambda: 1.0)
    [group] = (await reader.look(report, Want.PHANTOM | Want.AGE, deadline=soon())).groups
    return group.partitions[0]


@settings(max_examples=150)
@given(models(), st.booleans())
def test_numbers_are_those_of_the_model(model: Model, committed: bool) -> None:
    """Lag, consumable and phantom offsets are exact where the states can be read."""
    row = asyncio.run(look(model, committed=committed, may_read_state=True))

    assert row.visible is not None
    found = (row.lag, row.visible.consumable_lag, row.visible.phantom_offsets)
    assert found == model.truth(committed=committed)
    assert (row.visible.oldest_record_age_seconds is not None) == bool(row.visible.consumable_lag)


@settings(max_examples=150)
@given(models(), st.booleans())
def test_bounds_are_true_without_the_states(model: Model, committed: bool) -> None:
    """With the count alone the truth lies between the two bounds."""
    model.states = {offset: state for offset, state in model.states.items() if state != 3}

    row = asyncio.run(look(model, committed=committed, may_read_state=False))

    lag, consumable, phantom = model.truth(committed=committed)
    assert (row.lag, row.visible is not None) == (lag, True)
    assert row.visible is not None
    assert row.visible.consumable_lag_min is not None
    assert row.visible.consumable_lag_max is not None
    assert row.visible.phantom_offsets_min is not None
    assert row.visible.phantom_offsets_max is not None
    assert row.visible.consumable_lag_min <= consumable <= row.visible.consumable_lag_max
    assert row.visible.phantom_offsets_min <= phantom <= row.visible.phantom_offsets_max


def test_model_counts_what_it_should() -> None:
    """Ten records of thirteen offsets, five of them aborted; two are done."""
    model = Model()
    for kind, count in (("commit", 3), ("abort", 5), ("commit", 2)):
        model.write(kind, count, 7)
    model.states = {0: 2, 1: 4}

    assert model.truth(committed=False) == (11, 8, 3)
    assert model.truth(committed=True) == (11, 3, 8)

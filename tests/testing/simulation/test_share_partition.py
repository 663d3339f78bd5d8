"""What the leader of a share partition hands out, keeps and writes."""

from __future__ import annotations

import pytest

from shareproxy.testing.simulation.record_log import RecordLog
from shareproxy.testing.simulation.share_partition import GroupRules, ShareLeader, Writer, WriteRefused
from shareproxy.testing.simulation.share_state import RecordState, StateBatch, StoredState

ACCEPT, RELEASE, REJECT = RecordState.ACKNOWLEDGED, RecordState.AVAILABLE, RecordState.ARCHIVED
EARLIEST = GroupRules("earliest")
COMMITTED = GroupRules("earliest", "read_committed")
WRITER = Writer(0, True)


def log_of(*batches: int) -> RecordLog:
    """Return a log with batches of so many records."""
    log = RecordLog()
    for count in batches:
        log.append(count, 1)
    return log


def ranges(
    leader: ShareLeader, log: RecordLog, rules: GroupRules = EARLIEST, member: str = "m", most: int = 500
) -> list[tuple[int, int]]:
    """Acquire, and return the ranges."""
    return [(row.first_offset, row.last_offset) for row in leader.acquire(log, rules, member, most)]


def states(stored: StoredState) -> list[tuple[int, int, int, int]]:
    """Return the stored batches as tuples."""
    return [(b.first_offset, b.last_offset, b.state, b.delivery_count) for b in stored.batches]


def test_it_begins_where_the_group_says() -> None:
    """At the log start or at the end; nothing is written by that."""
    log, stored = log_of(4), StoredState()
    log.delete_before(1)
    assert ShareLeader(stored, log, EARLIEST).start_offset == 1
    assert ShareLeader(stored, log, GroupRules("latest")).start_offset == 4
    assert stored.start_offset == -1


def test_whole_batches_are_handed_out() -> None:
    """Until it is enough; what was handed out is not handed out again."""
    log = log_of(3, 4, 2)
    leader = ShareLeader(StoredState(), log, EARLIEST)
    assert ranges(leader, log, most=4) == [(0, 2), (3, 6)]
    assert leader.in_flight == 7
    assert ranges(leader, log) == [(7, 8)]
    assert ranges(leader, log) == []


def test_the_stored_start_moves_with_the_next_write() -> None:
    """KIP-1226's picture: {start 0, 4 complete}, then {start 2, 2 complete}."""
    log, stored = log_of(7), StoredState()
    leader = ShareLeader(stored, log, EARLIEST)
    ranges(leader, log)
    leader.acknowledge([(0, 1, ACCEPT), (5, 5, ACCEPT), (6, 6, REJECT)], EARLIEST, WRITER)
    assert (stored.start_offset, stored.delivery_complete_count) == (0, 4)
    leader.acknowledge([(2, 2, RELEASE)], EARLIEST, WRITER)
    assert (stored.start_offset, stored.delivery_complete_count) == (2, 2)
    assert states(stored) == [(2, 2, 0, 1), (5, 5, 2, 1), (6, 6, 4, 1)]


def test_a_leader_of_an_old_release_writes_no_count() -> None:
    """Nor one whose share coordinator would not store it."""
    log, stored = log_of(2), StoredState()
    leader = ShareLeader(stored, log, EARLIEST)
    ranges(leader, log)
    leader.acknowledge([(0, 1, ACCEPT)], EARLIEST, Writer(3, False))
    assert (stored.start_offset, stored.delivery_complete_count, stored.leader_epoch) == (0, -1, 3)


def test_a_fenced_leader_changes_nothing() -> None:
    """Its records stay acquired."""
    log, stored = log_of(2), StoredState(fence=5)
    leader = ShareLeader(stored, log, EARLIEST)
    ranges(leader, log)
    with pytest.raises(WriteRefused):
        leader.acknowledge([(0, 1, ACCEPT)], EARLIEST, WRITER)
    assert (leader.in_flight, stored.start_offset) == (2, -1)


def test_the_last_delivery_archives() -> None:
    """A record that is released at the limit is complete."""
    rules, log, stored = GroupRules("earliest", delivery_count_limit=2), log_of(1), StoredState()
    leader = ShareLeader(stored, log, rules)
    for _ in range(2):
        ranges(leader, log, rules)
        leader.acknowledge([(0, 0, RELEASE)], rules, WRITER)
    assert (states(stored), leader.start_offset) == ([(0, 0, 4, 2)], 1)


def test_suspects_are_handed_out_alone() -> None:
    """From half of the limit on fewer at a time, at last one; an old release does not care."""
    stored = StoredState(0, 0, 0, 0, (StateBatch(0, 7, 0, 3),))
    assert ranges(ShareLeader(stored, log_of(8), EARLIEST), log_of(8)) == [(0, 3)]
    stored = StoredState(0, 0, 0, 0, (StateBatch(0, 7, 0, 4),))
    assert ranges(ShareLeader(stored, log_of(8), EARLIEST), log_of(8)) == [(0, 0)]
    old = ShareLeader(stored, log_of(8), EARLIEST).acquire(log_of(8), EARLIEST, "m", 500, isolates_poison=False)
    assert [(row.first_offset, row.last_offset, row.delivery_count) for row in old] == [(0, 7, 5)]


def test_aborted_records_are_archived_in_memory() -> None:
    """A group that reads committed records never gets them; the count of the next write has them, the states do not."""
    log, stored = RecordLog(), StoredState()
    log.append(2, 1, producer_id=1, transactional=True)
    log.end_transaction(1, commit=False, timestamp=1)
    log.append(1, 1)
    leader = ShareLeader(stored, log, COMMITTED)
    assert ranges(leader, log, COMMITTED) == [(2, 2), (3, 3)]
    leader.acknowledge([(3, 3, ACCEPT)], COMMITTED, WRITER)
    assert (stored.start_offset, stored.delivery_complete_count, states(stored)) == (2, 1, [(3, 3, 2, 1)])


def test_an_open_transaction_is_not_handed_out() -> None:
    """To a group that reads committed records; to others it is."""
    log = log_of(1)
    log.append(2, 1, producer_id=1, transactional=True)
    assert ranges(ShareLeader(StoredState(), log, COMMITTED), log, COMMITTED) == [(0, 0)]
    assert ranges(ShareLeader(StoredState(), log, EARLIEST), log) == [(0, 0), (1, 2)]


def test_compacted_offsets_before_the_first_batch_are_skipped() -> None:
    """The start moves to the batch that is there, with its whole span."""
    log, stored = log_of(30, 10, 1), StoredState()
    log.compact([38, 39, 40])
    leader = ShareLeader(stored, log, EARLIEST)
    assert ranges(leader, log, most=10) == [(30, 39)]
    leader.acknowledge([(38, 38, ACCEPT)], EARLIEST, WRITER)
    assert (stored.start_offset, stored.delivery_complete_count) == (30, 1)


def test_deleted_records_are_dropped_with_the_next_fetch() -> None:
    """And the stored state learns of it with the next write."""
    log, stored = log_of(6), StoredState()
    leader = ShareLeader(stored, log, EARLIEST)
    ranges(leader, log)
    leader.acknowledge([(0, 0, ACCEPT), (1, 5, RELEASE)], EARLIEST, WRITER)
    log.delete_before(4)
    assert stored.start_offset == 0
    assert ranges(leader, log) == [(4, 5)]
    leader.acknowledge([(4, 4, ACCEPT)], EARLIEST, WRITER)
    assert (stored.start_offset, stored.delivery_complete_count) == (4, 1)


def test_each_member_holds_its_own() -> None:
    """What one gives back the other keeps, although their ranges touch."""
    log = log_of(2, 2)
    leader = ShareLeader(StoredState(), log, EARLIEST)
    ranges(leader, log, member="a", most=2)
    ranges(leader, log, member="b", most=2)
    assert [(b.first_offset, b.last_offset) for b in leader.held_by("b")] == [(2, 3)]
    leader.give_back(leader.held_by("a"), EARLIEST, WRITER)
    assert [(b.first_offset, b.last_offset) for b in leader.held_by(None)] == [(2, 3)]
    assert ranges(leader, log, member="b") == [(0, 1)]
    assert leader.held_by("a") == []


def test_a_new_leader_begins_with_what_is_stored() -> None:
    """What was acquired and never written is handed out again."""
    log, stored = log_of(7), StoredState()
    leader = ShareLeader(stored, log, EARLIEST)
    ranges(leader, log)
    leader.acknowledge([(0, 1, ACCEPT), (5, 5, ACCEPT)], EARLIEST, WRITER)
    new = ShareLeader(stored, log, EARLIEST)
    assert new.start_offset == 2
    assert ranges(new, log) == [(2, 4), (6, 6)]


def test_locks_are_limited() -> None:
    """A fetch that has reached the limit takes no further batch."""
    rules, log = GroupRules("earliest", max_record_locks=2), log_of(2, 2)
    leader = ShareLeader(StoredState(), log, rules)
    assert ranges(leader, log, rules) == [(0, 1)]
    assert ranges(leader, log, rules) == []


def test_dead_letters_count_until_they_are_written() -> None:
    """Rejected records of a group whose dead-letter topic is stuck are archiving, which is not complete (KIP-1191)."""
    rules, log, stored = GroupRules("earliest", keeps_dead_letters=True), log_of(2), StoredState()
    leader = ShareLeader(stored, log, rules)
    ranges(leader, log, rules)
    leader.acknowledge([(0, 1, REJECT)], rules, WRITER)
    assert (stored.delivery_complete_count, states(stored)) == (0, [(0, 1, 3, 1)])
    leader.finish_dead_letters(EARLIEST, WRITER)
    assert (stored.delivery_complete_count, states(stored)) == (2, [(0, 1, 4, 1)])


def test_with_the_lowest_limit_nothing_is_held_back() -> None:
    """Kafka gives out less from two deliveries on, which a record does not live to see with a limit of two."""
    rules = GroupRules("earliest", delivery_count_limit=2)
    log = log_of(1, 1)
    leader = ShareLeader(StoredState(), log, rules)
    ranges(leader, log, rules, most=1)
    leader.acknowledge([(0, 0, RELEASE)], rules, WRITER)

    assert ranges(leader, log, rules) == [(0, 0), (1, 1)]

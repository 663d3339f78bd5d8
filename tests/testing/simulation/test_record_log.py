"""The modelled log of one partition."""

from __future__ import annotations

import pytest

from shareproxy.testing.simulation.record_log import RecordLog


def offsets(log: RecordLog, start: int = 0) -> list[list[int]]:
    """Return the record offsets of each batch."""
    return [list(batch.offsets()) for batch in log.batches_from(start, log.high_watermark)]


def test_batches_follow_one_another() -> None:
    """Each write begins where the last one ended."""
    log = RecordLog()
    assert list(log.append(3, 1)) == [0, 1, 2]
    assert list(log.append(2, 2)) == [3, 4]
    assert (log.high_watermark, log.last_stable_offset, offsets(log, 2)) == (5, 5, [[0, 1, 2], [3, 4]])


def test_an_open_transaction_holds_the_last_stable_offset() -> None:
    """Until its marker, which takes an offset of its own."""
    log = RecordLog()
    log.append(1, 1)
    log.append(2, 1, producer_id=7, transactional=True)
    assert (log.high_watermark, log.last_stable_offset, log.open_transactions) == (3, 1, {7: 1})
    assert log.end_transaction(7, commit=True, timestamp=2) == 3
    assert (log.high_watermark, log.last_stable_offset) == (4, 4)
    assert log.end_transaction(7, commit=True, timestamp=2) is None


def test_an_aborted_transaction_is_remembered() -> None:
    """For the batches before its marker, and not for those of the producer's next one."""
    log = RecordLog()
    log.append(2, 1, producer_id=7, transactional=True)
    log.end_transaction(7, commit=False, timestamp=1)
    log.append(2, 1, producer_id=7, transactional=True)
    aborted, marker, open_ = log.batches_from(0, log.high_watermark)
    assert [log.is_aborted(batch) for batch in (aborted, marker, open_)] == [True, False, False]
    assert [(row.first_offset, row.last_offset) for row in log.aborted(0, 9)] == [(0, 2)]
    assert log.aborted(3, 9) == []


def test_compaction_keeps_the_span_of_a_batch() -> None:
    """A batch that keeps a record keeps its first offset; one without any is gone, a marker stays."""
    log = RecordLog()
    log.append(3, 1)
    log.append(3, 1)
    log.append(1, 1, producer_id=1, transactional=True)
    log.end_transaction(1, commit=True, timestamp=1)
    log.compact([4])
    assert offsets(log) == [[4], [7]]
    assert (log.batch_at(3), log.batch_at(1)) == (next(log.batches_from(0, 9)), None)
    assert log.high_watermark == 8


def test_deletion_moves_the_log_start() -> None:
    """Batches that are wholly below it are gone; it never moves back, nor past the end."""
    log = RecordLog()
    log.append(3, 1)
    log.append(3, 1)
    assert log.delete_before(4) == 4
    assert log.delete_before(2) == 4
    assert offsets(log) == [[3, 4, 5]]
    with pytest.raises(ValueError, match="ends at 6"):
        log.delete_before(7)


def test_the_last_stable_offset_may_lie_below_the_log() -> None:
    """Where the beginning of an open transaction was deleted."""
    log = RecordLog()
    log.append(4, 1, producer_id=1, transactional=True)
    log.delete_before(3)
    assert (log.last_stable_offset, log.log_start_offset) == (0, 3)


def test_offsets_by_time() -> None:
    """The first record that is young enough and still there, and the youngest."""
    log = RecordLog()
    assert (log.offset_at(1), log.max_timestamp()) == ((-1, -1), (-1, -1))
    log.append(2, 100)
    log.append(2, 200)
    assert (log.offset_at(100), log.offset_at(101), log.offset_at(201)) == ((100, 0), (200, 2), (-1, -1))
    assert log.max_timestamp() == (200, 3)
    log.delete_before(3)
    assert log.offset_at(0) == (200, 3)

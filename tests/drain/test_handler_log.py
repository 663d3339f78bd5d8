"""A worker's log has each kind of failure once with its traceback, and nobody's data."""

from __future__ import annotations

import pytest
from structlog.testing import capture_logs

from shareproxy.drain.events import AssignmentChanged, GapsAcknowledged, LockLost
from shareproxy.drain.handler_log import MOST_KINDS, HandlerLog
from shareproxy.drain.handler_metrics import HandlerCounts
from shareproxy.drain.model import OffsetRange, TopicPartition
from shareproxy.drain.sink import Fatal, RejectRecord, Retriable
from tests.drain.fake_consumer import FakeRecord

P0 = TopicPartition("orders", 0)


def raised(error: Exception) -> Exception:
    """Return an error that was raised here."""
    try:
        raise error
    except Exception as caught:
        return caught


def test_a_kind_of_failure_is_logged_with_its_traceback_once() -> None:
    """Then at each power of ten, as a line; all of them are counted by name."""
    counts = HandlerCounts()
    with capture_logs() as lines:
        log = HandlerLog(counts, "mails")
        for number in range(100):
            log.failed(raised(ValueError(f"number {number}")), FakeRecord(number))

    assert [line.get("times") for line in lines] == [None, 10, 100]
    assert isinstance(lines[0]["exc_info"], ValueError)
    assert lines[0]["group"] == "mails"
    assert counts.failures == {"ValueError": 100}


@pytest.mark.parametrize("kind", [Retriable, RejectRecord, Fatal])
def test_what_a_handler_says_on_purpose_has_no_traceback(kind: type[Exception]) -> None:
    """It is a sentence, and an outcome that is meant."""
    counts = HandlerCounts()
    with capture_logs() as lines:
        HandlerLog(counts, "mails").failed(raised(kind("no such address")), FakeRecord(3))

    (line,) = lines
    assert (line["log_level"], line["error"], line["why"]) == ("warning", kind.__name__, "no such address")
    assert "exc_info" not in line
    assert counts.failures == {kind.__name__: 1}


def test_the_same_error_at_another_place_is_another_kind() -> None:
    """It has another traceback."""
    with capture_logs() as lines:
        log = HandlerLog(HandlerCounts(), "mails")
        log.failed(raised(ValueError()), FakeRecord())
        log.failed(ValueError(), FakeRecord())

    assert len(lines) == 2


def test_kinds_beyond_a_limit_are_only_counted() -> None:
    """Memory is bounded, whatever a handler does."""
    counts = HandlerCounts()
    with capture_logs() as lines:
        log = HandlerLog(counts, "mails")
        for number in range(MOST_KINDS + 5):
            log.failed(type(f"Error{number}", (Exception,), {})(), FakeRecord())

    assert len(lines) == MOST_KINDS
    assert counts.failures.total() == MOST_KINDS + 5


def test_events_have_levels_and_are_counted() -> None:
    """What is normal is not a warning."""
    counts, none = HandlerCounts(), frozenset[TopicPartition]()
    with capture_logs() as lines:
        log = HandlerLog(counts, "mails")
        log.tell(AssignmentChanged(frozenset((P0,)), frozenset((P0,)), none))
        log.tell(GapsAcknowledged(P0, (OffsetRange(3, 3),)))
        log.tell(LockLost(P0, (OffsetRange(5, 6),), delivered=True))

    assert [line["log_level"] for line in lines] == ["info", "debug", "warning"]
    assert counts.events == {"AssignmentChanged": 1, "GapsAcknowledged": 1, "LockLost": 1}


def test_keys_and_values_stay_out() -> None:
    """A record is named by its place."""
    with capture_logs() as lines:
        log = HandlerLog(HandlerCounts(), "mails")
        log.failed(ValueError(), FakeRecord(3, b"secret", key=b"secret"))
        log.often("something", FakeRecord(3, b"secret", key=b"secret"))

    assert "secret" not in str(lines)

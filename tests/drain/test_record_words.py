"""Records and failures in words."""

from __future__ import annotations

from typing import Any

from shareproxy.drain.errors import DrainError
from shareproxy.drain.put_outcome import PutTimedOut
from shareproxy.drain.record_words import most_deliveries, sentence, sentence_or, unreadable_why, where
from tests.drain.fake_consumer import FakeRecord


def test_records_are_named_by_place_the_first_few_of_many() -> None:
    """Without their contents."""
    records: Any = [FakeRecord(offset, b"secret") for offset in range(7)]

    assert where(records[:1]) == "orders-0@0"
    assert where(records) == "7 records (orders-0@0, orders-0@1, orders-0@2, orders-0@3, orders-0@4, …)"


def test_a_failure_is_one_line_of_bounded_length() -> None:
    """With its type, unless it is a sentence of ours."""
    assert sentence(ValueError("two\n  lines")) == "ValueError: two lines"
    assert sentence(ValueError()) == "ValueError"
    assert len(sentence(ValueError("x" * 10_000))) < 600
    assert sentence(PutTimedOut("it took too long")) == "it took too long"
    assert sentence(DrainError("no server; check dsn")) == "no server; check dsn"
    assert sentence_or(None, "nothing") == "nothing"
    assert sentence_or(ValueError("v"), "nothing") == "ValueError: v"


def test_what_a_converter_says_is_not_repeated() -> None:
    """It may quote the record."""
    records: Any = [FakeRecord(0, error=ValueError("secret")), FakeRecord(1, error=KeyError("secret"))]

    assert unreadable_why(records) == "a converter cannot read them: KeyError, ValueError"


def test_the_highest_delivery_count_counts() -> None:
    """1 for none."""
    records: Any = [FakeRecord(0, delivery_count=2), FakeRecord(1, delivery_count=4)]

    assert (most_deliveries(records), most_deliveries([])) == (4, 1)

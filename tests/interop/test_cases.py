"""What the cases of the interop table compare."""

from __future__ import annotations

import dataclasses

import pytest

from tests.interop.cases import PARTITIONS, SORTS, plain_record, records_of_every_sort, same_records
from tests.interop.client import ClientFailed, clients
from tests.interop.program import Record

SENT = [plain_record(number, b"text") for number in range(4 * PARTITIONS)]
GOT = [dataclasses.replace(record, offset=number // PARTITIONS) for number, record in enumerate(SENT)]


def test_same_records_pass() -> None:
    """The order between partitions does not matter."""
    same_records(SENT, sorted(GOT, key=lambda record: record.partition))


@pytest.mark.parametrize(
    "got",
    [
        GOT[:-1],
        [*GOT, GOT[-1]],
        [dataclasses.replace(GOT[0], value=b"0:other"), *GOT[1:]],
        [dataclasses.replace(GOT[0], key=None), *GOT[1:]],
        [dataclasses.replace(GOT[0], headers=(("name", None),)), *GOT[1:]],
        [dataclasses.replace(GOT[0], partition=1), *GOT[1:]],
        [GOT[PARTITIONS], *GOT[1:PARTITIONS], GOT[0], *GOT[PARTITIONS + 1 :]],
    ],
    ids=["lost", "twice", "value", "key", "headers", "partition", "order"],
)
def test_different_records_fail(got: list[Record]) -> None:
    """A record that is lost, doubled, changed or out of its order is found."""
    with pytest.raises(ClientFailed):
        same_records(SENT, got)


@pytest.mark.parametrize("sort", SORTS)
def test_each_sort_is_sent(sort: str) -> None:
    """What a client may lack is among the records of one that lacks nothing, and not of one that does."""
    assert any(map(SORTS[sort], records_of_every_sort()))
    assert not any(map(SORTS[sort], records_of_every_sort([sort])))


def test_each_lack_of_a_client_is_known() -> None:
    """A misspelt lack would be found in the middle of a long run only."""
    assert {lack for client in clients() for lack in client.lacks} <= set(SORTS)

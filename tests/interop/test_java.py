"""Kafka's own Java clients through the proxy."""

from __future__ import annotations

from typing import Literal

import pytest

from shareproxy.testing.driver import ShareDriver
from tests.support import scenarios
from tests.support.running_proxy import RunningProxy


@pytest.fixture
def through(driver: ShareDriver, proxy: RunningProxy) -> ShareDriver:
    """Java clients connected to the proxy."""
    return driver.connected_to(proxy.bootstrap_servers)


@pytest.mark.parametrize("acks", ["all", "1", "0"])
def test_produce_and_consume(acks: Literal["all", "1", "0"], through: ShareDriver, topic: str, group: str) -> None:
    """Records arrive unchanged with every kind of acknowledgement; acks 0 has no answers at all."""
    values = [f"{acks}-{number}" for number in range(500)]

    through.produce(topic, 1, values=values, acks=acks)
    records = through.consume(group, [topic], max_records=500)

    assert [record.value for record in records] == values


def test_transactions(through: ShareDriver, topic: str, group: str) -> None:
    """An aborted transaction leaves nothing for a committed reader."""
    through.produce_transaction(topic, 0, values=["kept"], transactional_id=group)
    through.produce_transaction(topic, 0, values=["dropped"], commit=False, transactional_id=group)

    committed = {"isolation.level": "read_committed"}
    records = through.consume(group, [topic], max_records=1, properties=committed)

    assert [record.value for record in records] == ["kept"]


def test_new_consumer_protocol(through: ShareDriver, topic: str, group: str) -> None:
    """KIP-848's groups need nothing of the proxy."""
    through.produce(topic, 2, 10)

    records = through.consume(group, [topic], max_records=10, properties={"group.protocol": "consumer"})

    assert len(records) == 10


def test_share_consumer(through: ShareDriver, topic: str, group: str) -> None:
    """Share groups are consumed and described through the proxy alone."""
    layout = scenarios.kip_1226_layout(through, f"{topic}-shared", group)

    assert [(row.partition, row.start_offset is None) for row in through.list_share_group_offsets(group)] == [
        (0, False)
    ]
    assert group in [listing.group for listing in through.list_share_groups()]
    assert layout.lags == {0: 7}

"""The scenarios that other tests build on make what they say, on every supported version."""

from collections.abc import Callable

import pytest

from shareproxy.testing.driver import ShareDriver
from tests.support import scenarios
from tests.support.scenarios import Layout

Scenario = Callable[[ShareDriver, str, str], Layout]
ALL: list[Scenario] = [
    scenarios.kip_1226_layout,
    scenarios.never_consumed,
    scenarios.partly_acknowledged,
    scenarios.released,
    scenarios.rejected,
    scenarios.all_acknowledged,
    scenarios.altered,
]


@pytest.mark.parametrize("scenario", ALL, ids=lambda scenario: scenario.__name__)
def test_broker_and_layout_agree(
    scenario: Scenario, kafka_version: str, driver: ShareDriver, topic: str, group: str
) -> None:
    """Where the broker knows the lag it is the layout's; Kafka 4.1 knows only whether there is a start offset."""
    old = kafka_version.startswith("4.1.")
    if old and scenario is scenarios.altered:
        pytest.skip("Kafka 4.1 does not alter share-group offsets")

    layout = scenario(driver, topic, group)

    rows = driver.list_share_group_offsets(group)
    if old:
        assert {row.partition: row.start_offset is None for row in rows} == {
            p: v is None for p, v in layout.lags.items()
        }
    else:
        assert {row.partition: row.lag for row in rows} == layout.lags
    ends = driver.list_offsets({topic: layout.end_offsets})
    assert ends == {(topic, partition): end for partition, end in layout.end_offsets.items()}


def test_many_partitions_are_all_initialised(driver: ShareDriver, topic: str, group: str) -> None:
    """A group with many partitions has a start offset for each, on 4.1 too."""
    layout = scenarios.many_partitions(driver, topic, group, 30)

    rows = driver.list_share_group_offsets(group)

    assert [row.partition for row in rows if row.start_offset is not None] == list(range(30))
    assert layout.total == 60


def test_altering_does_nothing_on_4_1(kafka_version: str, driver: ShareDriver, topic: str, group: str) -> None:
    """The quirk that `many_partitions` works around is there on 4.1 and nowhere else."""
    scenarios.altered(driver, topic, group)

    assert (driver.list_share_group_offsets(group) == []) is kafka_version.startswith("4.1.")

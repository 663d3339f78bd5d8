"""`shareproxy top` on a real cluster and a real terminal."""

from __future__ import annotations

import re

import pytest

from shareproxy.testing.driver import ShareDriver
from shareproxy.testing.kafka import LocalKafka
from tests.support.command import run_shareproxy
from tests.support.real_kafka import VERSIONS
from tests.support.terminal import shareproxy_on_terminal
from tests.support.waiting import wait_until


@pytest.fixture
def backlog(driver: ShareDriver, topic: str, group: str) -> str:
    """A group with twenty records to do in two partitions."""
    driver.create_topic(topic, 2)
    driver.set_group_config(group, {"share.auto.offset.reset": "earliest"})
    for partition in (0, 1):
        driver.produce(topic, partition, 10)
    driver.share_consume(group, [topic], {}, otherwise="release", max_records=20)

    def both_started() -> bool:
        return [row.start_offset for row in driver.list_share_group_offsets(group)] == [0, 0]

    wait_until(both_started, "both partitions are started")
    return group


def test_a_group_is_watched_while_a_consumer_works(
    kafka: LocalKafka, driver: ShareDriver, backlog: str, topic: str
) -> None:
    """Its lag falls on the screen; its partitions are a key away; q leaves the terminal as it was."""
    arguments = ("top", "--bootstrap-server", kafka.bootstrap_servers, "--interval", "0.5", "-g", f"^{backlog}$")
    with shareproxy_on_terminal(*arguments, columns=120) as screen:
        screen.wait_until(lambda _: re.search(r"Empty +0 +2/2 +20", screen.line_with(backlog)) is not None, "lag 20")
        driver.share_consume(backlog, [topic], {}, otherwise="accept", max_records=20)
        screen.wait_until(lambda _: re.search(r" 2/2 +0 ", screen.line_with(backlog)) is not None, "lag 0")
        screen.press("enter")
        screen.wait_until(
            lambda _: (
                re.search(r" 1 +\d+ +10 +0 ", screen.line_with(f"{topic} ")) is not None
                or re.search(r" 0 +\d+ +10 +0 ", screen.line_with(f"{topic} ")) is not None
            ),
            "partitions",
        )
        screen.press("q", "q")
        assert screen.wait_end() == 0
        assert screen.left_behind() == []


# what differs between versions lies below the table
@pytest.mark.parametrize("kafka_version", VERSIONS[-1:], indirect=True, scope="session")
def test_tables_for_a_script(kafka: LocalKafka, backlog: str) -> None:
    """Two looks have rates; the closer look has what a member can still be given, and how old it is."""
    done = run_shareproxy(
        *("top", "--bootstrap-server", kafka.bootstrap_servers, "-b", "-n", "2", "-g", f"^{backlog}$", "--visible")
    )
    assert done.returncode == 0, done.stderr
    first, second = done.stdout.split("\n\n")
    heading, row = (line.split() for line in second.splitlines()[2:4])
    cells = dict(zip((name.rstrip("▼") for name in heading), row, strict=False))
    assert (cells["GROUP"], cells["LAG"], cells["CONSUMABLE"], cells["DONE/S"]) == (backlog, "20", "20", "0")
    assert cells["DRAIN"] == "never"
    assert re.fullmatch(r"\d+s|\d+m\d\ds", cells["OLDEST"])
    assert " - " in first.splitlines()[3]

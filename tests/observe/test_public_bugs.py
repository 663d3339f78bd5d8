"""Rules that other exporters' users paid for: each test holds one, and names where it was learnt."""

from __future__ import annotations

import re

import pytest

from shareproxy.cluster.errors import Unreachable
from shareproxy.lag.descriptions import GroupDescription
from shareproxy.lag.model import GroupError, GroupLag, Status
from shareproxy.lag.visible_model import PartitionVisible
from shareproxy.observe.collector import CollectorSettings
from shareproxy.observe.history import MISSING_LOOKS
from shareproxy.observe.snapshot import NameFilter
from shareproxy.protocol.ids import GroupId, TopicId
from tests.observe.watching import Watched, aged, an_exporter, member, row, samples, text

OTHER_TOPIC_ID = TopicId(bytes(16 * [9]))


async def test_unknown_has_no_sample_but_a_status() -> None:
    """Never −1, 0 or NaN, and the sum is over the known ones only (kafka_exporter#28, keda#4910)."""
    watched = Watched()
    watched.put("g", row(partition=0, lag=7), row(partition=1, lag=None))
    exporter = an_exporter(watched)
    await exporter.collector.look()

    assert samples(exporter, "kafka_sharegroup_lag") == {("g", "t", "0"): 7}
    assert samples(exporter, "kafka_sharegroup_partition_status") == {("g", "t", "1", "no_start_offset"): 1}
    assert samples(exporter, "kafka_sharegroup_lag_sum") == {("g", "t"): 7}
    assert samples(exporter, "kafka_sharegroup_partitions") == {("g", "t", "true"): 1, ("g", "t", "false"): 1}


async def test_a_group_of_which_nothing_is_known_has_no_sum() -> None:
    """A sum of nothing would read as 0 and scale to zero (keda#4910)."""
    watched = Watched()
    watched.put("g", row(lag=None, status=Status.TIMEOUT))
    exporter = an_exporter(watched)
    await exporter.collector.look()

    assert samples(exporter, "kafka_sharegroup_lag_sum") == {}
    assert samples(exporter, "kafka_sharegroup_partitions") == {("g", "t", "true"): 0, ("g", "t", "false"): 1}


async def test_no_value_is_ever_negative() -> None:
    """A start beyond the end is 0 with a status, and counted (redpanda#4589, CMAK#700, keda#2612)."""
    watched = Watched()
    watched.put("g", row(lag=0, start_offset=50, delivery_complete_count=None, status=Status.START_BEYOND_END))
    exporter = an_exporter(watched)
    await exporter.collector.look()
    await exporter.collector.look()

    assert samples(exporter, "kafka_sharegroup_lag") == {("g", "t", "0"): 0}
    assert samples(exporter, "kafka_sharegroup_partition_status") == {("g", "t", "0", "start_beyond_end"): 1}
    assert samples(exporter, "shareproxy_clamped_total") == {(): 2}


async def test_a_start_beyond_the_end_is_logged_once() -> None:
    """One line when it begins, not one per look (kaf#303)."""
    watched = Watched()
    watched.put("g", row(lag=0, start_offset=50, status=Status.START_BEYOND_END))
    exporter = an_exporter(watched)
    said: list[str] = []
    exporter.collector._log = _Log(said)
    for _ in range(3):
        await exporter.collector.look()

    assert said == ["start offset beyond the end"]


class _Log:
    def __init__(self, said: list[str]) -> None:
        self._said = said

    def warning(self, event: str, **_: object) -> None:
        """Keep the line."""
        self._said.append(event)

    info = exception = warning


async def test_a_partition_that_stands_twice_is_shown_once() -> None:
    """Two series with the same labels make Prometheus refuse the page (kafka_exporter#382)."""
    watched = Watched()
    watched.put("g", row(lag=None), row(lag=7), row(lag=None))
    exporter = an_exporter(watched)
    await exporter.collector.look()

    assert samples(exporter, "kafka_sharegroup_lag") == {("g", "t", "0"): 7}
    assert samples(exporter, "kafka_sharegroup_partition_status") == {}
    assert samples(exporter, "shareproxy_collect_errors_total") == {("DescribeShareGroupOffsets", "duplicate"): 1}


async def test_a_group_told_by_two_coordinators_is_shown_once() -> None:
    """The newest coordinator, the one with rows, wins (kafka_exporter#382)."""
    watched = Watched()
    watched.put("g", row(lag=7))
    watched.extra = [GroupLag(GroupId("g"), "Dead")]
    exporter = an_exporter(watched)
    await exporter.collector.look()

    assert samples(exporter, "kafka_sharegroup_lag") == {("g", "t", "0"): 7}
    assert [labels[:2] for labels in samples(exporter, "kafka_sharegroup_info")] == [("g", "Stable")]


async def test_a_group_with_members_and_no_state_is_exported() -> None:
    """Its first worker must be seen to start (kminion#181)."""
    watched = Watched()
    watched.put("g", error=GroupError(0, "NOTHING_INITIALIZED", "nothing yet"), members=[member("t"), member("t")])
    exporter = an_exporter(watched)
    await exporter.collector.look()

    assert samples(exporter, "kafka_sharegroup_members") == {("g",): 2}
    assert samples(exporter, "kafka_sharegroup_error") == {("g", "NOTHING_INITIALIZED"): 1}
    assert samples(exporter, "kafka_sharegroup_lag_sum") == {}
    assert not exporter.collector.fresh.partial  # type: ignore[union-attr]


async def test_an_empty_group_is_exported() -> None:
    """That is when alerts matter (seglo#63, kafka_exporter#226, strimzi#5336)."""
    watched = Watched()
    watched.put("g", row(lag=7), state="Empty")
    exporter = an_exporter(watched)
    await exporter.collector.look()

    assert samples(exporter, "kafka_sharegroup_lag") == {("g", "t", "0"): 7}
    assert samples(exporter, "kafka_sharegroup_members") == {("g",): 0}
    assert ("g", "Empty", "1", "") in samples(exporter, "kafka_sharegroup_info")


async def test_topics_that_nobody_subscribes_to_any_more_are_labelled() -> None:
    """They stay in the group's state, and a scaler must be able to leave them out (klag#92)."""
    watched = Watched()
    watched.put("g", row("old"), row("new"), members=[member("new")])
    watched.put("resting", row("new"))
    exporter = an_exporter(watched)
    await exporter.collector.look()

    assert samples(exporter, "kafka_sharegroup_topic_subscribed") == {("g", "old"): 0, ("g", "new"): 1}


async def test_a_deleted_group_is_gone_at_the_next_look() -> None:
    """Also one that goes away between the list and the question (omarsmak#20, KAFKA-17218)."""
    watched = Watched()
    watched.put("g", row())
    watched.put("other", row())
    exporter = an_exporter(watched)
    await exporter.collector.look()
    gone = watched.lags.pop("g")
    await exporter.collector.look()
    assert 'group="g"' not in text(exporter)

    watched.lags["g"] = gone
    await exporter.collector.look()
    watched.lags["g"] = GroupLag(GroupId("g"), None, GroupError(69, "GROUP_ID_NOT_FOUND", "it does not exist"))
    await exporter.collector.look()
    assert 'group="g"' not in text(exporter)
    assert samples(exporter, "shareproxy_collect_errors_total") == {}


async def test_a_deleted_topic_is_gone_at_the_next_look() -> None:
    """And does not take the others with it (omarsmak#20)."""
    watched = Watched()
    watched.put("g", row("kept"), row("deleted"))
    exporter = an_exporter(watched)
    await exporter.collector.look()
    watched.put("g", row("kept"))
    await exporter.collector.look()

    assert list(samples(exporter, "kafka_sharegroup_lag")) == [("g", "kept", "0")]


async def test_a_topic_that_looks_missing_is_dropped_only_if_it_stays_so() -> None:
    """A new topic looks so for about a second."""
    watched = Watched()
    watched.put("g", row("t"), row("new", lag=None, status=Status.TOPIC_MISSING))
    exporter = an_exporter(watched)
    for _ in range(MISSING_LOOKS):
        await exporter.collector.look()
        assert ("g", "new", "0", "topic_missing") in samples(exporter, "kafka_sharegroup_partition_status")
    await exporter.collector.look()
    assert samples(exporter, "kafka_sharegroup_partition_status") == {}

    watched.put("g", row("t"), row("new"))
    await exporter.collector.look()
    assert ("g", "new", "0") in samples(exporter, "kafka_sharegroup_lag")


async def test_a_recreated_topic_has_no_history() -> None:
    """Counters belong to the topic id, not to the name (seglo#197, Burrow#256)."""
    watched = Watched()
    watched.put("g", row(start_offset=1_000, end_offset=1_011, delivery_complete_count=4))
    exporter = an_exporter(watched)
    await exporter.collector.look()
    watched.put("g", row(start_offset=2, delivery_complete_count=1, topic_id=OTHER_TOPIC_ID))
    await exporter.collector.look()

    assert samples(exporter, "kafka_sharegroup_completed_offsets_total") == {("g", "t", "0"): 3}
    assert samples(exporter, "kafka_sharegroup_offset_resets_total") == {("g",): 0}


async def test_completed_offsets_never_go_back() -> None:
    """A reset is flagged, and what is completed after it counts on (KAFKA-20711, KAFKA-18494)."""
    watched = Watched()
    exporter = an_exporter(watched)
    seen = []
    for start, count in ((10, 2), (10, 5), (10, 4), (16, 0), (3, 0), (3, 2)):
        watched.put("g", row(start_offset=start, end_offset=100, delivery_complete_count=count))
        await exporter.collector.look()
        seen.append(samples(exporter, "kafka_sharegroup_completed_offsets_total")["g", "t", "0"])

    assert seen == [12, 15, 15, 16, 16, 18]
    assert samples(exporter, "kafka_sharegroup_offset_resets_total") == {("g",): 1}


async def test_completed_offsets_stay_while_they_are_unknown() -> None:
    """A counter that comes and goes looks like one that was reset (librdkafka#1528)."""
    watched = Watched()
    exporter = an_exporter(watched)
    watched.put("g", row(lag=7))
    await exporter.collector.look()
    watched.put("g", row(lag=None, status=Status.TIMEOUT))
    await exporter.collector.look()

    assert samples(exporter, "kafka_sharegroup_completed_offsets_total") == {("g", "t", "0"): 4}


async def test_one_bad_group_never_hides_the_others() -> None:
    """It is counted with its reason, and the snapshot is marked (console#2573, #2327, seglo#164)."""
    watched = Watched()
    watched.put("bad", error=GroupError(30, "GROUP_AUTHORIZATION_FAILED", "grant DESCRIBE on the group"))
    watched.put("good", row())
    exporter = an_exporter(watched)
    await exporter.collector.look()

    assert list(samples(exporter, "kafka_sharegroup_lag")) == [("good", "t", "0")]
    assert samples(exporter, "kafka_sharegroup_error") == {("bad", "GROUP_AUTHORIZATION_FAILED"): 1}
    errors = samples(exporter, "shareproxy_collect_errors_total")
    assert errors == {("DescribeShareGroupOffsets", "group_authorization_failed"): 1}
    assert samples(exporter, "shareproxy_snapshot_partial") == {(): 1}


async def test_one_bad_partition_never_hides_the_others() -> None:
    """A missing right or leader is that partition's status (kafta#40, kminion#40, seglo#42)."""
    watched = Watched()
    bad = [row("hidden", lag=None, status=Status.NOT_AUTHORIZED), row("t", 1, lag=None, status=Status.NO_LEADER)]
    watched.put("g", *bad, row("t", 0))
    exporter = an_exporter(watched)
    await exporter.collector.look()

    assert list(samples(exporter, "kafka_sharegroup_lag")) == [("g", "t", "0")]
    status = samples(exporter, "kafka_sharegroup_partition_status")
    assert set(status) == {("g", "hidden", "0", "not_authorized"), ("g", "t", "1", "no_leader")}


async def test_groups_of_a_broker_that_is_silent_are_not_gone() -> None:
    """They are asked for by name; what a list leaves out for once is not deleted (keda#4098, #4552, keda#8036)."""
    watched = Watched()
    watched.put("a", row())
    watched.put("b", row())
    exporter = an_exporter(watched)
    await exporter.collector.look()
    watched.unlisted, watched.problems = {"b"}, ["the groups of broker 2 are missing: it does not answer"]
    watched.put("b", row(lag=None, status=Status.TIMEOUT))
    await exporter.collector.look()

    assert watched.asked[-1] == ("a", "b")
    assert ("b", "t", "0", "timeout") in samples(exporter, "kafka_sharegroup_partition_status")
    assert samples(exporter, "shareproxy_collect_errors_total")["ListGroups", "unlisted"] == 1


async def test_an_outage_is_an_error_and_never_0() -> None:
    """The old numbers are shown with their age until they are stale, then nothing is (keda#4149, Confluent's demo)."""
    watched = Watched()
    watched.put("g", row(lag=7))
    exporter = an_exporter(watched)
    await exporter.collector.look()
    watched.failure = Unreachable("nobody answers")
    assert not await exporter.collector.look()

    assert samples(exporter, "kafka_sharegroup_lag") == {("g", "t", "0"): 7}
    assert samples(exporter, "shareproxy_up") == {(): 0}
    async with aged(exporter, exporter.collector.stale_seconds + 1):
        assert "kafka_" not in text(exporter)
        assert samples(exporter, "shareproxy_snapshot_age_seconds")[()] >= exporter.collector.stale_seconds
        reason = exporter.collector.why_not_fresh()
    assert reason is not None
    assert "64 s old: nobody answers" in reason
    assert samples(exporter, "shareproxy_collect_errors_total") == {("ListGroups", "timeout"): 1}


async def test_names_are_chosen_before_their_lag_is_asked_for() -> None:
    """What is not watched costs nothing (kafka_exporter#509); the whole name has to match."""
    watched = Watched()
    for name in ("orders", "orders-test", "payments", "my-orders"):
        watched.put(name, row())
    chosen = NameFilter(re.compile("orders.*|payments"), re.compile(".*-test"))
    exporter = an_exporter(watched, CollectorSettings(groups=chosen))
    await exporter.collector.look()

    assert watched.asked == [("orders", "payments")]


async def test_only_watched_topics_and_no_internal_ones() -> None:
    """Kafka's own topics are off (keda#8114)."""
    watched = Watched()
    watched.put("g", row("__share_group_state"), row("a"), row("b"))
    exporter = an_exporter(watched, CollectorSettings(topics=NameFilter(exclude=re.compile("b"))))
    await exporter.collector.look()
    assert list(samples(exporter, "kafka_sharegroup_lag")) == [("g", "a", "0")]

    exporter = an_exporter(watched, CollectorSettings(internal_topics=True))
    await exporter.collector.look()
    assert len(samples(exporter, "kafka_sharegroup_lag")) == 3


async def test_a_scrape_asks_nobody_and_renders_nothing() -> None:
    """Scrapes are answered from memory (kafka_exporter#336, #506)."""
    watched = Watched()
    watched.put("g", row())
    exporter = an_exporter(watched)
    await exporter.collector.look()
    for _ in range(3):
        text(exporter)

    assert (len(watched.asked), exporter.rendered) == (1, 1)


@pytest.mark.parametrize("name", ['a"b', "a\\b", "a\nb", "a\\nb", "grün ✓", "{}", "a,b", ""])
async def test_every_name_comes_back_as_it_was(name: str) -> None:
    """Quotes, backslashes and line ends are escaped (redpanda#22857)."""
    watched = Watched()
    watched.put(name, row())
    exporter = an_exporter(watched)
    await exporter.collector.look()

    assert list(samples(exporter, "kafka_sharegroup_lag")) == [(name, "t", "0")]


async def test_broken_names_are_mended_counted_and_never_the_same() -> None:
    """What is no Unicode is replaced; two names that then look alike are one series (exporter_exporter#80)."""
    watched = Watched()
    watched.put("a\udc80", row(lag=7))
    watched.put("a\udc81", row(lag=5))
    exporter = an_exporter(watched)
    await exporter.collector.look()

    assert samples(exporter, "kafka_sharegroup_lag") == {("a\ufffd", "t", "0"): 7}
    assert samples(exporter, "shareproxy_replaced_labels_total") == {(): 2}


async def test_raw_lag_and_what_retention_took_stand_side_by_side() -> None:
    """Lag is Kafka's own number; deleted offsets have a series of their own (redpanda#30624, seglo#37, keda#5274)."""
    watched = Watched()
    seen = PartitionVisible(log_start_offset=6, unavailable_offsets=6, open_transaction_offsets=3)
    watched.put("g", row(lag=7, visible=seen))
    watched.put("ahead", row(lag=3, start_offset=8, visible=PartitionVisible(log_start_offset=6)))
    exporter = an_exporter(watched)
    await exporter.collector.look()

    assert samples(exporter, "kafka_sharegroup_lag")["g", "t", "0"] == 7
    assert samples(exporter, "kafka_sharegroup_unavailable_offsets") == {("g", "t", "0"): 6}
    margins = samples(exporter, "kafka_sharegroup_retention_margin_offsets")
    assert margins == {("g", "t", "0"): -6, ("ahead", "t", "0"): 2}
    assert samples(exporter, "kafka_sharegroup_open_transaction_offsets") == {("g", "t", "0"): 3}
    assert samples(exporter, "kafka_topic_partition_oldest_offset") == {("t", "0"): 6}


async def test_visible_lag_is_there_only_where_it_is_known() -> None:
    """A range is not a number (druid#16689, spring-kafka#4553)."""
    watched = Watched()
    watched.put(
        "g",
        row(partition=0, visible=PartitionVisible(consumable_lag=5, phantom_offsets=2, oldest_record_age_seconds=1.5)),
        row(partition=1, visible=PartitionVisible(consumable_lag_min=1, consumable_lag_max=7)),
    )
    exporter = an_exporter(watched)
    await exporter.collector.look()

    assert samples(exporter, "kafka_sharegroup_consumable_lag") == {("g", "t", "0"): 5}
    assert samples(exporter, "kafka_sharegroup_phantom_offsets") == {("g", "t", "0"): 2}
    assert samples(exporter, "kafka_sharegroup_oldest_record_age_seconds") == {("g", "t", "0"): 1.5}


async def test_member_ids_are_nowhere_on_the_page() -> None:
    """They would make a new series at each restart of a worker (seglo#25)."""
    watched = Watched()
    watched.put("g", row(), members=[member("t")])
    exporter = an_exporter(watched)
    await exporter.collector.look()

    assert "client" not in text(exporter).replace("shareproxy", "")


async def test_members_are_unknown_where_the_coordinator_does_not_tell() -> None:
    """No answer is not "no members" (otel-contrib#36093)."""
    watched = Watched()
    watched.put("g", row(), state=None)
    watched.described["g"] = GroupDescription(GroupId("g"), error=GroupError(7, "REQUEST_TIMED_OUT", "too slow"))
    exporter = an_exporter(watched)
    await exporter.collector.look()

    assert samples(exporter, "kafka_sharegroup_members") == {}
    assert samples(exporter, "kafka_sharegroup_lag") == {("g", "t", "0"): 7}
    assert samples(exporter, "shareproxy_collect_errors_total") == {("ShareGroupDescribe", "timeout"): 1}

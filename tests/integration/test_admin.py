"""The admin client, blocking and not, against the brokers of every supported version."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from shareproxy import (
    AccessDenied,
    Earliest,
    GroupNotEmpty,
    GroupNotFound,
    Latest,
    NotAShareGroup,
    NotSupported,
    OffsetRefused,
    Shift,
    ToOffset,
    ToTime,
    UnknownTopic,
    WrongArgument,
)
from shareproxy import ShareAdmin as AsyncShareAdmin
from shareproxy.admin.results import OffsetPlan
from shareproxy.lag.consumer_model import ConsumerStatus
from shareproxy.sync import ShareAdmin
from shareproxy.testing.driver import ShareDriver
from shareproxy.testing.kafka import LocalKafka
from shareproxy.testing.kafka_security import client_properties
from tests.support import scenarios
from tests.support.waiting import wait_until

# the brokers themselves take up to 2.4 s when they have to ask a share coordinator twice
PATIENCE = 15.0


@pytest.fixture
def admin(kafka: LocalKafka) -> Iterator[ShareAdmin]:
    """A blocking admin client of `kafka`."""
    with ShareAdmin(kafka.bootstrap_servers, timeout=PATIENCE) as admin:
        yield admin


def is_old(kafka_version: str) -> bool:
    """Tell Kafka 4.1, which does not alter offsets."""
    return kafka_version.startswith("4.1.")


def targets(plan: OffsetPlan) -> list[tuple[int | None, int | None]]:
    """Return start and new offset of each row."""
    return [(row.start_offset, row.new_offset) for row in plan.rows]


def test_a_group_with_a_member(driver: ShareDriver, admin: ShareAdmin, topic: str, group: str) -> None:
    """It is listed and described with its member; changes are refused before they are sent."""
    driver.create_topic(topic, 2)
    driver.set_group_config(group, {"share.auto.offset.reset": "earliest"})
    driver.produce(topic, [0, 1], 3)
    with driver.open_consumer(group, [topic]) as consumer:
        consumer.poll(max_records=6)
        wait_until(lambda: bool(admin.describe_groups(group)[group].members), "the member is there")
        described = admin.describe_groups([group, f"{group}-nosuch"])
        listed = {row.group: row for row in admin.list_groups(states=["Stable"]).groups}
        plan = admin.plan_offsets(group, Earliest())
        with pytest.raises(GroupNotEmpty, match="stop its consumers first"):
            admin.alter_offsets(group, {(topic, 0): 0})
        with pytest.raises(GroupNotEmpty):
            admin.delete_offsets(group, topic)
        refused = admin.delete_groups(group)

    found = described[group]
    [member] = found.members
    assert (found.state, found.assignor, found.error) == ("Stable", "simple", None)
    assert (member.subscribed_topics, member.client_host) == ((topic,), "/127.0.0.1")
    assert [(given.topic, given.partitions) for given in member.assignment] == [(topic, (0, 1))]
    assert listed[found.group].coordinator == found.coordinator
    missing = described[f"{group}-nosuch"].error
    assert missing is not None
    assert missing.name == "GROUP_ID_NOT_FOUND"
    assert not plan.accepted
    assert "1 member" in plan.refusals[0]
    error = refused[group]
    assert error is not None
    assert error.code == 68


def test_plans(driver: ShareDriver, admin: ShareAdmin, topic: str, group: str) -> None:
    """Each target has its offsets; what lies outside of the log is refused, by row."""
    layout = scenarios.kip_1226_layout(driver, topic, group)  # start 0 or 2 after a release, end 11
    driver.delete_records(topic, 0, 1)
    [start] = [row.start_offset for row in admin.offsets(group)]
    assert start is not None
    late = datetime.now(UTC) + timedelta(days=1)

    assert targets(admin.plan_offsets(group, Earliest())) == [(start, 1)]
    assert targets(admin.plan_offsets(group, Latest())) == [(start, 11)]
    assert targets(admin.plan_offsets(group, ToOffset(5), topics={topic: [0]})) == [(start, 5)]
    assert targets(admin.plan_offsets(group, Shift(3))) == [(start, start + 3)]
    assert targets(admin.plan_offsets(group, ToTime(datetime(2020, 1, 1, tzinfo=UTC)))) == [(start, 1)]
    assert targets(admin.plan_offsets(group, ToTime(late))) == [(start, 11)]
    assert "beyond the end 11" in admin.plan_offsets(group, ToOffset(12)).all_refusals[0]
    assert "below the log start 1" in admin.plan_offsets(group, ToOffset(0)).all_refusals[0]
    assert admin.lag(group).groups[0].lag == layout.total  # nothing has changed
    with pytest.raises(UnknownTopic, match="has no partition 7"):
        admin.plan_offsets(group, Earliest(), topics={topic: [7]})
    with pytest.raises(UnknownTopic, match="nosuch"):
        admin.plan_offsets(group, Earliest(), topics=f"{topic}-nosuch")


def test_offsets_are_altered(
    kafka_version: str, driver: ShareDriver, admin: ShareAdmin, topic: str, group: str
) -> None:
    """Kafka has them then; 4.1, which only says that all is well, is found out."""
    driver.create_topic(topic, 2)
    driver.produce(topic, [0, 1], 10)
    with pytest.raises(WrongArgument, match="name the topics"):
        admin.plan_offsets(group, Earliest())
    plan = admin.plan_offsets(group, ToOffset(4), topics=[topic])
    with pytest.raises(OffsetRefused, match="beyond the end 10"):
        admin.alter_offsets(group, {(topic, 0): 4, (topic, 1): 11})

    assert (plan.creates_group, plan.accepted) == (True, True)
    if is_old(kafka_version):
        with pytest.raises(NotSupported, match=r"upgrade to 4\.2"):
            admin.alter_offsets(group, plan.offsets)
        return
    result = admin.alter_offsets(group, plan.offsets)

    assert (result.done, result.created_group, len(result.rows)) == (True, True, 2)
    wait_until(lambda: len(driver.list_share_group_offsets(group)) == 2, "the offsets are there")
    assert {row.partition: row.start_offset for row in driver.list_share_group_offsets(group)} == {0: 4, 1: 4}
    assert [row.start_offset for row in admin.offsets(group)] == [4, 4]
    again = admin.alter_offsets(group, {(topic, 1): 10})
    assert (again.done, again.created_group) == (True, False)
    assert {row.partition: row.start_offset for row in driver.list_share_group_offsets(group)} == {0: 4, 1: 10}


def test_offsets_and_groups_are_deleted(driver: ShareDriver, admin: ShareAdmin, topic: str, group: str) -> None:
    """Kafka forgets them; a second time there is nothing to delete. A group of another type is never touched."""
    scenarios.released(driver, topic, group)
    driver.consume(f"{group}-classic", [topic], max_records=1)

    driver.create_topic(f"{topic}-other")

    some = admin.delete_offsets(group, [topic, f"{topic}-other"])

    assert [(row.topic, row.error is None) for row in some.rows] == [(topic, True), (f"{topic}-other", False)]
    assert driver.list_share_group_offsets(group) == []
    with pytest.raises(UnknownTopic, match="has no offsets of it"):
        admin.delete_offsets(group, topic)

    first = admin.delete_groups([group, f"{group}-classic"])
    second = admin.delete_groups([group])

    assert first[group] is None
    spared = first[f"{group}-classic"]
    assert spared is not None
    assert spared.name == "NOT_A_SHARE_GROUP"
    missing = second[group]
    assert missing is not None
    assert missing.code == 69
    names = {row.group for row in driver.list_groups()}
    assert group not in names
    assert f"{group}-classic" in names
    with pytest.raises(GroupNotFound):
        admin.offsets(group)
    with pytest.raises(NotAShareGroup):
        admin.delete_offsets(f"{group}-classic", topic)


def test_configs(driver: ShareDriver, admin: ShareAdmin, group: str) -> None:
    """Set ones and defaults, although the group does not exist yet."""
    driver.set_group_config(group, {"share.auto.offset.reset": "earliest"})

    found = admin.group_configs(group)

    reset, isolation = found["share.auto.offset.reset"], found["share.isolation.level"]
    assert (reset.value, reset.is_default) == ("earliest", False)
    assert (isolation.value, isolation.is_default) == ("read_uncommitted", True)


async def test_watching(kafka: LocalKafka, driver: ShareDriver, topic: str, group: str) -> None:
    """What is produced between two looks is in the later one's lag, and in its rates."""
    layout = scenarios.released(driver, topic, group)
    lags: list[int] = []
    async with AsyncShareAdmin(kafka.bootstrap_servers, timeout=PATIENCE) as admin:
        async for snapshot in admin.watch(group, interval=0.2):
            [found] = snapshot.report.groups
            lags.append(found.lag)
            if len(lags) == 1:
                driver.produce(topic, 0, 3)
            elif found.lag == layout.total + 3:
                assert snapshot.rates is not None
                assert (snapshot.rates[found.group].produced_per_second or 0) > 0
                break
            assert len(lags) < 100

    assert lags[0] == layout.total


def test_a_consumer_group_behind_transaction_markers(
    driver: ShareDriver, admin: ShareAdmin, topic: str, group: str
) -> None:
    """The lag that does not go away: markers and aborted records. A closer look says that nothing is waiting."""
    driver.create_topic(topic, 2)
    driver.produce(topic, 0, 5)
    driver.consume(group, [topic], max_records=5)
    driver.produce_transaction(topic, 0, 2, commit=False)
    stuck = admin.consumer_lag(group, look_closer=True).groups[0]
    driver.produce_transaction(topic, 0, 3)
    driver.produce_transaction(topic, 0, 4, leave_open=True)
    wait_until(
        lambda: admin.consumer_lag(group).groups[0].partitions[0].open_transaction_offsets == 4, "all has arrived"
    )
    behind = admin.consumer_lag(group, look_closer=True).groups[0]
    driver.end_transaction(commit=False)
    everything = admin.consumer_lag()

    assert (stuck.type, stuck.state, stuck.error) == ("classic", "Empty", None)
    [*rows] = stuck.partitions
    assert (rows[0].committed_offset, rows[0].lag, rows[0].visible_lag) == (5, 3, 0)
    assert (rows[0].phantom_offsets, rows[0].aborted_offsets) == (3, 2)
    assert (behind.partitions[0].lag, behind.partitions[0].visible_lag) == (3 + 4 + 4, 3)
    assert behind.partitions[0].phantom_offsets == 3 + 1
    assert group in {row.group for row in everything.groups}
    assert everything.problems == ()


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_partitions_without_a_commit(
    protocol: str, driver: ShareDriver, admin: ShareAdmin, topic: str, group: str
) -> None:
    """They are unknown, with the reason: those of a named topic, and a share group is no consumer group."""
    driver.create_topic(topic, 1)
    driver.create_topic(f"{topic}-other", 1)
    driver.produce(topic, 0, 5)
    driver.consume(group, [topic], max_records=5, properties={"group.protocol": protocol})
    driver.set_group_config(f"{group}-share", {"share.auto.offset.reset": "earliest"})
    driver.share_consume(f"{group}-share", [topic], max_records=5)

    report = admin.consumer_lag([group, f"{group}-share", f"{group}-nosuch"], topics=[topic, f"{topic}-other"])

    found, share, missing = report.groups
    assert (found.type, found.error, found.complete) == (protocol, None, False)
    assert [(row.topic, row.lag, row.status) for row in found.partitions] == [
        (topic, 0, ConsumerStatus.OK),
        (f"{topic}-other", None, ConsumerStatus.NO_COMMITTED_OFFSET),
    ]
    assert share.error is not None
    assert share.error.name == "NOT_A_CONSUMER_GROUP"
    assert missing.error is not None
    assert missing.error.name == "GROUP_ID_NOT_FOUND"


class TestRights:
    """A SASL user with few rights, by a Java property file, under Kafka's StandardAuthorizer."""

    @staticmethod
    def _file(kafka: LocalKafka, directory: Path, password: str) -> Path:
        """Write alice's property file, as Kafka's own tools take it."""
        assert kafka.certificates is not None
        file = directory / "alice.properties"
        properties = {
            **client_properties("alice", password, protocol="SASL_SSL", mechanism="PLAIN"),
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": str(kafka.certificates.ca_pem),
        }
        file.write_text("".join(f"{key}={value}\n" for key, value in properties.items()))
        return file

    @pytest.fixture
    def alice(self, secure_kafka: LocalKafka, tmp_path: Path) -> Iterator[ShareAdmin]:
        """An admin client as alice, who may do nothing at first."""
        file = self._file(secure_kafka, tmp_path, "alice-secret")
        with ShareAdmin(secure_kafka.listeners["SASL_SSL"], command_config=file, timeout=PATIENCE) as admin:
            yield admin

    def test_each_denied_right_is_named(
        self,
        kafka_version: str,
        secure_driver: ShareDriver,
        alice: ShareAdmin,
        topic: str,
        group: str,
    ) -> None:
        """Operation and resource, for each call, from no right to those that the call needs."""
        scenarios.released(secure_driver, topic, group)

        def grant(resource: str, name: str, operation: str) -> None:
            secure_driver.add_acl("User:alice", resource, name, operation)

        def denied(change: str) -> tuple[str | None, str | None]:
            try:
                if change == "offsets":
                    alice.offsets(group)
                elif change == "configs":
                    alice.group_configs(group)
                elif change == "alter":
                    alice.alter_offsets(group, {(topic, 0): 0})
                elif change == "delete":
                    alice.delete_offsets(group, topic)
            except AccessDenied as error:
                return error.operation, error.resource
            except NotSupported:
                assert is_old(kafka_version)
            return None, None

        of_group, of_topic = f"group {group!r}", f"topic {topic!r}"
        assert [row.group for row in alice.list_groups().groups if row.group == group] == []
        assert denied("offsets") == ("DESCRIBE", of_group)
        assert denied("configs") == ("DESCRIBE_CONFIGS", of_group)
        assert denied("alter") == ("DESCRIBE", of_group)
        error = alice.describe_groups(group)[group].error
        assert error is not None
        assert "DESCRIBE on the group" in error.message
        refused = alice.delete_groups(group)[group]
        assert refused is not None
        assert refused.code == 30

        grant("GROUP", group, "DESCRIBE")
        wait_until(lambda: denied("alter") == ("DESCRIBE", of_topic), "alice may see the group")
        grant("TOPIC", topic, "DESCRIBE")
        wait_until(lambda: denied("alter")[0] != "DESCRIBE", "alice may see the topic")
        assert denied("delete") == ("DELETE", of_group)
        refused = alice.delete_groups(group)[group]
        assert refused is not None
        assert "DELETE on the group" in refused.message
        assert denied("alter") == ("READ", of_group)

        grant("GROUP", group, "READ")
        grant("GROUP", group, "DELETE")
        wait_until(lambda: denied("alter") != ("READ", of_group), "alice may change the group")
        wait_until(lambda: denied("delete") != ("DELETE", of_group), "alice may delete of the group")
        assert denied("alter") == ("READ", of_topic)
        assert denied("delete") == ("READ", of_topic)

        grant("TOPIC", topic, "READ")
        wait_until(lambda: denied("alter") == (None, None), "alice may change the topic")
        assert denied("delete") == (None, None)

    def test_a_wrong_password(self, secure_kafka: LocalKafka, tmp_path: Path) -> None:
        """The broker's own words, and no right that would help."""
        file = self._file(secure_kafka, tmp_path, "wrong")

        with (
            ShareAdmin(secure_kafka.listeners["SASL_SSL"], command_config=file) as admin,
            pytest.raises(AccessDenied, match="refused the login") as caught,
        ):
            admin.list_groups()

        assert (caught.value.operation, caught.value.resource) == (None, None)

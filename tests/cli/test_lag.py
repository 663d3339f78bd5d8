"""`shareproxy lag`: what it prints and which code it ends with, for a given report."""

from __future__ import annotations

import json
from collections.abc import Sequence

import msgspec
import pytest
from click.testing import CliRunner

from shareproxy.cli.main import app
from shareproxy.lag.consumer_model import ConsumerGroupLag, ConsumerPartitionLag, ConsumerStatus
from shareproxy.lag.model import GroupError, GroupLag, PartitionLag, Source, Status
from shareproxy.lag.visible_model import GroupVisible, PartitionVisible, Want
from shareproxy.protocol.ids import GroupId
from tests.cli.fake_admin import TOPIC_ID, FakeAdmin, report
from tests.cli.fake_admin import run as run_on

KNOWN = PartitionLag("orders", TOPIC_ID, 0, 2, 11, 5, 2, 7, Source.SUMMARY, True)
UNKNOWN = PartitionLag("orders", TOPIC_ID, 1, status=Status.NO_START_OFFSET)
HALF_KNOWN = GroupLag(GroupId("workers"), "Stable", None, (KNOWN, UNKNOWN))
NO_START = "nothing was acknowledged here yet; lag is known from the first acknowledgement on"
CLOSER = GroupLag(
    GroupId("workers"),
    "Empty",
    None,
    (
        PartitionLag(
            *("orders", TOPIC_ID, 0, 0, 12, 5, 0, 12, Source.SUMMARY, True),
            visible=PartitionVisible(
                log_start_offset=0,
                consumable_lag=0,
                consumable_lag_min=0,
                consumable_lag_max=0,
                phantom_offsets=12,
                phantom_offsets_min=12,
                phantom_offsets_max=12,
                open_transaction_offsets=0,
                unavailable_offsets=3,
                in_flight=0,
                oldest_record_age_seconds=192.4,
            ),
        ),
    ),
    GroupVisible(notes=("the dead-letter topic is hidden; grant DESCRIBE on it",)),
)
OTHER_TYPE = GroupLag(GroupId("billing"), None, GroupError(69, "NOT_A_SHARE_GROUP", "billing is a consumer group"))
BILLING = ConsumerGroupLag(
    GroupId("billing"),
    "consumer",
    "Stable",
    2,
    None,
    (
        ConsumerPartitionLag(
            "bills", TOPIC_ID, 0, 5, end_offset=8, lag=3, visible_lag=2, phantom_offsets=1, open_transaction_offsets=0
        ),
        ConsumerPartitionLag("bills", TOPIC_ID, 1, end_offset=4, status=ConsumerStatus.NO_COMMITTED_OFFSET),
    ),
)


def run(monkeypatch: pytest.MonkeyPatch, arguments: Sequence[str], *groups: GroupLag) -> tuple[int, str, str]:
    """Run the command on a report; returns exit code, stdout and stderr."""
    result = run_on(monkeypatch, FakeAdmin(report(*groups)), "lag", *arguments)
    return result.exit_code, result.stdout, result.stderr


def test_the_table_shows_unknown_as_a_dash(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows on stdout; the sum with its completeness, and the reason in words, on stderr."""
    code, out, err = run(monkeypatch, ["workers"], HALF_KNOWN)
    assert code == 0
    assert out == (
        "GROUP    TOPIC   PARTITION  START-OFFSET  END-OFFSET  LAG  STATUS\n"
        "workers  orders          0             2          11    7  ok\n"
        "workers  orders          1             -           -    -  no_start_offset\n"
    )
    assert err == (
        f"shareproxy: workers: lag 7 in 1 of 2 partitions; unknown for 1\nshareproxy: orders-1: {NO_START}\n"
    )


def test_json_is_the_report(monkeypatch: pytest.MonkeyPatch) -> None:
    """Unknown is null, the documented keys are all there, and those of a closer look are not."""
    code, out, _ = run(monkeypatch, ["workers", "--output", "json"], HALF_KNOWN)
    assert code == 0
    document = json.loads(out)
    assert set(document) == {"cluster_id", "time", "groups"}
    assert document["groups"][0]["lag"] == 7
    assert document["groups"][0]["complete"] is False
    assert [row["lag"] for row in document["groups"][0]["partitions"]] == [7, None]
    assert "phantom_offsets" not in document["groups"][0]["partitions"][0]
    assert document["time"].startswith("2026-01-02T03:04:05")


def test_csv_leaves_unknown_empty(monkeypatch: pytest.MonkeyPatch) -> None:
    """A spreadsheet sees no number where there is none."""
    _, out, _ = run(monkeypatch, ["workers", "-o", "csv"], HALF_KNOWN)
    assert out.splitlines() == [
        "group,topic,partition,start_offset,end_offset,lag,status",
        "workers,orders,0,2,11,7,ok",
        "workers,orders,1,,,,no_start_offset",
    ]


@pytest.mark.parametrize(("error_code", "exit_code"), [(69, 1), (30, 4), (29, 4)])
def test_a_group_without_an_answer_is_said(monkeypatch: pytest.MonkeyPatch, error_code: int, exit_code: int) -> None:
    """The sentence goes to stderr and the exit code tells a missing right from a missing group."""
    group = GroupLag(GroupId("nope"), None, GroupError(error_code, "NAME", "nope is not there"))
    assert run(monkeypatch, ["nope"], group) == (exit_code, "", "shareproxy: nope is not there\n")


def test_a_group_of_which_nothing_is_known_has_no_sum(monkeypatch: pytest.MonkeyPatch) -> None:
    """Unknown is said as unknown, never as lag 0, and the exit code is "no"."""
    group = GroupLag(GroupId("workers"), "Empty", None, (UNKNOWN,))
    code, _, err = run(monkeypatch, ["workers"], group)
    assert code == 1
    assert err == f"shareproxy: workers: lag is unknown in its one partition\nshareproxy: orders-1: {NO_START}\n"


def test_a_group_whose_lag_a_missing_right_hides_is_4(monkeypatch: pytest.MonkeyPatch) -> None:
    """As where a right hides the whole group; one that is unknown for other reasons besides is "no"."""
    hidden = PartitionLag("orders", TOPIC_ID, 0, status=Status.NOT_AUTHORIZED)
    code, _, _ = run(monkeypatch, ["workers"], GroupLag(GroupId("workers"), "Empty", None, (hidden,)))
    assert code == 4
    code, _, _ = run(monkeypatch, ["workers"], GroupLag(GroupId("workers"), "Empty", None, (hidden, UNKNOWN)))
    assert code == 1


def test_each_reason_is_said_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """With the partitions it holds for, of which a sentence names three."""
    rows = tuple(PartitionLag("orders", TOPIC_ID, number, status=Status.NO_LEADER) for number in range(5))
    _, _, err = run(monkeypatch, ["workers"], GroupLag(GroupId("workers"), "Empty", None, rows))
    assert err.splitlines()[1:] == [
        "shareproxy: orders-0, orders-1, orders-2 and 2 more: the partition has no leader at the moment; "
        "look at the brokers"
    ]


def test_partitions_of_several_groups_are_named_with_their_group(monkeypatch: pytest.MonkeyPatch) -> None:
    """A topic's partition may be one of many groups."""
    row = PartitionLag("orders", TOPIC_ID, 0, status=Status.NO_LEADER)
    groups = [GroupLag(GroupId(name), "Empty", None, (row,)) for name in "ab"]
    _, _, err = run(monkeypatch, ["--all-groups"], *groups)
    assert "shareproxy: orders-0 of a, orders-0 of b: the partition has no leader" in err


def test_a_closer_look_says_what_the_lag_consists_of(monkeypatch: pytest.MonkeyPatch) -> None:
    """A lag that nobody can work off is named as such."""
    admin = FakeAdmin(report(CLOSER))
    result = run_on(monkeypatch, admin, "lag", "workers", "--visible")
    assert admin.asked("lag")[0]["want"] == Want.ALL
    assert result.stdout == (
        "GROUP    TOPIC   PARTITION  START-OFFSET  END-OFFSET  LAG  CONSUMABLE  PHANTOM  OPEN  GONE  PROJECTED  OLDEST"
        "  STATUS\n"
        "workers  orders          0             0          12   12           0       12     0     3          -  3m 12s"
        "  ok\n"
    )
    assert result.stderr == (
        "shareproxy: workers: lag 12, of which 0 waiting, 12 phantom (transaction markers, aborted, compacted or "
        "deleted offsets that no consumer will see)\n"
        "shareproxy: workers: the dead-letter topic is hidden; grant DESCRIBE on it\n"
    )


def test_csv_of_a_closer_look_has_more_columns(monkeypatch: pytest.MonkeyPatch) -> None:
    """Behind the others, so that a script for the plain form reads it too."""
    _, out, _ = run(monkeypatch, ["workers", "--visible", "-o", "csv"], CLOSER)
    heading, row = out.splitlines()
    assert heading.startswith("group,topic,partition,start_offset,end_offset,lag,status,consumable_lag,")
    assert row == "workers,orders,0,0,12,12,ok,0,0,0,12,12,12,0,3,,192.4"


def test_a_consumer_group_is_shown_instead_of_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    """Who names a group wants its lag; what kind it is, is said."""
    admin = FakeAdmin(report(HALF_KNOWN, OTHER_TYPE), consumer_groups=[BILLING])
    result = run_on(monkeypatch, admin, "lag", "workers", "billing", "--topic", "bills")
    assert result.exit_code == 0
    assert admin.asked("consumer_lag") == [{"groups": ["billing"], "topics": ("bills",), "look_closer": False}]
    assert result.stdout.partition("\n\n")[2] == (
        "GROUP    TOPIC  PARTITION  COMMITTED-OFFSET  END-OFFSET  LAG  STATUS\n"
        "billing  bills          0                 5           8    3  ok\n"
        "billing  bills          1                 -           4    -  no_committed_offset\n"
    )
    assert "billing is a consumer group" not in result.stderr
    assert "billing (a consumer group): lag 3 in 1 of 2 partitions; unknown for 1\n" in result.stderr
    assert "bills-1: the group committed no offset here yet\n" in result.stderr


def test_consumer_groups_in_json_have_a_list_of_their_own(monkeypatch: pytest.MonkeyPatch) -> None:
    """They have other keys, so a reader of `groups` never meets them."""
    admin = FakeAdmin(report(OTHER_TYPE), consumer_groups=[BILLING])
    document = json.loads(run_on(monkeypatch, admin, "lag", "billing", "-o", "json").stdout)
    assert document["groups"] == []
    assert document["consumer_groups"][0]["partitions"][0]["committed_offset"] == 5


def test_consumer_groups_in_csv_stand_in_the_same_columns(monkeypatch: pytest.MonkeyPatch) -> None:
    """What they committed is where they go on."""
    admin = FakeAdmin(report(OTHER_TYPE), consumer_groups=[BILLING])
    lines = run_on(monkeypatch, admin, "lag", "billing", "--visible", "-o", "csv").stdout.splitlines()
    assert lines[1] == "billing,bills,0,5,8,3,ok,2,,,1,,,0,,,"


@pytest.mark.parametrize(
    ("group", "code", "words"),
    [
        (ConsumerGroupLag(GroupId("billing"), error=GroupError(30, "NAME", "grant DESCRIBE")), 4, "grant DESCRIBE"),
        (ConsumerGroupLag(GroupId("billing"), "classic"), 0, "billing (a classic group): has no partition with a"),
        (
            ConsumerGroupLag(GroupId("billing"), "consumer", partitions=BILLING.partitions[1:]),
            1,
            "billing (a consumer group): lag is unknown in its one partition",
        ),
        (
            ConsumerGroupLag(GroupId("billing"), "consumer", partitions=BILLING.partitions[:1]),
            0,
            "billing (a consumer group): lag 3 in 1 partition, of which 2 to consume, the others phantom",
        ),
    ],
)
def test_consumer_groups_are_judged_alike(
    monkeypatch: pytest.MonkeyPatch, group: ConsumerGroupLag, code: int, words: str
) -> None:
    """Unknown is said as unknown, and a missing right has its exit code."""
    admin = FakeAdmin(report(OTHER_TYPE), consumer_groups=[group])
    result = run_on(monkeypatch, admin, "lag", "billing", "--visible")
    assert result.exit_code == code
    assert words in result.stderr


def test_no_share_group_at_all(monkeypatch: pytest.MonkeyPatch) -> None:
    """An empty cluster is an answer."""
    code, out, err = run(monkeypatch, ["--all-groups"])
    assert (code, out) == (0, "")
    assert "no share group" in err


def test_a_broker_that_did_not_list_its_groups_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    """All groups may be fewer than all."""
    admin = FakeAdmin(report(HALF_KNOWN, problems=("broker 2 did not list its groups",)))
    assert "broker 2 did not list its groups" in run_on(monkeypatch, admin, "lag", "--all-groups").stderr


@pytest.mark.parametrize("arguments", [[], ["workers", "--all-groups"]])
def test_groups_or_all_of_them(monkeypatch: pytest.MonkeyPatch, arguments: list[str]) -> None:
    """One of the two has to be said, and not both."""
    code, _, err = run(monkeypatch, arguments)
    assert code == 2
    assert "--all-groups" in err


def test_a_group_whose_name_begins_with_a_dash(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two dashes end the flags, as everywhere."""
    admin = FakeAdmin(report())
    run_on(monkeypatch, admin, "lag", "--", "-odd")
    assert admin.asked("lag")[0]["groups"] == ("-odd",)


def test_no_broker_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """The sentence names the three ways to name one."""
    monkeypatch.delenv("SHAREPROXY_BOOTSTRAP_SERVER", raising=False)
    result = CliRunner().invoke(app, ["lag", "workers"])
    assert result.exit_code == 2
    for way in ("--bootstrap-server", "SHAREPROXY_BOOTSTRAP_SERVER", "bootstrap_server"):
        assert way in result.stderr


def test_a_name_of_two_lines_is_one_line_of_stderr(monkeypatch: pytest.MonkeyPatch) -> None:
    """Else it could say anything in our name; letters of any language stay as they are."""
    group = GroupLag(GroupId("größe\nshareproxy: 注文"), "Stable", None, (KNOWN,))
    _, out, err = run(monkeypatch, ["--all-groups"], group)
    assert err == "shareproxy: größe\\nshareproxy: 注文: lag 7 in 1 partition\n"
    assert len(out.splitlines()) == 2


EMPTY = GroupLag(GroupId("workers"), "Empty", None, (PartitionLag("orders", TOPIC_ID, 0, 2, 11, lag=7),))
HINT = "a consumer can still be given\n"


@pytest.fixture
def on_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    """A person looks at stdout."""
    monkeypatch.setattr("click.testing._NamedTextIOWrapper.isatty", lambda _: True)


@pytest.mark.usefixtures("on_terminal")
def test_a_lag_with_nobody_there_is_worth_a_closer_look(monkeypatch: pytest.MonkeyPatch) -> None:
    """One hint, whatever the number of groups."""
    _, _, err = run(monkeypatch, ["workers"], EMPTY)
    assert err.endswith(f"\nshareproxy: nobody is in workers: --visible tells what of its lag {HINT}")
    _, _, err = run(monkeypatch, ["--all-groups"], EMPTY, msgspec.structs.replace(EMPTY, group=GroupId("others")))
    assert err.count("--visible") == 1
    assert err.endswith(f"nobody is in 2 of these groups: --visible tells what of their lag {HINT}")


@pytest.mark.usefixtures("on_terminal")
@pytest.mark.parametrize(
    ("arguments", "group"),
    [
        (["workers", "--visible"], EMPTY),
        (["workers", "-o", "csv"], EMPTY),
        (["workers"], msgspec.structs.replace(EMPTY, state="Stable")),
        (["workers"], GroupLag(GroupId("workers"), "Empty", None, (PartitionLag("t", TOPIC_ID, 0, 5, 5, lag=0),))),
        (["workers"], GroupLag(GroupId("workers"), "Empty", None, (UNKNOWN,))),
    ],
)
def test_no_hint_where_it_says_nothing(monkeypatch: pytest.MonkeyPatch, arguments: list[str], group: GroupLag) -> None:
    """It was asked for, is for a program, somebody is there, or nothing is left."""
    assert HINT not in run(monkeypatch, arguments, group)[2]


def test_no_hint_in_a_pipe(monkeypatch: pytest.MonkeyPatch) -> None:
    """Scripts that read stderr, too, are not told what to do."""
    assert HINT not in run(monkeypatch, ["workers"], EMPTY)[2]

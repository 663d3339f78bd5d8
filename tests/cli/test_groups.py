"""`shareproxy groups`: what it prints for a given cluster."""

from __future__ import annotations

import json

import pytest

from shareproxy.admin.errors import CannotReach
from shareproxy.cli.groups import LISTING_PART
from shareproxy.lag.consumer_model import ConsumerGroupLag, ConsumerPartitionLag
from shareproxy.lag.descriptions import GroupDescription, Member
from shareproxy.lag.listings import GroupListing, ListedGroup
from shareproxy.lag.model import GroupError, GroupLag, PartitionLag, Status
from shareproxy.protocol.ids import GroupId, NodeId
from tests.cli.fake_admin import TOPIC_ID, FakeAdmin, report, run

LISTING = GroupListing(
    (
        ListedGroup(GroupId("billing"), "consumer", "Stable", NodeId(2)),
        ListedGroup(GroupId("hidden"), "share", "Empty", NodeId(1)),
        ListedGroup(GroupId("orders"), "share", "Stable", NodeId(1)),
        ListedGroup(GroupId("streams-app"), "streams", None, NodeId(3)),
    )
)
ERROR = GroupError(
    30, "GROUP_AUTHORIZATION_FAILED", "this user may not see group 'hidden'; grant DESCRIBE on the group"
)
DESCRIPTIONS = (
    GroupDescription(
        GroupId("orders"),
        "Stable",
        members=(Member("m", "worker", "/10.0.0.1", None, 1, ("orders",), ()),),
    ),
    GroupDescription(GroupId("hidden"), error=ERROR),
)


def cluster(listing: GroupListing = LISTING) -> FakeAdmin:
    """One group of each kind: known in part, hidden, consumer, and one of which no lag is asked."""
    return FakeAdmin(
        report(
            GroupLag(
                GroupId("orders"),
                "Stable",
                None,
                (
                    PartitionLag("orders", TOPIC_ID, 0, 2, 11, lag=7),
                    PartitionLag("orders", TOPIC_ID, 1, status=Status.NO_START_OFFSET),
                ),
            ),
            GroupLag(GroupId("hidden"), None, ERROR),
        ),
        consumer_groups=[
            ConsumerGroupLag(
                *(GroupId("billing"), "consumer", "Stable", 3, None),
                (ConsumerPartitionLag("bills", TOPIC_ID, 0, 5, end_offset=8, lag=3),),
            )
        ],
        descriptions=DESCRIPTIONS,
        listing=listing,
    )


def test_every_group_has_a_row(monkeypatch: pytest.MonkeyPatch) -> None:
    """A lag that is not complete has a plus, one that is unknown a dash, and its reason is on stderr."""
    result = run(monkeypatch, cluster(), "groups", "--type", "all")
    assert result.exit_code == 0
    assert result.stdout == (
        "GROUP        TYPE      STATE   MEMBERS  PARTITIONS  LAG  COORDINATOR\n"
        "billing      consumer  Stable        3           1    3            2\n"
        "hidden       share     Empty         -           0    -            1\n"
        "orders       share     Stable        1           2   7+            1\n"
        "streams-app  streams   -             -           -    -            3\n"
    )
    assert result.stderr == f"shareproxy: {ERROR.message}\n"


def test_share_groups_are_what_is_asked_for_by_default(monkeypatch: pytest.MonkeyPatch) -> None:
    """Types and states are left to the brokers; words for states are those of Kafka, in any case."""
    admin = cluster()
    run(monkeypatch, admin, "groups", "--state", "stable", "--state", "Empty")
    run(monkeypatch, admin, "groups", "--type", "all")
    assert admin.asked("list_groups") == [
        {"types": ("share",), "states": ("Stable", "Empty")},
        {"types": (), "states": ()},
    ]


def test_json_has_numbers_and_null(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every key is there in every row."""
    document = json.loads(run(monkeypatch, cluster(), "groups", "-o", "json").stdout)
    assert document["problems"] == []
    assert document["groups"][2] == {
        "group": "orders",
        "type": "share",
        "state": "Stable",
        "members": 1,
        "partitions": 2,
        "partitions_known": 1,
        "lag": 7,
        "complete": False,
        "coordinator": 1,
        "error": None,
    }
    assert document["groups"][1]["lag"] is None
    assert document["groups"][1]["error"]["code"] == 30


def test_csv_has_one_line_per_group(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is unknown is empty."""
    lines = run(monkeypatch, cluster(), "groups", "-o", "csv").stdout.splitlines()
    assert lines[0] == "group,type,state,members,partitions,partitions_known,lag,complete,coordinator"
    assert lines[2:] == [
        "hidden,share,Empty,,0,0,,false,1",
        "orders,share,Stable,1,2,1,7,false,1",
        "streams-app,streams,,,,,,,3",
    ]


def test_a_broker_that_did_not_tell_is_an_exit_code(monkeypatch: pytest.MonkeyPatch) -> None:
    """The list is not whole, and a script can know."""
    listing = GroupListing(LISTING.groups[2:3], ("broker 2 did not list its groups",))
    result = run(monkeypatch, cluster(listing), "groups")
    assert result.exit_code == 1
    assert "broker 2 did not list its groups" in result.stderr


def test_the_same_of_many_groups_is_said_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Five thousand lines help nobody."""
    names = [GroupId(f"g{number}") for number in range(5)]
    errors = [GroupError(7, "REQUEST_TIMED_OUT", f"group {name!r}: no answer within the time given") for name in names]
    admin = FakeAdmin(
        report(*(GroupLag(name, None, error) for name, error in zip(names, errors, strict=True))),
        descriptions=[GroupDescription(name, error=error) for name, error in zip(names, errors, strict=True)],
        listing=GroupListing(tuple(ListedGroup(name, "share", "Empty", NodeId(1)) for name in names)),
    )
    result = run(monkeypatch, admin, "groups")
    assert result.stderr == f"shareproxy: {errors[0].message} (and so for 4 more groups)\n"
    assert result.exit_code == 1  # nothing is known of any lag


def test_what_was_listed_is_shown_in_any_case(monkeypatch: pytest.MonkeyPatch) -> None:
    """Although nobody tells the lag."""
    admin = FakeAdmin(CannotReach("nobody answers"), descriptions=DESCRIPTIONS, listing=LISTING)
    result = run(monkeypatch, admin, "groups")
    assert result.exit_code == 1
    assert [line.split()[:2] for line in result.stdout.splitlines()[1:]][1:3] == [
        ["hidden", "share"],
        ["orders", "share"],
    ]
    assert result.stderr == "shareproxy: nobody answers\n"


def test_slow_brokers_are_asked_once_more(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where none of them lists its groups in a part of the time, the rest is for that."""
    admin = cluster()
    listed, list_groups = [], admin.list_groups

    async def slow(*, timeout: float, **arguments: object) -> GroupListing:
        listed.append(timeout)
        if len(listed) == 1:
            raise CannotReach("the groups of broker 1 are missing: no answer in time")
        return await list_groups(timeout=timeout, **arguments)

    monkeypatch.setattr(admin, "list_groups", slow)
    assert run(monkeypatch, admin, "groups", "--timeout", "9").exit_code == 0
    assert listed[0] == pytest.approx(9 * LISTING_PART, abs=0.1)
    assert listed[1] > listed[0]


def test_no_group_at_all(monkeypatch: pytest.MonkeyPatch) -> None:
    """An empty cluster is an answer, in words."""
    result = run(monkeypatch, cluster(GroupListing(())), "groups", "--type", "classic", "--state", "Dead")
    assert (result.exit_code, result.stdout) == (0, "")
    assert result.stderr == "shareproxy: there is no classic group in this state on this cluster that you may see\n"


@pytest.mark.parametrize(
    ("arguments", "text"), [(("--state", "stabel"), "'stabel' is not one of"), (("--type", "shared"), "'share'")]
)
def test_a_wrong_word_names_the_right_ones(
    monkeypatch: pytest.MonkeyPatch, arguments: tuple[str, str], text: str
) -> None:
    """Before anything is asked."""
    result = run(monkeypatch, cluster(), "groups", *arguments)
    assert result.exit_code == 2
    assert text in result.stderr

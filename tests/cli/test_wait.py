"""`shareproxy wait`: when it ends, with which code and which words."""

from __future__ import annotations

import pytest

from shareproxy.admin.errors import AccessDenied, CannotReach
from shareproxy.cli import wait
from shareproxy.lag.consumer_model import ConsumerGroupLag, ConsumerPartitionLag
from shareproxy.lag.model import GroupError, GroupLag, LagReport, PartitionLag, Status
from shareproxy.lag.visible_model import PartitionVisible, Want
from shareproxy.protocol.ids import GroupId
from tests.cli.fake_admin import TOPIC_ID, FakeAdmin, report, run
from tests.support.terminal import shareproxy_on_terminal


@pytest.fixture(autouse=True)
def short_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    """Look again at once."""
    monkeypatch.setattr(wait, "FIRST_PAUSE", 0.001)
    monkeypatch.setattr(wait, "LONGEST_PAUSE", 0.001)


def orders(lag: int | None, consumable: int | None = None, most: int | None = None) -> LagReport:
    """One look at a group of one partition."""
    least = consumable if most is None else 0
    visible = PartitionVisible(
        consumable_lag=consumable if most is None else None,
        consumable_lag_min=least,
        consumable_lag_max=consumable if most is None else most,
        notes=() if consumable is not None or most is not None else ("grant READ on the topic",),
    )
    status = Status.OK if lag is not None else Status.NO_START_OFFSET
    row = PartitionLag("orders", TOPIC_ID, 0, 0, lag, lag=lag, status=status, visible=visible)
    return report(GroupLag(GroupId("orders"), "Stable", None, (row,)))


def consumer_group(visible: int | None) -> ConsumerGroupLag:
    """A consumer group of lag 3."""
    row = ConsumerPartitionLag(
        "orders", TOPIC_ID, 0, 5, end_offset=8, lag=3, visible_lag=visible, notes=("grant READ",)
    )
    return ConsumerGroupLag(GroupId("orders"), "consumer", "Stable", 1, None, (row,))


def failed(code: int, name: str, message: str) -> LagReport:
    """One look at a group without an answer."""
    return report(GroupLag(GroupId("orders"), None, GroupError(code, name, message)))


def test_it_ends_when_the_lag_is_low_enough(monkeypatch: pytest.MonkeyPatch) -> None:
    """It looks until then; stdout stays empty."""
    admin = FakeAdmin(orders(7), orders(3), orders(0))
    result = run(monkeypatch, admin, "wait", "orders")
    assert (result.exit_code, result.stdout) == (0, "")
    assert len(admin.asked("lag")) == 3
    assert result.stderr.startswith("shareproxy: orders: lag 7\nshareproxy: orders: lag 0, reached after ")


def test_a_threshold_may_be_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """Low enough is what the script says it is."""
    admin = FakeAdmin(orders(3))
    assert run(monkeypatch, admin, "wait", "orders", "--lag", "3", "--timeout", "0").exit_code == 0
    assert run(monkeypatch, admin, "wait", "orders", "--lag", "2", "--timeout", "0").exit_code == 1


def test_it_gives_up_and_says_what_remains(monkeypatch: pytest.MonkeyPatch) -> None:
    """The exit code is "no"; --timeout 0 looks once."""
    admin = FakeAdmin(orders(7))
    result = run(monkeypatch, admin, "wait", "orders", "--timeout", "0")
    assert result.exit_code == 1
    assert len(admin.asked("lag")) == 1
    assert "orders: lag 7; lag 0 was not reached after 0.0 s\n" in result.stderr


def test_every_group_has_to_be_there(monkeypatch: pytest.MonkeyPatch) -> None:
    """One drained group does not stand for the other."""
    busy = GroupLag(GroupId("payments"), "Stable", None, (PartitionLag("payments", TOPIC_ID, 0, 0, 1, lag=1),))
    both = report(orders(0).groups[0], busy)
    result = run(monkeypatch, FakeAdmin(both), "wait", "orders", "payments", "--timeout", "0")
    assert result.exit_code == 1
    assert "orders: lag 0, reached" in result.stderr
    assert "payments: lag 1; lag 0 was not reached" in result.stderr


def test_unknown_is_never_reached(monkeypatch: pytest.MonkeyPatch) -> None:
    """Not even for a high threshold; the reason is said."""
    result = run(monkeypatch, FakeAdmin(orders(None)), "wait", "orders", "--lag", "1000", "--timeout", "0")
    assert result.exit_code == 1
    assert "orders: lag is unknown in 1 of 1 partitions (orders-0: nothing was acknowledged" in result.stderr


def test_a_group_that_the_answer_lacks_is_not_reached(monkeypatch: pytest.MonkeyPatch) -> None:
    """No news is no good news."""
    result = run(monkeypatch, FakeAdmin(report()), "wait", "orders", "--timeout", "0")
    assert result.exit_code == 1
    assert "said nothing about it" in result.stderr


def test_a_missing_group_may_still_come(monkeypatch: pytest.MonkeyPatch) -> None:
    """The consumer that makes it may start later than the script that waits."""
    admin = FakeAdmin(failed(69, "GROUP_ID_NOT_FOUND", "share group 'orders' does not exist"), orders(0))
    assert run(monkeypatch, admin, "wait", "orders").exit_code == 0


def test_a_missing_right_ends_it_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """No amount of waiting grants it."""
    admin = FakeAdmin(failed(30, "GROUP_AUTHORIZATION_FAILED", "grant DESCRIBE on the group"))
    result = run(monkeypatch, admin, "wait", "orders")
    assert result.exit_code == 4
    assert result.stderr == "shareproxy: grant DESCRIBE on the group\n"
    refused = FakeAdmin(AccessDenied("Authentication failed"))
    assert run(monkeypatch, refused, "wait", "orders").exit_code == 4


def test_it_goes_on_while_brokers_are_away(monkeypatch: pytest.MonkeyPatch) -> None:
    """A restart of the cluster does not end a script."""
    away = CannotReach("127.0.0.1:9092 cannot be reached")
    result = run(monkeypatch, FakeAdmin(orders(3), away, away, orders(0)), "wait", "orders")
    assert result.exit_code == 0


def test_brokers_that_never_answered_are_3(monkeypatch: pytest.MonkeyPatch) -> None:
    """As with every command."""
    result = run(monkeypatch, FakeAdmin(CannotReach("b:9092 cannot be reached")), "wait", "orders", "--timeout", "0")
    assert result.exit_code == 3
    assert result.stderr.startswith("shareproxy: b:9092 cannot be reached; ")


def test_the_last_answer_is_said_when_brokers_went_away(monkeypatch: pytest.MonkeyPatch) -> None:
    """It was not reached as far as anybody knows."""
    admin = FakeAdmin(orders(3), CannotReach("b:9092 cannot be reached"))
    result = run(monkeypatch, admin, "wait", "orders", "--timeout", "0.05")
    assert result.exit_code == 1
    assert "orders: lag 3; lag 0 was not reached" in result.stderr
    assert result.stderr.endswith("since then: b:9092 cannot be reached\n")


@pytest.mark.parametrize(
    ("look", "code", "words"),
    [
        (orders(12, 0), 0, "0 to consume (lag 12)"),
        (orders(12, 5), 1, "5 to consume (lag 12); to consume 0 was not reached"),
        (orders(12, None, 4), 1, "0–4 to consume (lag 12)"),
        (orders(12, None), 1, "what can be consumed is unknown in 1 of 1 partitions (orders-0: grant READ"),
    ],
)
def test_visible_compares_what_can_be_consumed(
    monkeypatch: pytest.MonkeyPatch, look: LagReport, code: int, words: str
) -> None:
    """Phantom offsets do not keep it waiting; a range counts with its upper end, unknown never."""
    admin = FakeAdmin(look)
    result = run(monkeypatch, admin, "wait", "orders", "--visible", "--timeout", "0")
    assert result.exit_code == code
    assert words in result.stderr
    assert admin.asked("lag")[0]["want"] & Want.PHANTOM


@pytest.mark.parametrize(("lag", "code"), [(0, 0), (3, 1), (None, 1)])
def test_a_consumer_group_can_be_waited_for(monkeypatch: pytest.MonkeyPatch, lag: int | None, code: int) -> None:
    """One command for a team with both kinds."""
    row = ConsumerPartitionLag("orders", TOPIC_ID, 0, 5, end_offset=8, lag=lag)
    admin = FakeAdmin(
        failed(69, "NOT_A_SHARE_GROUP", "is a consumer group"),
        consumer_groups=[ConsumerGroupLag(GroupId("orders"), "consumer", "Stable", 1, None, (row,))],
    )
    assert run(monkeypatch, admin, "wait", "orders", "--timeout", "0").exit_code == code


@pytest.mark.parametrize(
    ("group", "code", "words"),
    [
        (ConsumerGroupLag(GroupId("orders"), error=GroupError(30, "NAME", "grant DESCRIBE")), 4, "grant DESCRIBE"),
        (ConsumerGroupLag(GroupId("orders"), "consumer"), 1, "no partition with a committed offset"),
        (consumer_group(visible=2), 1, "2 to consume (lag 3)"),
        (consumer_group(visible=0), 0, "0 to consume (lag 3)"),
        (consumer_group(visible=None), 1, "what can be consumed is unknown (orders-0: grant READ)"),
    ],
)
def test_what_a_consumer_group_can_read(
    monkeypatch: pytest.MonkeyPatch, group: ConsumerGroupLag, code: int, words: str
) -> None:
    """The same rules as for share groups."""
    admin = FakeAdmin(failed(69, "NOT_A_SHARE_GROUP", "is a consumer group"), consumer_groups=[group])
    result = run(monkeypatch, admin, "wait", "orders", "--visible", "--timeout", "0")
    assert result.exit_code == code
    assert words in result.stderr


@pytest.mark.parametrize(
    "arguments", [(), ("orders", "--lag", "-1"), ("orders", "--timeout", "-1"), ("orders", "--lag", "many")]
)
def test_wrong_usage(monkeypatch: pytest.MonkeyPatch, arguments: tuple[str, ...]) -> None:
    """Said before anything is asked."""
    admin = FakeAdmin(orders(0))
    assert run(monkeypatch, admin, "wait", *arguments).exit_code == 2
    assert not admin.calls


def test_a_terminal_gets_one_line_in_place(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is written over, and taken away at the end."""
    monkeypatch.setattr(wait.Progress, "_is_terminal", staticmethod(lambda: True))
    result = run(monkeypatch, FakeAdmin(orders(7), orders(3), orders(0)), "wait", "orders")
    shown = result.stderr.split("\r\x1b[K")
    assert [part for part in shown if part][:2] == ["[0 s] orders: lag 7", "[0 s] orders: lag 3"]
    assert shown[-1] == "" or shown[-1].startswith("shareproxy: orders: lag 0, reached")


def test_ctrl_c_leaves_the_terminal_clean() -> None:
    """While no broker is there it goes on; the line that it shows fits, and is gone at the end."""
    with shareproxy_on_terminal("wait", "orders", "--bootstrap-server", "127.0.0.1:1", columns=40) as terminal:
        terminal.wait_for("s] ")
        assert len([line for line in terminal.lines if line]) == 1
        terminal.press("ctrl-c")
        assert terminal.wait_end() == 130
        assert terminal.left_behind() == []
        assert "s] " not in terminal.text

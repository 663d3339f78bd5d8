"""What a caller gives is checked before anything is sent."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from shareproxy.admin import arguments
from shareproxy.admin.errors import WrongArgument
from shareproxy.admin.targets import Earliest, Latest, Shift, Target, ToOffset, ToTime
from shareproxy.cluster.security import PLAINTEXT
from shareproxy.lag.model import SourceChoice


def test_bootstrap_servers_are_text_or_several_texts() -> None:
    """Both ways to write two brokers mean the same."""
    assert arguments.addresses("a:1,b:2") == arguments.addresses(["a:1", "b:2"])


def test_an_address_without_a_port_is_refused() -> None:
    """The sentence names the argument and what to write."""
    with pytest.raises(WrongArgument, match=r"bootstrap_servers: .*no port"):
        arguments.addresses("broker")


def test_a_property_file_and_a_value_contradict_each_other() -> None:
    """Security comes from one place."""
    with pytest.raises(WrongArgument, match="not both"):
        arguments.connection("client.properties", PLAINTEXT, "me")


def test_a_property_file_that_is_not_there(tmp_path: Path) -> None:
    """The sentence names the file."""
    with pytest.raises(WrongArgument, match=r"command_config: .*absent.properties.*cannot be read"):
        arguments.connection(tmp_path / "absent.properties", None, "me")


def test_a_property_file_names_us_unless_the_caller_did(tmp_path: Path) -> None:
    """`client.id` of the file counts only where the argument is the default."""
    file = tmp_path / "client.properties"
    file.write_text("security.protocol=PLAINTEXT\nclient.id=theirs\nlinger.ms=5\n")

    by_file, by_caller = arguments.connection(file, None, "shareproxy"), arguments.connection(file, None, "mine")

    assert (by_file.client_id, by_caller.client_id) == ("theirs", "mine")
    assert "linger.ms" in by_file.notes[0]


@pytest.mark.parametrize("word", ["auto", SourceChoice.SUMMARY])
def test_a_source_is_a_word_or_a_choice(word: str) -> None:
    """Both are taken."""
    assert arguments.source(word) == word


def test_an_unknown_source_is_refused() -> None:
    """The sentence names those that exist."""
    with pytest.raises(WrongArgument, match="none of auto, broker, summary, batches"):
        arguments.source("guess")


@pytest.mark.parametrize("name", ["", "\ud800", "g" * 32768, "ü" * 16384])
def test_a_name_that_the_wire_cannot_carry_is_refused(name: str) -> None:
    """No text, half a character, or longer than 32767 bytes; the error stays short."""
    for check in (lambda: arguments.names("groups", name), lambda: arguments.group_name(name)):
        with pytest.raises(WrongArgument) as caught:
            check()
        assert len(caught.value.message) < 200
    with pytest.raises(WrongArgument):
        arguments.selection({name: None})


def test_a_long_name_is_a_name() -> None:
    """The wire's limit is in bytes."""
    assert arguments.names("groups", "ü" * 16383) == ("ü" * 16383,)


@pytest.mark.parametrize("seconds", [0, -1.0, float("nan"), float("inf"), "3", True, None])
def test_a_time_out_is_above_zero(seconds: Any) -> None:
    """Anything else would wait for ever, or not at all."""
    with pytest.raises(WrongArgument, match="timeout"):
        arguments.seconds(seconds)


def test_one_name_is_not_its_letters() -> None:
    """A text where names are wanted is one name; doubles count once."""
    assert arguments.names("groups", "orders") == ("orders",)
    assert arguments.names("groups", ["b", "a", "b"]) == ("b", "a")


@pytest.mark.parametrize("given", [[""], [None], [1]])
def test_what_is_no_name_is_refused(given: Any) -> None:
    """An empty group id is answered by Kafka as if it existed."""
    with pytest.raises(WrongArgument, match="is not a name"):
        arguments.names("groups", given)


def test_no_names_at_all_are_refused_where_some_are_needed() -> None:
    """An empty list of topics to delete is a mistake of the caller."""
    with pytest.raises(WrongArgument, match="topics: none is named"):
        arguments.some_names("topics", [])


@pytest.mark.parametrize("given", ["", None, 5])
def test_what_is_no_group_is_refused(given: Any) -> None:
    """One group has one name."""
    with pytest.raises(WrongArgument, match="group"):
        arguments.group_name(given)


def test_a_selection_is_topics_or_partitions_by_topic() -> None:
    """All ways to write it come out in one shape."""
    assert arguments.selection(None) is None
    assert arguments.selection("t") == {"t": None}
    assert arguments.selection(["t", "u"]) == {"t": None, "u": None}
    assert arguments.selection({"t": [1, 0, 1], "u": None}) == {"t": frozenset({0, 1}), "u": None}


@pytest.mark.parametrize("given", [[], {}, {"t": []}, {"t": [-1]}, {"t": ["0"]}, {"t": [True]}])
def test_a_selection_of_nothing_is_refused(given: Any) -> None:
    """Nothing selected is not everything selected."""
    with pytest.raises(WrongArgument, match="topics"):
        arguments.selection(given)


@pytest.mark.parametrize(
    "target", [Earliest(), Latest(), ToOffset(0), Shift(-5), ToTime(datetime(2026, 1, 1, tzinfo=UTC))]
)
def test_targets_that_make_sense(target: Target) -> None:
    """They are taken as they are."""
    assert arguments.target(target) is target


@pytest.mark.parametrize(
    "target",
    [ToOffset(-1), ToOffset(2**63), Shift("5"), ToTime(datetime(2026, 1, 1)), ToTime("today"), "earliest"],  # type: ignore[arg-type]
)
def test_targets_that_make_no_sense(target: Any) -> None:
    """A moment needs its time zone, an offset counts from 0."""
    with pytest.raises(WrongArgument, match="target"):
        arguments.target(target)


def test_offsets_by_topic_and_partition() -> None:
    """Good ones are taken as they are."""
    assert arguments.offsets({("t", 0): 5, ("t", 1): 0}) == {("t", 0): 5, ("t", 1): 0}


@pytest.mark.parametrize("given", [{}, {"t-0": 5}, {("t", -1): 5}, {("", 0): 5}, {("t", 0): -1}, {("t", 0): None}])
def test_offsets_that_make_no_sense(given: Any) -> None:
    """Each sentence begins with the argument."""
    with pytest.raises(WrongArgument, match=r"^offsets: "):
        arguments.offsets(given)

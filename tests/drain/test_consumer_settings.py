"""What cannot be used is said in one sentence, before anything is sent."""

from __future__ import annotations

import re
from typing import Any

import pytest

from shareproxy import AcquireMode, Security, ShareConsumer, WrongArgument
from shareproxy.drain.consumer_settings import topic_names


def make(**given: Any) -> ShareConsumer:
    """Return a consumer with usual arguments but those given."""
    return ShareConsumer(**{"bootstrap_servers": "127.0.0.1:9092", "group": "workers", "topics": ["orders"], **given})


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"bootstrap_servers": "nosuch:port"}, "bootstrap_servers"),
        ({"group": ""}, "group: '' is not the name of a group"),
        ({"topics": []}, "topics: none is named"),
        ({"topics": ["orders.*"]}, r"'orders\.\*' is a pattern.*name each topic"),
        ({"topics": re.compile("orders")}, "'orders' is a pattern"),
        ({"topics": [re.compile("orders")]}, "'orders' is a pattern"),
        ({"topics": ["or ders"]}, "is not the name of a topic"),
        ({"topics": ["."]}, "is not the name of a topic"),
        ({"topics": [7]}, "7 is not the name of a topic"),
        ({"topics": 7}, "not names of topics"),
        ({"max_records": 0}, "max_records: 0 is not a whole number from 1"),
        ({"max_records": True}, "max_records"),
        ({"max_records": 2**31}, "max_records"),
        ({"max_bytes": 1.5}, "max_bytes"),
        ({"capacity": 10}, r"capacity: 10 records are fewer than one batch \(max_records=500\)"),
        ({"max_wait": -1}, "max_wait: -1 is not a number of seconds"),
        ({"max_wait": 31}, "max_wait"),
        ({"max_wait": "1"}, "max_wait"),
        ({"acquire_mode": "some"}, "acquire_mode: 'some' is none of batch, record"),
        ({"acknowledgement": "manual"}, 'neither "explicit" nor "implicit"'),
        ({"request_timeout": 0}, "request_timeout"),
        ({"close_timeout": None}, "close_timeout"),
        ({"security": Security(), "command_config": "x"}, "not both"),
        ({"command_config": "/nosuch/file"}, "command_config"),
    ],
)
def test_what_cannot_be_used(given: dict[str, Any], words: str) -> None:
    """The argument is named, and what to write."""
    with pytest.raises(WrongArgument, match=words):
        make(**given)


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("auto_offset_reset", r"share\.auto\.offset\.reset with kafka-configs\.sh"),
        ("share_auto_offset_reset", r"share\.auto\.offset\.reset"),
        ("isolation_level", r"share\.isolation\.level"),
        ("session_timeout_ms", r"share\.session\.timeout\.ms"),
        ("heartbeat_interval_ms", r"share\.heartbeat\.interval\.ms"),
        ("record_lock_duration_ms", r"share\.record\.lock\.duration\.ms"),
        ("share_acquisition_lock_timeout_ms", r"share\.record\.lock\.duration\.ms"),
        ("lock", r"share\.record\.lock\.duration\.ms"),
        ("delivery_count_limit", r"share\.delivery\.count\.limit"),
        ("enable_auto_commit", 'acknowledgement="implicit"'),
        ("group_instance_id", "no static members"),
        ("group_protocol", "leave it out"),
        ("partition_assignment_strategy", "coordinator assigns"),
        ("group_id", "group="),
        ("max_poll_records", "max_records="),
        ("fetch_max_wait_ms", "max_wait="),
    ],
)
def test_settings_that_belong_elsewhere(name: str, words: str) -> None:
    """A setting of the group, or another name: where it goes is said (R3)."""
    with pytest.raises(WrongArgument, match=f"^{name}: .*{words}"):
        make(**{name: "x"})


def test_an_argument_that_nobody_knows() -> None:
    """As Python says it."""
    with pytest.raises(TypeError, match="unexpected keyword argument 'nosuch'"):
        make(nosuch=1)


@pytest.mark.parametrize("mode", ["record", "RECORD", AcquireMode.RECORD])
def test_ways_to_say_the_same(mode: Any) -> None:
    """Names in any case, values of the enumeration, one topic without a list."""
    consumer = make(acquire_mode=mode, topics="orders", bootstrap_servers=["127.0.0.1:1", "127.0.0.1:2"])

    assert consumer.topics == ("orders",)
    assert consumer.group == "workers"
    assert len(consumer.member_id) == 22
    assert not consumer.assignment
    assert "not started" in repr(consumer)


def test_topics_are_named_once() -> None:
    """Doubles do no harm."""
    assert topic_names(["a", "b", "a"]) == ("a", "b")

"""Reading a sink.toml; R numbers are those of drain.md."""

from __future__ import annotations

from pathlib import Path

import pytest

from shareproxy.config import ConfigError
from shareproxy.drain.sink_config import SinkSettings, load_sink_settings

WORKER = '[worker]\n"bootstrap.servers" = "localhost:9092"\n'
ORDERS = '[connectors.orders]\nclass = "postgresql"\ntopics = ["orders"]\n'
SHARE = '"consumer.override.group.protocol" = "share"\n'


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """Where the file is."""
    return tmp_path / "sink.toml"


def load(file: Path, text: str, **environment: str) -> SinkSettings:
    """Write and read it."""
    file.write_text(text)
    return load_sink_settings(file, environment)


def test_the_keys_of_kip_1302_are_read(file: Path) -> None:
    """Quoted keys with dots, and the sink's own table."""
    found = load(
        file,
        """
[worker]
"bootstrap.servers" = "localhost:9092"
"consumer.group.protocol" = "share"
"value.converter" = "json"
[connectors.orders]
class = "postgresql"
topics = ["orders", "returns"]
"tasks.max" = 4
"share.group.id" = "orders-sink"
"share.acknowledgement.mode" = "implicit"
"key.converter" = "string"
[connectors.orders.sink]
table = "orders"
""",
    )

    (orders,) = found.connectors
    assert (orders.topics, orders.keys.tasks_max, orders.sink_class) == (("orders", "returns"), 4, "postgresql")
    assert (orders.consumer.share_group, orders.consumer.group, orders.consumer.acknowledgement) == (
        True,
        "orders-sink",
        "implicit",
    )
    assert (orders.key_converter.name, orders.value_converter.name) == ("string", "json")
    assert orders.sink == {"table": "orders"}


def test_keys_with_dots_may_stand_without_quotes(file: Path) -> None:
    """TOML makes tables of them; they mean the same."""
    found = load(file, WORKER + ORDERS + "tasks.max = 3\nconsumer.override.group.protocol = 'share'\n")

    assert found.connectors[0].keys.tasks_max == 3
    assert found.connectors[0].consumer.share_group


def test_r1_share_and_consumer_connectors_stand_side_by_side_both_ways(file: Path) -> None:
    """A worker in share mode with one consumer connector, and the reverse."""
    other = '[connectors.mails]\nclass = "files"\ntopics = "mails"\n'
    for worker, override in (("share", "consumer"), ("consumer", "share")):
        found = load(
            file,
            f'{WORKER}"consumer.group.protocol" = "{worker}"\n{ORDERS}{other}'
            f'"consumer.override.group.protocol" = "{override}"\n',
        )
        assert [connector.consumer.protocol for connector in found.connectors] == [worker, override]


def test_r2_without_share_keys_everything_is_as_before(file: Path) -> None:
    """A consumer group of Connect's name."""
    (orders,) = load(file, WORKER + ORDERS).connectors

    assert (orders.consumer.protocol, orders.consumer.group) == ("consumer", "connect-orders")


def test_r6_the_default_name_of_a_share_group_is_not_that_of_connects_group(file: Path) -> None:
    """The old consumer group would block it for good."""
    (orders,) = load(file, WORKER + ORDERS + SHARE).connectors

    assert orders.consumer.group == "share-orders"


def test_r6_one_name_for_groups_of_two_types_is_refused(file: Path) -> None:
    """Both connectors are named."""
    mails = '[connectors.mails]\nclass = "files"\ntopics = "mails"\n"consumer.override.group.id" = "share-orders"\n'

    with pytest.raises(ConfigError, match=r"connectors 'orders' and 'mails' have the same group 'share-orders'"):
        load(file, WORKER + ORDERS + SHARE + mails)


def test_two_connectors_that_share_a_group_and_a_topic_are_noted(file: Path) -> None:
    """Each record goes to one of them."""
    again = ORDERS.replace("connectors.orders", "connectors.again") + SHARE + '"share.group.id" = "share-orders"\n'

    (note,) = load(file, WORKER + ORDERS + SHARE + again).notes

    assert "each record goes to one of them only" in note


def test_secrets_come_from_the_environment(file: Path) -> None:
    """`${env:NAME}`, as with Connect's provider."""
    text = WORKER + ORDERS + '[connectors.orders.sink]\ndsn = "postgresql://me:${env:PASSWORD}@db"\n'

    assert load(file, text, PASSWORD="secret").connectors[0].sink == {"dsn": "postgresql://me:secret@db"}
    with pytest.raises(ConfigError, match=r"the variable PASSWORD .* is not set"):
        load(file, text)


def test_the_commands_flags_go_before_the_file(file: Path) -> None:
    """They are the worker's, which a connector can still override."""
    file.write_text(WORKER + ORDERS)

    (orders,) = load_sink_settings(file, {}, bootstrap_servers="there:9092", command_config="c").connectors

    assert (orders.consumer.bootstrap_servers, orders.consumer.command_config) == ("there:9092", "c")


def test_settings_of_a_converter_go_with_it(file: Path) -> None:
    """The worker's go with the worker's converter only, as in Connect."""
    worker = WORKER + '"value.converter" = "registry"\n"value.converter.url" = "http://w"\n'

    (orders,) = load(file, worker + ORDERS).connectors
    (own,) = load(file, worker + ORDERS + '"value.converter" = "json"\n').connectors

    assert (orders.value_converter.name, orders.value_converter.settings) == ("registry", {"url": "http://w"})
    assert (own.value_converter.name, own.value_converter.settings) == ("json", {})


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("", "there is no connector; write a table such as"),
        ("[workers]\n", "'workers' is not a table of this file"),
        (ORDERS, r'\[worker\] "bootstrap.servers": is missing'),
        (WORKER + '[connectors.orders]\ntopics = "a"\n', r'\[connectors.orders\] "class": is missing'),
        (WORKER + '[connectors.orders]\nclass = "files"\n', r'"topics": is missing'),
        (
            WORKER + ORDERS + '"topics.regex" = "o.*"\n',
            r'"topics.regex": share groups subscribe to topics by name only',
        ),
        (WORKER + '[connectors.orders]\nclass = "files"\ntopics = ["o.*"]\n', r"'o\.\*' is not the name of a topic"),
        (WORKER + ORDERS + SHARE + '"share.group.id" = ""\n', r'"share.group.id": is empty'),
        (WORKER + ORDERS + '"task.max" = 2\n', r'"task.max": there is no such key; did you mean "tasks.max"'),
        (WORKER + ORDERS + '"connector.class" = "x"\n', r'"connector.class": there is no such key'),
        (WORKER + ORDERS + "zzzz = 2\n", r'"zzzz": there is no such key; known are class, topics'),
        (WORKER + ORDERS + '"tasks.max" = 0\n', r'"tasks.max": must be a whole number from 1 to 1000'),
        (WORKER + ORDERS + '"tasks.max" = "2"\n', r'"tasks.max": must be a whole number'),
        (WORKER + ORDERS + '"errors.tolerance" = "some"\n', r'"errors.tolerance": choose one of none, all'),
        (WORKER + ORDERS + '"reject.without.dlq" = "yes"\n', r'"reject.without.dlq": must be true or false'),
        (WORKER + ORDERS + "[connectors.orders.sinks]\nurl = 1\n", r"a sink's own settings stand in"),
        (WORKER + ORDERS + "sink = 3\n", r"\[connectors.orders.sink\]: is a table"),
        (WORKER + "connectors = 3\n", r'"connectors": there is no such key'),
        ("connectors = 3\n" + WORKER, r"\[connectors\]: is a table"),
        (WORKER + '[connectors.""]\n', "a connector has an empty name"),
        (WORKER + ORDERS + '"share.record.lock.duration.ms" = 1\n', "is a config of the group, kept by the brokers"),
        (WORKER + ORDERS + SHARE + '"consumer.override.share.isolation.level" = "x"\n', "is a config of the group"),
        (WORKER + '"consumer.share.auto.offset.reset" = "earliest"\n' + ORDERS, "is a config of the group"),
        (WORKER + ORDERS + '"errors.deadletterqueue.topic.name" = "dlq.x"\n', "is a config of the group"),
        (WORKER + ORDERS + SHARE + '"consumer.override.auto.offset.reset" = "latest"\n', "share.auto.offset.reset"),
        (WORKER + '"consumer.max.poll.recs" = 3\n' + ORDERS, r'\[worker\] "consumer.max.poll.recs".*max.poll.records'),
        (WORKER + '"http.port" = 3\n' + ORDERS, r'\[worker\] "http.port": there is no such key'),
        (WORKER + ORDERS + "class = 'b'\n", "is not TOML"),
    ],
)
def test_bad_input_is_one_sentence_with_the_keys_path(file: Path, text: str, sentence: str) -> None:
    """File, table, key, and what to write."""
    with pytest.raises(ConfigError, match=sentence) as error:
        load(file, text)

    assert str(error.value).startswith(f"{file}")
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("key", ["retry.backoff.ms", "task.shutdown.graceful.timeout.ms"])
def test_bad_input_no_time_at_all_is_refused(file: Path, key: str) -> None:
    """R21: released at full speed a record has spent its deliveries in no time; and no consumer closes in none."""
    worker, connector = ("", f'"{key}" = 0') if key.startswith("retry") else (f'"{key}" = 0', "")

    with pytest.raises(ConfigError, match=f'"{key}": must be a whole number of milliseconds from 1 to 86400000'):
        load(
            file,
            f'[worker]\n"bootstrap.servers" = "b:1"\n{worker}\n'
            f'[connectors.a]\nclass = "files"\ntopics = "t"\n{connector}\n',
        )


def test_bad_input_the_value_of_a_sinks_setting_is_never_shown(file: Path) -> None:
    """It may be a password."""
    with pytest.raises(ConfigError) as error:
        load(file, WORKER + ORDERS + '"tasks.max" = 0\n[connectors.orders.sink]\npassword = "secret"\n')

    assert "secret" not in str(error.value)


def test_bad_input_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    """With what to check."""
    with pytest.raises(ConfigError, match=r"none\.toml: cannot be read: No such file .*; check its path"):
        load_sink_settings(tmp_path / "none.toml")

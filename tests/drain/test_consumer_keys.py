"""Which key counts, and which are refused; R numbers are those of drain.md."""

from __future__ import annotations

from itertools import product
from typing import Any

import pytest

from shareproxy.config import ConfigError
from shareproxy.drain.consumer_keys import (
    CONSUMER_KEYS,
    GROUP_CONFIGS,
    LOCK_TIMEOUT,
    REFUSED_IN_GROUP,
    REFUSED_IN_SHARE,
    ConsumeSettings,
    GroupProtocol,
    OverridePolicy,
    belongs_to_group,
    resolve,
)

PROTOCOLS = (None, "share", "consumer", "classic")


def resolved(
    worker: dict[str, Any] | None = None,
    override: dict[str, Any] | None = None,
    share: dict[str, Any] | None = None,
    policy: OverridePolicy = OverridePolicy.ALL,
) -> ConsumeSettings:
    """Resolve keys of a connector named orders."""
    return resolve(
        "orders",
        worker or {},
        override or {},
        share or {},
        policy=policy,
        bootstrap_servers="here:9092",
        command_config="own.properties",
        place=lambda origin, key: f"<{origin}> {key}",
    )


@pytest.mark.parametrize(("worker", "override"), list(product(PROTOCOLS, PROTOCOLS)))
def test_r1_the_connectors_protocol_goes_before_the_workers(worker: str | None, override: str | None) -> None:
    """In every combination; without either it is a consumer group (R2)."""
    found = resolved(
        {} if worker is None else {"group.protocol": worker}, {} if override is None else {"group.protocol": override}
    )

    assert found.protocol == (override or worker or "consumer")
    assert found.share_group == ((override or worker) == "share")


@pytest.mark.parametrize(("worker", "override", "share"), list(product((None, "w"), (None, "o"), (None, "s"))))
def test_r1_share_group_id_goes_before_the_override_and_that_before_the_worker(
    worker: str | None, override: str | None, share: str | None
) -> None:
    """In every combination; without any it is `share-NAME`."""
    found = resolved(
        {"group.protocol": "share", **({"group.id": worker} if worker else {})},
        {"group.id": override} if override else {},
        {"share.group.id": share} if share else {},
    )

    assert found.group == (share or override or worker or "share-orders")


@pytest.mark.parametrize(("worker", "override", "share"), list(product((None, "explicit", "implicit"), repeat=3)))
def test_r1_the_acknowledgement_mode_resolves_alike(
    worker: str | None, override: str | None, share: str | None
) -> None:
    """In every combination; without any it is explicit."""
    key = "share.acknowledgement.mode"
    found = resolved(
        {"group.protocol": "share", **({key: worker} if worker else {})},
        {key: override} if override else {},
        {key: share} if share else {},
    )

    assert found.acknowledgement == (share or override or worker or "explicit")


@pytest.mark.parametrize(("worker", "override"), list(product((None, 100), (None, 20))))
def test_r1_other_keys_resolve_alike(worker: int | None, override: int | None) -> None:
    """Numbers, in every combination."""
    found = resolved(
        {"group.protocol": "share", **({"max.poll.records": worker} if worker else {})},
        {"max.poll.records": override} if override else {},
    )

    assert found.max_records == (override or worker or 500)


@pytest.mark.parametrize("policy", OverridePolicy)
def test_r1_the_override_policy_is_connects(policy: OverridePolicy) -> None:
    """`None` forbids all, `Principal` all but who we are; the worker's own keys are not touched."""
    assert resolved({"group.protocol": "share"}, policy=policy).share_group
    principal = {"command.config": "other.properties"}
    if policy is OverridePolicy.ALL:
        assert resolved({}, {"group.protocol": "share"}, policy=policy).share_group
    else:
        with pytest.raises(ConfigError, match=r"<override> group\.protocol: .*override\.policy.*is " + policy.value):
            resolved({}, {"group.protocol": "share"}, policy=policy)
    if policy is OverridePolicy.NONE:
        with pytest.raises(ConfigError, match=r"<override> command\.config"):
            resolved({}, principal, policy=policy)
    else:
        assert resolved({}, principal, policy=policy).command_config == "other.properties"


def test_r2_without_a_share_key_it_is_a_consumer_group_of_connects_name() -> None:
    """Nothing changes for those who do not ask for share groups."""
    assert resolved() == ConsumeSettings(
        protocol=GroupProtocol.CONSUMER,
        group="connect-orders",
        bootstrap_servers="here:9092",
        command_config="own.properties",
    )


def test_r2_share_keys_without_share_mode_are_refused() -> None:
    """They would do nothing, without a word."""
    with pytest.raises(ConfigError, match=r'<share> share\.group\.id: is for share groups.*"share"'):
        resolved({}, {}, {"share.group.id": "g"})
    with pytest.raises(ConfigError, match=r"<worker> share\.acquire\.mode: is for share groups"):
        resolved({"share.acquire.mode": "record_limit"})


@pytest.mark.parametrize("key", REFUSED_IN_SHARE)
def test_r3_keys_that_javas_share_consumer_refuses_are_refused(key: str) -> None:
    """Wherever they stand; the sentence says what to do instead."""
    for worker, override in (({key: "earliest"}, {}), ({}, {key: "earliest"})):
        with pytest.raises(ConfigError) as error:
            resolved({"group.protocol": "share", **worker}, override)
        assert f"{key}: a share group has no use for it; {REFUSED_IN_SHARE[key]}" in str(error.value)


def test_r3_client_rack_is_taken() -> None:
    """Java's share consumer takes it too."""
    assert resolved({"group.protocol": "share", "client.rack": "a"}).client_rack == "a"


@pytest.mark.parametrize("key", REFUSED_IN_GROUP)
def test_keys_that_a_sinks_consumer_group_cannot_have_are_refused(key: str) -> None:
    """Offsets are committed by the worker alone."""
    with pytest.raises(ConfigError, match="has no use for it"):
        resolved({key: "x"})


def test_keys_of_a_consumer_group_are_kept_for_it() -> None:
    """As they were given."""
    found = resolved({"auto.offset.reset": "latest", "session.timeout.ms": "10000"})

    assert found.group_keys == {"auto.offset.reset": "latest", "session.timeout.ms": 10_000}


@pytest.mark.parametrize("key", [*GROUP_CONFIGS, LOCK_TIMEOUT])
def test_bad_input_configs_of_the_group_are_named_as_such(key: str) -> None:
    """With the command that sets them; KIP-1302's lock timeout is no key of Kafka at all."""
    for spelt in (key, f"consumer.{key}", f"consumer.override.{key}"):
        reason = belongs_to_group(spelt)
        assert reason is not None
        assert "kafka-configs.sh --entity-type groups" in reason
    assert ("share.record.lock.duration.ms" in str(belongs_to_group(key))) == (
        key in (LOCK_TIMEOUT, "share.record.lock.duration.ms")
    )


def test_bad_input_an_empty_group_is_refused() -> None:
    """Kafka would refuse it later, with less to say."""
    with pytest.raises(ConfigError, match=r"<share> share\.group\.id: is empty; name the group"):
        resolved({"group.protocol": "share"}, {}, {"share.group.id": "  "})


@pytest.mark.parametrize(
    ("key", "value", "wanted"),
    [
        ("max.poll.recrods", 1, r'did you mean "max\.poll\.records"'),
        ("zzz", 1, "known are group.protocol"),
        ("max.poll.records", 0, "whole number of records above 0"),
        ("max.poll.records", True, "whole number of records above 0"),
        ("fetch.max.bytes", "1MB", "whole number of bytes above 0"),
        ("fetch.max.wait.ms", 0.5, "whole number of milliseconds above 0"),
        ("client.id", 5, "must be text, in quotes"),
        ("group.protocol", "shared", "choose one of share, consumer, classic, not 'shared'"),
        ("share.acquire.mode", "batch", "choose one of batch_optimized, record_limit"),
    ],
)
def test_bad_input_a_wrong_key_or_value_is_named_with_what_to_write(key: str, value: Any, wanted: str) -> None:
    """And where it stands."""
    with pytest.raises(ConfigError, match=rf"<override> {key}: .*{wanted}"):
        resolved({"group.protocol": "share"}, {key: value})


def test_values_may_be_text_as_in_javas_files() -> None:
    """People copy from them."""
    found = resolved({"group.protocol": "SHARE", "fetch.max.wait.ms": "250", "share.acquire.mode": "record_limit"})

    assert (found.protocol, found.max_wait, found.acquire_mode) == (GroupProtocol.SHARE, 0.25, "record")


def test_each_key_says_what_it_is() -> None:
    """The reference shows it."""
    assert all(key.about and key.default for key in CONSUMER_KEYS.values())


def test_r4_a_wait_that_no_share_consumer_takes_is_refused_by_its_key() -> None:
    """Before a task starts; a consumer group has no such limit."""
    with pytest.raises(ConfigError, match=r"fetch\.max\.wait\.ms.*30000 at most"):
        resolved({"group.protocol": "share", "fetch.max.wait.ms": 30_001})

    assert resolved({"group.protocol": "share", "fetch.max.wait.ms": 30_000}).max_wait == 30.0
    assert resolved({"group.protocol": "consumer", "fetch.max.wait.ms": 30_001}).max_wait == 30.001

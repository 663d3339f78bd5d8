"""What aiokafka is told of a consumer of a group, and of its connections."""

from __future__ import annotations

import ssl
from pathlib import Path
from typing import Any

import pytest
from aiokafka import AIOKafkaConsumer

from shareproxy.cluster.security import PLAINTEXT, Security
from shareproxy.drain.aiokafka_settings import consumer_arguments, protocol_note, security_arguments
from shareproxy.drain.consumer_keys import CONSUMER_KEYS, ConsumeSettings, GroupProtocol


def settings(**more: Any) -> ConsumeSettings:
    """Return settings of a consumer group."""
    return ConsumeSettings(protocol=GroupProtocol.CLASSIC, group="g", bootstrap_servers="a:1,b:2", **more)


async def test_aiokafka_takes_the_arguments() -> None:
    """Each is one that it has."""
    keys = {"isolation.level": "read_committed", "group.instance.id": "node", "session.timeout.ms": 10_000}
    arguments = consumer_arguments(
        settings(group_keys=keys, client_rack="r1", max_wait=0.25), PLAINTEXT, client_id="orders-3", task=3
    )
    consumer = AIOKafkaConsumer(**arguments)
    await consumer.stop()
    assert arguments["bootstrap_servers"] == ["a:1", "b:2"]
    assert (arguments["group_instance_id"], arguments["client_rack"]) == ("node-3", "r1")
    assert (arguments["isolation_level"], arguments["session_timeout_ms"]) == ("read_committed", 10_000)
    assert (arguments["client_id"], arguments["fetch_max_wait_ms"]) == ("orders-3", 250)
    assert arguments["enable_auto_commit"] is False


def test_defaults_are_those_of_the_reference() -> None:
    """What nobody sets is what the table of keys says."""
    arguments = consumer_arguments(settings(), PLAINTEXT, client_id="c", task=0)
    for key in ("auto.offset.reset", "isolation.level", "session.timeout.ms", "heartbeat.interval.ms"):
        assert str(arguments[key.replace(".", "_")]) == CONSUMER_KEYS[key].default
    assert str(arguments["max_poll_interval_ms"]) == CONSUMER_KEYS["max.poll.interval.ms"].default
    assert "group_instance_id" not in arguments


def test_a_client_id_of_the_users_goes_before_ours() -> None:
    """As in the settings."""
    arguments = consumer_arguments(settings(client_id="mine"), PLAINTEXT, client_id="ours", task=0)
    assert arguments["client_id"] == "mine"


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-512"])
def test_a_login_with_a_password(mechanism: str) -> None:
    """Over TLS with our context."""
    security = Security("SASL_SSL", mechanism, "alice", "secret")
    arguments = security_arguments(security)
    assert arguments["sasl_mechanism"] == mechanism
    assert (arguments["sasl_plain_username"], arguments["sasl_plain_password"]) == ("alice", "secret")
    assert isinstance(arguments["ssl_context"], ssl.SSLContext)


async def test_a_login_with_a_token(tmp_path: Path) -> None:
    """It is read at each login, as for our own connections."""
    file = tmp_path / "token"
    file.write_text("first")
    arguments = security_arguments(Security("SASL_PLAINTEXT", "OAUTHBEARER", token_file=str(file)))
    assert await arguments["sasl_oauth_token_provider"].token() == "first"
    file.write_text("second")
    assert await arguments["sasl_oauth_token_provider"].token() == "second"
    assert "ssl_context" not in arguments


def test_a_login_with_kerberos() -> None:
    """The service's name is told."""
    arguments = security_arguments(Security("SASL_PLAINTEXT", "GSSAPI", kerberos_service_name="broker"))
    assert arguments["sasl_kerberos_service_name"] == "broker"
    assert "sasl_plain_password" not in arguments


def test_no_security() -> None:
    """Nothing but that."""
    assert security_arguments(PLAINTEXT) == {"security_protocol": "PLAINTEXT"}


def test_only_the_protocol_that_is_not_spoken_is_told_of() -> None:
    """`classic` is what is done."""
    assert protocol_note(GroupProtocol.CLASSIC) is None
    assert "KIP-848" in (protocol_note(GroupProtocol.CONSUMER) or "")

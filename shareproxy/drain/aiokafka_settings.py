"""Say to aiokafka how a consumer of a group is set up.

In: resolved settings, security. Out: arguments of `AIOKafkaConsumer`. Must never: let it commit by itself.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import aiokafka
from aiokafka.abc import AbstractTokenProvider

from shareproxy.cluster.oauth import read_token
from shareproxy.cluster.security import Security
from shareproxy.drain.consumer_keys import ConsumeSettings, GroupProtocol

_NAMES: Final[Mapping[str, str]] = {
    "auto.offset.reset": "auto_offset_reset",
    "isolation.level": "isolation_level",
    "session.timeout.ms": "session_timeout_ms",
    "heartbeat.interval.ms": "heartbeat_interval_ms",
    "max.poll.interval.ms": "max_poll_interval_ms",
}
# As the reference of the keys has them: a sink's new group begins with what is there, as Connect's does.
_DEFAULTS: Final[Mapping[str, str | int]] = {
    "auto_offset_reset": "earliest",
    "isolation_level": "read_uncommitted",
    "session_timeout_ms": 45_000,
    "heartbeat_interval_ms": 3_000,
    "max_poll_interval_ms": 300_000,
}


class _Tokens(AbstractTokenProvider):  # type: ignore[misc]  # aiokafka has no types
    """Give aiokafka the token that our own connections use."""

    def __init__(self, security: Security) -> None:
        self._security = security

    async def token(self) -> str:
        """Return it; asked for at each login."""
        return await read_token(self._security)


def consumer_arguments(settings: ConsumeSettings, security: Security, *, client_id: str, task: int) -> dict[str, Any]:
    """Return the arguments of an `AIOKafkaConsumer` besides its topics.

    Args:
        settings: how the connector consumes.
        security: of the connections.
        client_id: our name, where the settings have none.
        task: number of the task; a static member's name ends with it.
    """
    arguments: dict[str, Any] = {
        **_DEFAULTS,
        **{name: settings.group_keys[key] for key, name in _NAMES.items() if key in settings.group_keys},
        **security_arguments(security),
        "bootstrap_servers": settings.bootstrap_servers.split(","),
        "group_id": settings.group,
        "client_id": settings.client_id or client_id,
        "enable_auto_commit": False,
        "fetch_max_wait_ms": int(settings.max_wait * 1000),
        "fetch_max_bytes": settings.max_bytes,
        "request_timeout_ms": int(settings.request_timeout * 1000),
    }
    if "group.instance.id" in settings.group_keys:
        arguments["group_instance_id"] = f"{settings.group_keys['group.instance.id']}-{task}"
    if settings.client_rack:
        arguments["client_rack"] = settings.client_rack
    return arguments


def security_arguments(security: Security) -> dict[str, Any]:
    """Return what aiokafka has to know of connections, for its consumers and producers.

    Raises:
        PropertiesError: a certificate or key cannot be used.
    """
    arguments: dict[str, Any] = {"security_protocol": security.protocol}
    if security.tls:
        arguments["ssl_context"] = security.ssl_context()
    if security.sasl:
        arguments["sasl_mechanism"] = security.sasl_mechanism
        match security.sasl_mechanism:
            case "OAUTHBEARER":
                arguments["sasl_oauth_token_provider"] = _Tokens(security)
            case "GSSAPI":
                arguments["sasl_kerberos_service_name"] = security.kerberos_service_name
            case _:
                arguments["sasl_plain_username"] = security.username
                arguments["sasl_plain_password"] = security.password
    return arguments


def protocol_note(protocol: GroupProtocol) -> str | None:
    """Return what to tell about the protocol that was asked for; `None` if it is the one that is used.

    KIP-1302 has `consumer` for consumer groups of any protocol, and as the default: it must not be an error. aiokafka
    has the classic protocol only, and brokers let both kinds of members into one group (KIP-848), so it is used.
    """
    if protocol is not GroupProtocol.CONSUMER:
        return None
    return (
        f"group.protocol=consumer: aiokafka {aiokafka.__version__} does not have the protocol of KIP-848, the group is "
        "joined with the classic one"
    )

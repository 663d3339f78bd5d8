"""Turn the settings of an own connection into addresses and security.

In: settings. Out: what `cluster` takes. Must never: import what only the service needs; commands have to start fast.
"""

from __future__ import annotations

from dataclasses import dataclass

from shareproxy.cluster.addresses import Address, parse_addresses
from shareproxy.cluster.security import PLAINTEXT, Security
from shareproxy.config import ConfigError, Settings


def bootstrap_addresses(settings: Settings) -> tuple[Address, ...]:
    """Return the brokers to ask first.

    Raises:
        ConfigError: the setting is not `HOST:PORT[,HOST:PORT…]`.
    """
    return _addresses("bootstrap_server", settings.bootstrap_server)


def one_address(key: str, text: str) -> Address:
    """Return the address that a setting holds.

    Args:
        key: the setting, for the error.

    Raises:
        ConfigError: it is not one `HOST:PORT`.
    """
    if ":" not in text:  # a port alone, or a host alone: which one, nobody can tell
        raise ConfigError(f"{key}: {text!r} is not HOST:PORT; write for instance 127.0.0.1:19092")
    addresses = _addresses(key, text)
    if len(addresses) != 1:
        raise ConfigError(f"{key}: one HOST:PORT is wanted, not {len(addresses)}")
    return addresses[0]


@dataclass(frozen=True, slots=True)
class OwnConnection:
    """How our own connections are made.

    Args:
        notes: sentences about what the property file says and we do not use.
    """

    security: Security
    client_id: str
    notes: tuple[str, ...] = ()


def own_connection(settings: Settings) -> OwnConnection:
    """Return how our own connections are made: the Java property file's way, or without security.

    Raises:
        PropertiesError: the file cannot be read or contradicts itself.
    """
    if not settings.command_config:
        return OwnConnection(PLAINTEXT, settings.client_id)
    from shareproxy.cluster.properties import read_client_properties

    properties = read_client_properties(settings.command_config)
    client_id = properties.client_id if settings.client_id == Settings().client_id else None
    notes = tuple(f"{settings.command_config}: not used here: {note}" for note in properties.ignored)
    return OwnConnection(properties.security, client_id or settings.client_id, notes)


def _addresses(key: str, text: str) -> tuple[Address, ...]:
    try:
        return parse_addresses(text)
    except ValueError as error:
        raise ConfigError(f"{key}: {error}") from None

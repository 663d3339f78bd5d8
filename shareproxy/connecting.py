"""Turn the settings of an own connection into addresses and security.

In: settings. Out: what `cluster` takes. Must never: import what only the service needs; commands have to start fast.
"""

from __future__ import annotations

from typing import Final

from shareproxy.cluster.addresses import Address, parse_addresses, parse_own_address
from shareproxy.cluster.own_connection import OwnConnection, connection_from_file
from shareproxy.config import ConfigError, Settings

_USUAL_PORTS: Final = {"listen": 19_092, "http": 9_464}


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
    try:
        return parse_own_address(text, _USUAL_PORTS.get(key, 9_092))
    except ValueError as error:
        raise ConfigError(f"{key}: {error}") from None


def own_connection(settings: Settings) -> OwnConnection:
    """Return how our own connections are made: the Java property file's way, or without security.

    Raises:
        PropertiesError: the file cannot be read or contradicts itself.
    """
    return connection_from_file(settings.command_config, settings.client_id, default_client_id=Settings().client_id)


def _addresses(key: str, text: str) -> tuple[Address, ...]:
    try:
        return parse_addresses(text)
    except ValueError as error:
        raise ConfigError(f"{key}: {error}") from None

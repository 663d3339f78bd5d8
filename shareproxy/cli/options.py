"""Flags that several commands share, spelled as in Kafka's own tools."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from typing import Any, Final, TypeVar

import click

from shareproxy.config import ConfigError, Settings, load_settings

CONFIG_VARIABLE: Final = "SHAREPROXY_CONFIG"
OUTPUTS: Final = ("table", "json", "csv")
LAG_SOURCES: Final = ("auto", "broker", "summary", "batches")

F = TypeVar("F", bound=Callable[..., Any])
Decorator = Callable[[F], F]

lag_source_option: Final = click.option(
    "--lag-source", type=click.Choice(LAG_SOURCES), help="Take lag from this source only.  [default: auto]"
)
timeout_option: Final = click.option(
    "--timeout", type=float, metavar="SECONDS", help="How long to wait for the cluster.  [default: 10]"
)
_CONNECTION: Final = (
    click.option("--bootstrap-server", metavar="HOST:PORT[,…]", help="Brokers to ask first."),
    click.option("--command-config", metavar="FILE", help="Java client property file."),
    click.option("--config", metavar="FILE", help="TOML file with settings."),
)


def connection_options(command: F) -> F:
    """Add the flags that say which cluster is meant and how to reach it."""
    for option in reversed(_CONNECTION):
        command = option(command)
    return command


def settings_from(config: str | None, flags: Mapping[str, object]) -> Settings:
    """Merge flags over environment over file.

    Args:
        config: path given to --config, if any.
        flags: values by setting; `None` means not given.

    Raises:
        ConfigError: something is wrong, or no broker is named.
    """
    settings = load_settings(config or os.environ.get(CONFIG_VARIABLE) or None, os.environ, flags)
    if not settings.bootstrap_server:
        raise ConfigError(
            "no broker is named; give --bootstrap-server HOST:PORT, set SHAREPROXY_BOOTSTRAP_SERVER, "
            "or put bootstrap_server into the file of --config"
        )
    return settings

"""Flags that several commands share, spelled as in Kafka's own tools."""

from __future__ import annotations

import os
from collections.abc import Mapping
from enum import StrEnum
from typing import Annotated, Final

import typer

from shareproxy.config import ConfigError, Settings, load_settings


class Output(StrEnum):
    """Form of the data on stdout."""

    table = "table"
    json = "json"
    csv = "csv"


class Source(StrEnum):
    """Where lag is taken from."""

    auto = "auto"
    broker = "broker"
    summary = "summary"
    batches = "batches"


BootstrapServer = Annotated[
    str | None,
    typer.Option("--bootstrap-server", metavar="HOST:PORT[,…]", help="Brokers to ask first.", show_default=False),
]
CommandConfig = Annotated[
    str | None,
    typer.Option("--command-config", metavar="FILE", help="Java client property file.", show_default=False),
]
ConfigFile = Annotated[
    str | None,
    typer.Option("--config", metavar="FILE", help="TOML file with settings.", show_default=False),
]
LagSource = Annotated[
    Source | None,
    typer.Option("--lag-source", help="Take lag from this source only.", show_default="auto"),
]
Timeout = Annotated[
    float | None,
    typer.Option("--timeout", metavar="SECONDS", help="How long to wait for the cluster.", show_default="10"),
]
CONFIG_VARIABLE: Final = "SHAREPROXY_CONFIG"


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

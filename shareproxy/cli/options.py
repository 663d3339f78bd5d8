"""Flags that several commands share, spelled as in Kafka's own tools."""

from __future__ import annotations

import functools
import math
import os
import re
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeVar

import click

from shareproxy.config import ConfigError, Settings, load_settings

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

CONFIG_VARIABLE: Final = "SHAREPROXY_CONFIG"
OUTPUTS: Final = ("table", "json", "csv")
LAG_SOURCES: Final = ("auto", "broker", "summary", "batches")

R = TypeVar("R")


class Seconds(click.FloatRange):
    """A number of seconds; click's own range lets NaN pass, and nothing is ever later than NaN, or than infinity."""

    name = "number of seconds"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Return the number.

        Raises:
            click.BadParameter: it is none, or out of range.
        """
        number = super().convert(value, param, ctx)
        if not math.isfinite(number):
            self.fail(f"{value!r} is not a number of seconds; write for instance 30", param, ctx)
        return number


lag_source_option: Final = click.option(
    "--lag-source", type=click.Choice(LAG_SOURCES), help="Take lag from this source only.  [default: auto]"
)
timeout_option: Final = click.option(
    "--timeout", type=float, metavar="SECONDS", help="How long to wait for the cluster.  [default: 3]"
)
_CONNECTION: Final = (
    click.option("--bootstrap-server", metavar="HOST:PORT[,…]", help="Brokers to ask first."),
    click.option("--command-config", metavar="FILE", help="Java client property file."),
    click.option("--config", metavar="FILE", help="TOML file with settings."),
)


def complete_groups(context: click.Context, parameter: click.Parameter, typed: str) -> list[CompletionItem]:
    """Complete the name of a share group; costs nothing unless a shell asks for it."""
    from shareproxy.cli.completion import group_names

    return group_names(context, parameter, typed)


def complete_topics(context: click.Context, parameter: click.Parameter, typed: str) -> list[CompletionItem]:
    """Complete the name of a topic; costs nothing unless a shell asks for it."""
    from shareproxy.cli.completion import topic_names

    return topic_names(context, parameter, typed)


class Connection(NamedTuple):
    """What the flags say of the cluster; `None` where one was not given."""

    bootstrap_server: str | None
    command_config: str | None
    config: str | None

    def settings(self, flags: Mapping[str, object]) -> Settings:
        """Merge these and other flags over environment over file; see `settings_from`."""
        own = {"bootstrap_server": self.bootstrap_server, "command_config": self.command_config}
        return settings_from(self.config, {**own, **flags})


def connection_options(command: Callable[..., R]) -> Callable[..., R]:
    """Add the flags that say which cluster is meant and how to reach it; the command gets them as `connection`."""

    @functools.wraps(command)
    def connected(
        *, bootstrap_server: str | None, command_config: str | None, config: str | None, **others: object
    ) -> R:
        return command(connection=Connection(bootstrap_server, command_config, config), **others)

    for option in reversed(_CONNECTION):
        connected = option(connected)
    return connected


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


def topic_selection(topics: Sequence[str]) -> dict[str, list[int] | None] | None:
    """Read the values of a `--topic T[:0,1]` that may be repeated.

    Returns:
        Partitions by topic, `None` for all of a topic's; `None` where nothing was given.

    Raises:
        ConfigError: a value is neither `T` nor `T:0,1`.
    """
    chosen: dict[str, list[int] | None] = {}
    for text in topics:
        topic, colon, listed = text.partition(":")
        if not topic or (colon and not re.fullmatch(r"\d+(,\d+)*", listed)):
            raise ConfigError(f"--topic: {text!r} is not a topic; write orders, or orders:0,1 for two partitions")
        before = chosen.get(topic, [])
        if not colon or before is None:
            chosen[topic] = None
        else:
            chosen[topic] = sorted({*before, *map(int, listed.split(","))})
    return chosen or None

"""`shareproxy sink`: bring the records of topics to sinks, in as many processes as it takes, until told to stop.

In: a `sink.toml`. Out: records in the sinks; with --check one line for each connector.
Must never: take a record before everything that can be checked was.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

import click

from shareproxy.cli.failures import ExitCode, say, with_exit_code

if TYPE_CHECKING:
    from shareproxy.drain.sink_config import SinkSettings

CONFIG_VARIABLE: Final = "SHAREPROXY_SINK_CONFIG"


@click.command()
@click.option(
    "--config", metavar="FILE", envvar=CONFIG_VARIABLE, help=f"TOML file with connectors.  [env: {CONFIG_VARIABLE}]"
)
@click.option("--bootstrap-server", metavar="HOST:PORT[,…]", help="Brokers to ask first, instead of the file's.")
@click.option("--command-config", metavar="FILE", help="Java client property file, instead of the file's.")
@click.option("--check", is_flag=True, help="Check the file and the cluster, take no record.")
@with_exit_code
def sink(config: str | None, bootstrap_server: str | None, command_config: str | None, check: bool) -> ExitCode:
    """Bring records of share groups or consumer groups to sinks (KIP-1302).

    Each task of a connector is a member of its group; more tasks, here or in other processes, drain it faster.
    SIGTERM or Ctrl-C ends it in order: what is being put is finished, the rest is given back.
    """
    from shareproxy.config import ConfigError

    if not config:
        raise ConfigError(f"no file is named; give --config sink.toml, or set {CONFIG_VARIABLE}")
    from shareproxy.drain.sink_config import load_sink_settings

    settings = load_sink_settings(config, bootstrap_servers=bootstrap_server or "", command_config=command_config or "")
    return asyncio.run(_check(settings)) if check else _run(settings)


async def _check(settings: SinkSettings) -> ExitCode:
    from shareproxy.drain.sink_parts import BrokerParts
    from shareproxy.drain.worker import SinkWorker

    parts = BrokerParts(exactly_once=settings.worker.exactly_once)
    try:
        for note in settings.notes:
            say(note)
        lines = await SinkWorker(settings, parts).check()
        for connector in settings.connectors:
            await parts.look_ahead(connector)
        for line in lines:
            click.echo(line)
    finally:
        await parts.close()
    return ExitCode.DONE


def _run(settings: SinkSettings) -> ExitCode:
    from shareproxy.config import Settings
    from shareproxy.drain.sink_parts import BrokerParts
    from shareproxy.drain.worker import SinkWorker
    from shareproxy.lifecycle import live, run

    unclean: list[str] = []

    async def main() -> None:
        parts = BrokerParts(exactly_once=settings.worker.exactly_once, stop_timeout=settings.stop_timeout)
        worker = SinkWorker(settings, parts)
        try:
            await live(worker)
        finally:
            unclean.extend(worker.unclean)

    run(Settings(log=settings.log), main)
    for sentence in unclean:
        say(sentence)
    return ExitCode.NO if unclean else ExitCode.DONE

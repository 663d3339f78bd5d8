"""`shareproxy serve`: the proxy, until it is told to stop."""

from __future__ import annotations

from typing import Annotated

import typer

from shareproxy.cli.failures import ExitCode, with_exit_code
from shareproxy.cli.options import BootstrapServer, CommandConfig, ConfigFile, LagSource, settings_from


@with_exit_code
def serve(
    bootstrap_server: BootstrapServer = None,
    listen: Annotated[
        str | None,
        typer.Option(metavar="HOST:PORT", help="Bootstrap port for clients.", show_default="127.0.0.1:19092"),
    ] = None,
    advertised_host: Annotated[
        str | None,
        typer.Option(metavar="HOST", help="Host name that clients are told.", show_default="the host of --listen"),
    ] = None,
    node_ports: Annotated[
        str | None,
        typer.Option(metavar="LO-HI", help="Ports for the brokers; LO is node id 0.", show_default="19100-19163"),
    ] = None,
    http: Annotated[
        str | None,
        typer.Option(metavar="HOST:PORT", help="Health probes /livez and /readyz.", show_default="off"),
    ] = None,
    command_config: CommandConfig = None,
    config: ConfigFile = None,
    lag_source: LagSource = None,
    log_level: Annotated[
        str | None, typer.Option(metavar="LEVEL", help="debug, info, warning or error.", show_default="info")
    ] = None,
) -> ExitCode:
    """Serve a cluster's clients, with the lag of share groups filled in.

    Point any Kafka client at --listen instead of the brokers. SIGTERM or Ctrl-C ends it.
    """
    settings = settings_from(
        config,
        {
            "bootstrap_server": bootstrap_server,
            "listen": listen,
            "advertised_host": advertised_host,
            "node_ports": node_ports,
            "http": http,
            "command_config": command_config,
            "lag_source": lag_source,
            "log.level": log_level,
        },
    )
    from shareproxy.service import serve_until_stopped

    serve_until_stopped(settings)
    return ExitCode.DONE

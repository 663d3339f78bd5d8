"""`shareproxy serve`: the proxy, until it is told to stop."""

from __future__ import annotations

import click

from shareproxy.cli.failures import ExitCode, say, with_exit_code
from shareproxy.cli.options import Connection, connection_options, lag_source_option
from shareproxy.config import Settings


@click.command()
@connection_options
@click.option("--listen", metavar="HOST:PORT", help="Bootstrap port for clients.  [default: 127.0.0.1:19092]")
@click.option(
    "--advertised-host", metavar="HOST", help="Host name that clients are told.  [default: the host of --listen]"
)
@click.option("--node-ports", metavar="LO-HI", help="Ports for the brokers.  [default: 19100-19163]")
@click.option("--node-ids", metavar="IDS", help="Node ids in the order of their ports, as 1-3,1000.  [default: 0-…]")
@click.option("--tls-certificate", metavar="FILE", help="PEM file: speak TLS with clients; SIGHUP reads it again.")
@click.option("--tls-key", metavar="FILE", help="PEM file with its key, if that is not in the same file.")
@click.option(
    "--node-hosts", metavar="PATTERN", help="With TLS: one port and a host name per node, as b{node_id}.kafka.example."
)
@click.option("--workers", metavar="N", help="Processes that serve clients at the same ports.  [default: 1]")
@click.option("--event-loop", metavar="NAME", help="auto, uvloop or asyncio.  [default: auto]")
@click.option("--http", metavar="HOST:PORT", help="Metrics, JSON and health probes.  [default: off]")
@lag_source_option
@click.option("--sink", metavar="FILE", help="A sink.toml whose connectors run in this process.  [default: none]")
@click.option("--log-level", metavar="LEVEL", help="debug, info, warning or error.  [default: info]")
@with_exit_code
def serve(
    connection: Connection,
    listen: str | None,
    advertised_host: str | None,
    node_ports: str | None,
    node_ids: str | None,
    tls_certificate: str | None,
    tls_key: str | None,
    node_hosts: str | None,
    workers: str | None,
    event_loop: str | None,
    http: str | None,
    lag_source: str | None,
    sink: str | None,
    log_level: str | None,
) -> ExitCode:
    """Serve a cluster's clients, with the lag of share groups filled in.

    Point any Kafka client at --listen instead of the brokers. SIGTERM or Ctrl-C ends it, SIGHUP reads the settings
    again.
    """
    flags = {
        "listen": listen,
        "advertised_host": advertised_host,
        "node_ports": node_ports,
        "node_ids": node_ids,
        "tls.certificate": tls_certificate,
        "tls.key": tls_key,
        "node_hosts": node_hosts,
        "workers": workers,
        "event_loop": event_loop,
        "http": http,
        "lag_source": lag_source,
        "sink": sink,
        "log.level": log_level,
    }
    settings = connection.settings(flags)

    def reread() -> Settings:
        return connection.settings(flags)

    if settings.workers > 1:
        from shareproxy.workers.serve import WorkersError, serve_with_workers

        try:
            serve_with_workers(settings, reread)
        except WorkersError as error:
            say(str(error))
            return ExitCode.NO
    else:
        from shareproxy.service import serve_until_stopped

        serve_until_stopped(settings, reread)
    return ExitCode.DONE

"""`shareproxy exporter`: metrics and JSON of share groups, until it is told to stop."""

from __future__ import annotations

import click

from shareproxy.cli.failures import ExitCode, with_exit_code
from shareproxy.cli.options import Connection, connection_options, lag_source_option, timeout_option


@click.command()
@connection_options
@click.option("--http", metavar="HOST:PORT", help="Address of /metrics and /api/v1.  [default: 127.0.0.1:9464]")
@click.option("--interval", metavar="SECONDS", help="From one look at the cluster to the next.  [default: 15]")
@click.option("--stale-after", metavar="N", help="Show nothing after so many intervals without a look.  [default: 4]")
@click.option("--include-groups", metavar="REGEX", help="Only groups whose whole name matches.  [default: all]")
@click.option("--exclude-groups", metavar="REGEX", help="Not these.")
@click.option("--include-topics", metavar="REGEX", help="Only topics whose whole name matches.  [default: all]")
@click.option("--exclude-topics", metavar="REGEX", help="Not these.")
@click.option("--internal-topics", is_flag=True, default=None, help="Show Kafka's own topics too.")
@click.option("--granularity", metavar="WHAT", help="Series per partition, topic or group.  [default: partition]")
@click.option("--visible", metavar="WHAT", help="Look closer: off, offsets or all.  [default: off]")
@click.option("--cluster-label", metavar="NAME", help="Label `cluster` on each series of Kafka.  [default: none]")
@lag_source_option
@timeout_option
@click.option("--sink", metavar="FILE", help="A sink.toml whose connectors run in this process.  [default: none]")
@click.option("--log-level", metavar="LEVEL", help="debug, info, warning or error.  [default: info]")
@with_exit_code
def exporter(
    connection: Connection,
    http: str | None,
    interval: str | None,
    stale_after: str | None,
    include_groups: str | None,
    exclude_groups: str | None,
    include_topics: str | None,
    exclude_topics: str | None,
    internal_topics: bool | None,
    granularity: str | None,
    visible: str | None,
    cluster_label: str | None,
    lag_source: str | None,
    timeout: float | None,
    sink: str | None,
    log_level: str | None,
) -> ExitCode:
    """Serve the lag of share groups as Prometheus metrics and as JSON.

    The cluster is looked at in the background; a scrape is answered from memory, and what is too old is not
    shown. SIGTERM or Ctrl-C ends it.
    """
    settings = connection.settings(
        {
            "http": http,
            "exporter.interval": interval,
            "exporter.stale_after": stale_after,
            "exporter.include_groups": include_groups,
            "exporter.exclude_groups": exclude_groups,
            "exporter.include_topics": include_topics,
            "exporter.exclude_topics": exclude_topics,
            "exporter.internal_topics": internal_topics,
            "exporter.granularity": granularity,
            "exporter.visible": visible,
            "exporter.cluster_label": cluster_label,
            "lag_source": lag_source,
            "timeout": timeout,
            "sink": sink,
            "log.level": log_level,
        }
    )
    from shareproxy.service import export_until_stopped

    export_until_stopped(settings)
    return ExitCode.DONE

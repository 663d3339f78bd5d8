"""`shareproxy doctor`: what works on this cluster, what does not, and why."""

from __future__ import annotations

import click

from shareproxy.cli.failures import ExitCode, with_exit_code
from shareproxy.cli.options import connection_options, timeout_option


@click.command()
@connection_options
@timeout_option
@with_exit_code
def doctor(
    bootstrap_server: str | None, command_config: str | None, config: str | None, timeout: float | None
) -> ExitCode:
    """Check the cluster: reachable, versions, rights, and which sources of lag work."""
    return ExitCode.DONE

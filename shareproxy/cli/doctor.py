"""`shareproxy doctor`: what works on this cluster, what does not, and why."""

from __future__ import annotations

from typing import Annotated

import typer

from shareproxy.cli.failures import ExitCode, with_exit_code
from shareproxy.cli.options import (
    BootstrapServer,
    CommandConfig,
    ConfigFile,
    Timeout,
)


@with_exit_code
def doctor(
    group: Annotated[
        str | None, typer.Option("--group", metavar="GROUP", help="Also look at this group.", show_default=False)
    ] = None,
    bootstrap_server: BootstrapServer = None,
    command_config: CommandConfig = None,
    config: ConfigFile = None,
    timeout: Timeout = None,
) -> ExitCode:
    """Check the cluster: reachable, versions, rights, and which sources of lag work.

    Exit code 0: lag can be had; 1: it cannot, the lines say why; 3: no broker answers; 4: not authorised.
    """
    return ExitCode.DONE

"""The `shareproxy` command: names the subcommands and starts the one that is asked for."""

from __future__ import annotations

import click

from shareproxy.cli.demo import demo
from shareproxy.cli.doctor import doctor
from shareproxy.cli.lag import lag
from shareproxy.cli.serve import serve
from shareproxy.version import __version__


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, message="shareproxy %(version)s")
def app() -> None:
    """Share-group lag for every Kafka client."""


for command in (serve, lag, doctor, demo):
    app.add_command(command)


def main() -> None:
    """Parse the arguments and run the command."""
    app(prog_name="shareproxy")

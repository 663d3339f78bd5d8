"""The `shareproxy` command: names the subcommands and starts the one that is asked for."""

from __future__ import annotations

from typing import Annotated

import typer

from shareproxy.cli.demo import demo
from shareproxy.cli.doctor import doctor
from shareproxy.cli.lag import lag
from shareproxy.cli.serve import serve
from shareproxy.version import __version__

# rich's help and tracebacks cost 80 ms at start and box in what a person wants to copy
app = typer.Typer(
    name="shareproxy",
    help="Share-group lag for every Kafka client.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _print_version(wanted: bool) -> None:
    if wanted:
        print(f"shareproxy {__version__}")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    """Share-group lag for every Kafka client."""


app.command()(serve)
app.command()(lag)
app.command()(doctor)
app.command()(demo)


def main() -> None:
    """Run the command line; the console script calls this."""
    app()

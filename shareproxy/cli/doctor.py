"""`shareproxy doctor`: what works on this cluster, what does not, and why."""

from __future__ import annotations

import asyncio
import sys
from typing import TYPE_CHECKING

import click

from shareproxy.cli.failures import ExitCode, with_exit_code
from shareproxy.cli.options import connection_options, settings_from, timeout_option

if TYPE_CHECKING:
    from shareproxy.cluster.cluster import Cluster
    from shareproxy.lag.doctor import Explanation
    from shareproxy.lag.engine import LagEngine


@click.command()
@click.option("--group", metavar="GROUP", help="Ask in the name of this group; rights may differ by group.")
@click.option("-o", "--output", type=click.Choice(["text", "json"]), default="text", help="Form of the answer.")
@connection_options
@timeout_option
@with_exit_code
def doctor(
    group: str | None,
    output: str,
    bootstrap_server: str | None,
    command_config: str | None,
    config: str | None,
    timeout: float | None,
) -> ExitCode:
    """Check a cluster: reachable, versions, rights, and which sources of lag work.

    Nothing is changed, and no group's state is read.

    Exit code 0: lag can be known; 1: it cannot, or a broker is out of reach; 3: no broker answers;
    4: the brokers refuse us.
    """
    settings = settings_from(
        config, {"bootstrap_server": bootstrap_server, "command_config": command_config, "timeout": timeout}
    )
    from shareproxy.cli.connect import ask_engine
    from shareproxy.lag.doctor import NOBODYS_GROUP, explain
    from shareproxy.protocol.ids import GroupId

    async def examine(_: LagEngine, cluster: Cluster) -> Explanation:
        deadline = asyncio.get_running_loop().time() + settings.timeout
        return await explain(cluster, deadline=deadline, group=GroupId(group) if group else NOBODYS_GROUP)

    found = ask_engine(settings, examine)
    if output == "json":
        print_json(found)
    else:
        print_text(found)
    reached = all(broker.problem is None for broker in found.brokers)
    return ExitCode.DONE if found.works and reached else ExitCode.NO


def print_json(found: Explanation) -> None:
    """Print what was found as one JSON object."""
    import msgspec

    sys.stdout.write(msgspec.json.format(msgspec.json.encode(found), indent=2).decode() + "\n")


def print_text(found: Explanation) -> None:
    """Print a line per finding, good ones and bad ones marked."""
    print(f"cluster {found.cluster_id}: {len(found.brokers)} broker{'s' if len(found.brokers) != 1 else ''}")
    for broker in found.brokers:
        where = f"broker {broker.node_id} at {broker.host}:{broker.port}"
        if broker.problem is not None:
            print(_line(False, f"{where}: {broker.problem}"))
            continue
        spoken = ", ".join(f"{name} {'-' if top is None else f'v{top}'}" for name, top in broker.versions.items())
        print(_line(True, f"{where}: {spoken}"))
    level = "the brokers do not say" if found.share_version is None else f"share.version is {found.share_version}"
    print(_line(found.share_groups, f"share groups are {_word(found.share_groups, 'on', 'off')}: {level}"))
    right = _word(found.cluster_action, "there", "missing")
    print(_line(found.cluster_action, f"the right to read share-group state (CLUSTER_ACTION) is {right}"))
    for check in found.sources:
        print(_line(check.works, f"--lag-source {check.source.value}: {check.sentence}"))
    for note in found.notes:
        print(_line(None, note))
    print("lag can be known here" if found.works else "lag cannot be known here; the lines above say why")


def _line(good: bool | None, text: str) -> str:
    return f"  {_word(good, '[ok]', '[no]', '[??]')} {text}"


def _word(value: bool | None, yes: str, no: str, unknown: str = "unknown") -> str:
    return unknown if value is None else yes if value else no

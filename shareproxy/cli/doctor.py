"""`shareproxy doctor`: what works on this cluster, what does not, and why."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import click

from shareproxy.cli.failures import ExitCode, with_exit_code
from shareproxy.cli.options import Connection, connection_options, timeout_option

if TYPE_CHECKING:
    from collections.abc import Sequence

    from shareproxy.cluster.cluster import Cluster
    from shareproxy.lag.doctor import Explanation
    from shareproxy.lag.rights import TopicRights


@click.command()
@click.option("--group", metavar="GROUP", help="Ask in the name of this group; rights may differ by group.")
@click.option("--topic", "topics", multiple=True, metavar="T", help="Check the rights on this topic; may be repeated.")
@click.option("-o", "--output", type=click.Choice(["text", "json"]), default="text", help="Form of the answer.")
@connection_options
@timeout_option
@with_exit_code
def doctor(
    group: str | None,
    topics: tuple[str, ...],
    output: str,
    connection: Connection,
    timeout: float | None,
) -> ExitCode:
    """Check a cluster: reachable, versions, rights, and which sources of lag work.

    Nothing is changed, and no group's state is read. A closer look (`lag --visible`, `describe`) also needs READ on the
    topics: name them with --topic.

    Exit code 0: lag can be known; 1: it cannot, a broker is out of reach, or a topic is hidden; 3: no broker answers;
    4: the brokers refuse us.
    """
    settings = connection.settings({"timeout": timeout})
    from shareproxy.cli.connect import ask_cluster
    from shareproxy.lag.doctor import NOBODYS_GROUP, explain
    from shareproxy.lag.rights import topic_rights
    from shareproxy.protocol.ids import GroupId

    async def examine(cluster: Cluster) -> tuple[Explanation, tuple[TopicRights, ...]]:
        deadline = asyncio.get_running_loop().time() + settings.timeout
        found = await explain(cluster, deadline=deadline, group=GroupId(group) if group else NOBODYS_GROUP)
        return found, await topic_rights(cluster, topics, deadline=deadline) if topics else ()

    found, rights = ask_cluster(settings, examine)
    if output == "json":
        print_json(found, rights)
    else:
        print_text(found, rights)
    reached = all(broker.problem is None for broker in found.brokers)
    seen = all(right.describe is not False and right.exists for right in rights)
    return ExitCode.DONE if found.works and reached and seen else ExitCode.NO


def print_json(found: Explanation, rights: Sequence[TopicRights]) -> None:
    """Print what was found as one JSON object."""
    import msgspec

    from shareproxy.cli import documents

    documents.print_json({**msgspec.to_builtins(found), "topics": rights})


def print_text(found: Explanation, rights: Sequence[TopicRights]) -> None:
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
    for topic in rights:
        print(_line(topic.exists and topic.read, _topic_sentence(topic)))
    for note in found.notes:
        print(_line(None, note))
    print("lag can be known here" if found.works else "lag cannot be known here; the lines above say why")


def _topic_sentence(right: TopicRights) -> str:
    """Say what can be seen of a topic, and what to grant for more."""
    if not right.exists:
        return f"topic {right.topic}: does not exist; check its name, or DESCRIBE on it"
    if right.describe is False:
        return f"topic {right.topic}: hidden; grant DESCRIBE on it, and READ for a closer look"
    if right.read is None:
        return f"topic {right.topic}: can be seen; the brokers do not tell whether it can be read"
    if right.read:
        return f"topic {right.topic}: can be read, so a closer look shows everything"
    return (
        f"topic {right.topic}: can be seen, but not read; for a closer look grant READ, as in kafka-acls --add "
        f"--allow-principal User:NAME --operation Read --topic {right.topic}"
    )


def _line(good: bool | None, text: str) -> str:
    return f"  {_word(good, '[ok]', '[no]', '[??]')} {text}"


def _word(value: bool | None, yes: str, no: str, unknown: str = "unknown") -> str:
    return unknown if value is None else yes if value else no

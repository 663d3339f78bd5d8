"""Names of groups at the Tab key, from a real cluster."""

from __future__ import annotations

import subprocess
import sys

import pytest

from shareproxy.testing.driver import ShareDriver
from shareproxy.testing.kafka import LocalKafka
from tests.support.command import clean_environment
from tests.support.real_kafka import VERSIONS

# what differs between versions lies below
pytestmark = pytest.mark.parametrize("kafka_version", VERSIONS[-1:], indirect=True, scope="session")

# A command with the names of groups, as the shell runs it for each press of the Tab key; here it may take its time.
COMMAND = """
import click
from shareproxy.cli import completion
completion.ASK_SECONDS = completion.GIVE_UP_SECONDS = 30.0
@click.command()
@click.argument("groups", nargs=-1, shell_complete=completion.group_names)
def command(groups): pass
command(prog_name="shareproxy")
"""


def test_names_of_groups_are_offered(kafka: LocalKafka, driver: ShareDriver, topic: str, group: str) -> None:
    """Those that begin as typed."""
    driver.create_topic(topic)
    driver.share_consume(group, [topic], timeout=1.0)
    typed = {"COMP_WORDS": f"shareproxy {group[:-1]}", "COMP_CWORD": "1", "_SHAREPROXY_COMPLETE": "bash_complete"}
    done = subprocess.run(
        [sys.executable, "-c", COMMAND],
        capture_output=True,
        text=True,
        check=False,
        env={**clean_environment(), **typed, "SHAREPROXY_BOOTSTRAP_SERVER": kafka.bootstrap_servers},
        timeout=60,
    )
    assert f"plain,{group}" in done.stdout.splitlines()
    assert done.stderr == ""

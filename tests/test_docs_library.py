"""The examples of the library's guide run, and print what the guide says."""

from __future__ import annotations

import contextlib
import io
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import shareproxy
from shareproxy.admin import errors
from shareproxy.testing import SimulatedCluster

GUIDE = (Path(__file__).parent.parent / "docs" / "library.md").read_text(encoding="utf-8")
EXAMPLES = re.findall(r"^## ([^\n]+)$|^```python\n(.*?)^```\n```text\n(.*?)^```$", GUIDE, re.MULTILINE | re.DOTALL)


def examples() -> Iterator[object]:
    """Return code and output of each example, under the heading it stands below."""
    heading = ""
    for found, code, output in EXAMPLES:
        heading = found or heading
        if code:
            yield pytest.param(code, output, id=heading)


@pytest.fixture
def cluster(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[SimulatedCluster]:
    """The cluster that the guide talks about."""
    (tmp_path / "client.properties").write_text("security.protocol=PLAINTEXT\n")
    monkeypatch.chdir(tmp_path)
    with SimulatedCluster() as cluster:
        cluster.create_topic("orders", 2)
        cluster.produce("orders", [0, 1], 100)
        cluster.set_share_state("order-workers", "orders", 0, start_offset=40, delivery_complete_count=10)
        cluster.set_share_state("order-workers", "orders", 1, start_offset=10, delivery_complete_count=0)
        cluster.create_topic("mails", 1)
        cluster.set_group_config("mail-workers", {"share.auto.offset.reset": "earliest"})
        cluster.join("mail-workers", ["mails"], client_id="mailer-1")
        cluster.create_topic("payments", 1)
        cluster.produce("payments", 0, 5)
        cluster.commit_offsets("billing", {"payments": {0: 5}})
        cluster.produce_transaction("payments", 0, 2, commit=False)
        yield cluster


@pytest.mark.parametrize(("code", "output"), list(examples()))
def test_an_example_prints_what_the_guide_says(code: str, output: str, cluster: SimulatedCluster) -> None:
    """Each stands for itself."""
    printed = io.StringIO()

    with contextlib.redirect_stdout(printed):
        exec(compile(code.replace("localhost:9092", cluster.bootstrap_servers), "library.md", "exec"), {})

    assert printed.getvalue() == output


def test_every_python_block_is_an_example() -> None:
    """None is left out because its output is missing."""
    assert len(list(examples())) == GUIDE.count("```python")


def test_each_exception_is_explained() -> None:
    """The table names every one, and no other."""
    documented = set(re.findall(r"^\| `([A-Z]\w+)` \|", GUIDE, re.MULTILINE))

    assert documented == {name for name in shareproxy.__all__ if isinstance(getattr(errors, name, None), type)}

"""The pages about sinks agree with the code, and their example runs."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path

import pytest

from shareproxy.cli.failures import ExitCode
from shareproxy.drain.consumer_keys import CONSUMER_KEYS
from shareproxy.drain.sink_config import load_sink_settings
from shareproxy.drain.sink_keys import connector_keys, worker_keys
from shareproxy.drain.sink_metrics import LABELLED, PREFIX, SINK_METRICS, SinkMetric
from shareproxy.drain.sink_parts import BrokerParts
from shareproxy.drain.worker import SinkWorker
from shareproxy.testing.simulated import SimulatedCluster

DOCS = Path(__file__).parent.parent / "docs"
SECTION = (DOCS / "reference.md").read_text(encoding="utf-8").partition("## Sink worker")[2].partition("\n## ")[0]
PAGE = (DOCS / "how-to" / "run-a-sink.md").read_text(encoding="utf-8")


def table(title: str) -> dict[str, list[str]]:
    """Return the rows of the table that follows some words: first cell → the others."""
    rows: dict[str, list[str]] = {}
    for line in SECTION.partition(title)[2].lstrip("\n").splitlines():
        if line.startswith("| `"):
            cells = [cell.strip() for cell in line.strip("|").split(" | ")]
            rows[cells[0].strip("`")] = cells[1:]
        elif rows and not line.startswith("|"):
            break
    return rows


def shown(default: object) -> str:
    """Return a default as the page shows it."""
    return f"`{str(default).lower() if isinstance(default, bool) else default}`"


@pytest.mark.parametrize(
    ("title", "keys"),
    [("Keys of `[worker]`", dict(worker_keys())), ("Keys of `[connectors.NAME]`", dict(connector_keys()))],
)
def test_exactly_the_keys_are_documented_with_their_defaults(title: str, keys: dict[str, object]) -> None:
    """Those without a default say so in words."""
    rows = table(title)

    assert set(rows) == set(keys)
    for key, default in keys.items():
        if default not in ("", None):
            assert rows[key][0] == shown(default), key


def test_exactly_the_consumer_keys_are_documented() -> None:
    """With their defaults, and the kind of group that they are for."""
    rows = table("How records are consumed")

    assert set(rows) == set(CONSUMER_KEYS)
    for key, about in CONSUMER_KEYS.items():
        default, group, meaning = rows[key]
        assert default.strip("`") == about.default, key
        assert group == {"share": "share", "group": "consumer", None: "both"}[about.only], key
        assert meaning == about.about, key


def test_r26_exactly_the_metrics_are_documented() -> None:
    """Kind, mode, and their own labels."""
    rows = table("Metrics, each with the labels")

    assert set(rows) == {PREFIX + metric.name for metric in SINK_METRICS}
    for metric in SINK_METRICS:
        kind, mode, meaning = rows[PREFIX + metric.name]
        assert (kind, mode) == (metric.kind, metric.mode), metric.name
        assert _label(metric) in meaning


def _label(metric: SinkMetric) -> str:
    return f"label `{LABELLED[metric.name]}`" if metric.name in LABELLED else ""


def test_exactly_the_exit_codes_are_documented() -> None:
    """Each says what it means for this command."""
    rows = re.findall(r"^\| (\d+) \|", SECTION.partition("exit code of `sink`")[2], re.MULTILINE)

    assert [int(code) for code in rows] == sorted(ExitCode)


def test_the_pages_name_only_keys_that_exist() -> None:
    """What stands in quotes in the how-to is a key."""
    known = {key for key, _ in (*worker_keys(), *connector_keys())}
    known |= {f"consumer.{key}" for key in CONSUMER_KEYS} | {f"consumer.override.{key}" for key in CONSUMER_KEYS}

    named = set(re.findall(r'"([a-z]+(?:\.[a-z]+)+)"', PAGE))

    assert named <= known


async def test_the_example_of_the_how_to_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """As it stands there, against a cluster; and --check says what the page shows."""
    (sink,) = re.findall(r"```python\n# print_sink\.py\n(.*?)```", PAGE, re.DOTALL)
    (config,) = re.findall(r"```toml\n(.*?)```", PAGE, re.DOTALL)
    (tmp_path / "print_sink.py").write_text(sink)
    monkeypatch.syspath_prepend(tmp_path)
    async with SimulatedCluster() as cluster:
        cluster.create_topic("orders", 1)
        file = tmp_path / "sink.toml"
        file.write_text(
            config.replace("localhost:9092", cluster.bootstrap_servers).replace('http = "127.0.0.1:9465"', "")
        )
        settings = load_sink_settings(file)
        worker = SinkWorker(settings, BrokerParts())

        said = await worker.check()
        cluster.set_group_config("orders-printer", {"share.auto.offset.reset": "earliest"})
        await worker.start()
        cluster.produce("orders", 0, 1, values=["value-0"])
        async with asyncio.timeout(20):
            while sum(meter.counts["record_acknowledge"] for meter in worker.meters) < 1:
                await asyncio.sleep(0.01)
        await worker.stop()

    # `print` in a thread writes its parts one after the other: those of a log line may stand in between
    assert "value-0" in capfd.readouterr().out
    assert "\n".join(said) in PAGE

"""`shareproxy sink`: exit codes and sentences."""

from __future__ import annotations

import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from shareproxy.cli.main import app
from shareproxy.testing.simulated import SimulatedCluster
from tests.support.command import clean_environment
from tests.support.file_sink import lines
from tests.support.waiting import wait_until

ROOT = Path(__file__).parents[2]
SHARE = '"consumer.override.group.protocol" = "share"\n'


def config(
    tmp_path: Path, bootstrap_servers: str, *, sink: str = "LineSink", more: str = SHARE, settings: str = ""
) -> Path:
    """Write a file with one connector."""
    (tmp_path / "out").mkdir(exist_ok=True)
    file = tmp_path / "sink.toml"
    file.write_text(
        f'[worker]\n"bootstrap.servers" = "{bootstrap_servers}"\n[connectors.orders]\n'
        f'class = "tests.support.file_sink:{sink}"\ntopics = "orders"\n{more}'
        f'[connectors.orders.sink]\ndirectory = "{tmp_path / "out"}"\n{settings}'
    )
    return file


def run(*arguments: str) -> Result:
    """Run the command."""
    return CliRunner().invoke(app, ["sink", *arguments])


def said(result: Result) -> list[str]:
    """Return the sentences for a person, without log lines."""
    return [line.removeprefix("shareproxy: ") for line in result.stderr.splitlines() if line.startswith("shareproxy: ")]


def test_bad_input_without_a_file_it_says_what_to_give() -> None:
    """Exit code 2."""
    result = run()

    assert (result.exit_code, said(result)) == (
        2,
        ["no file is named; give --config sink.toml, or set SHAREPROXY_SINK_CONFIG"],
    )


def test_bad_input_a_wrong_file_is_one_sentence(tmp_path: Path) -> None:
    """Exit code 2."""
    result = run("--config", str(config(tmp_path, "x:1", more='"tasks.mx" = 2\n')))

    assert result.exit_code == 2
    (sentence,) = said(result)
    assert sentence.endswith(
        'sink.toml: [connectors.orders] "tasks.mx": there is no such key; did you mean "tasks.max"?'
    )


def test_check_prints_how_each_connector_will_work(tmp_path: Path) -> None:
    """Exit code 0; stdout is the answer."""
    with SimulatedCluster() as cluster:
        cluster.create_topic("orders", 1)
        result = run("--config", str(config(tmp_path, cluster.bootstrap_servers)), "--check")

    assert result.exit_code == 0
    assert result.stdout.startswith("connector 'orders': share group 'share-orders', topic 'orders', lock 30000 ms")


def test_check_of_a_name_that_is_taken_is_a_no(tmp_path: Path) -> None:
    """Exit code 1 (R6)."""
    with SimulatedCluster() as cluster:
        cluster.create_topic("orders", 1)
        cluster.commit_offsets("share-orders", {"orders": {0: 0}})
        result = run("--config", str(config(tmp_path, cluster.bootstrap_servers)), "--check")

    assert result.exit_code == 1
    assert "the name 'share-orders' is taken" in said(result)[0]


def test_check_with_wrong_credentials_is_4(tmp_path: Path) -> None:
    """One sentence without the password."""
    properties = tmp_path / "client.properties"
    properties.write_text(
        "security.protocol=SASL_PLAINTEXT\nsasl.mechanism=PLAIN\nsasl.jaas.config=org.apache.kafka.common.security."
        'plain.PlainLoginModule required username="me" password="wrong-secret";\n'
    )
    with SimulatedCluster(users={"me": "right"}) as cluster:
        more = SHARE + f'"consumer.override.command.config" = "{properties}"\n'
        result = run("--config", str(config(tmp_path, cluster.bootstrap_servers, more=more)), "--check")

    assert (result.exit_code, len(said(result))) == (4, 1)
    assert "wrong-secret" not in result.output


def test_check_without_read_is_4_and_says_what_is_missing(tmp_path: Path) -> None:
    """Nothing else is printed: it cannot work."""
    with SimulatedCluster() as cluster:
        cluster.create_topic("orders", 1)
        cluster.commit_offsets("others", {"orders": {0: 0}})
        cluster.deny("READ", "GROUP", "share-orders")
        cluster.deny("READ", "TOPIC", "orders")
        result = run("--config", str(config(tmp_path, cluster.bootstrap_servers)), "--check")

    assert (result.exit_code, result.stdout, said(result)) == (
        4,
        "",
        [
            "connector 'orders': this user lacks READ on group 'share-orders' and topic 'orders'; grant it: "
            "kafka-acls.sh --bootstrap-server HOST:PORT --add --allow-principal User:NAME --operation Read "
            "--group share-orders --topic orders"
        ],
    )


def test_check_of_a_directory_that_cannot_be_made_is_a_no(tmp_path: Path) -> None:
    """As the run's end would be."""
    (tmp_path / "file").touch()
    with SimulatedCluster() as cluster:
        cluster.create_topic("orders", 1)
        file = config(tmp_path, cluster.bootstrap_servers)
        text = file.read_text().replace("tests.support.file_sink:LineSink", "files")
        file.write_text(text.replace(f'"{tmp_path / "out"}"', f'"{tmp_path / "file" / "out"}"'))
        result = run("--config", str(file), "--check")

    assert (result.exit_code, result.stdout) == (1, "")
    assert "file/out' cannot be used: Not a directory: " in said(result)[0]


@pytest.mark.parametrize("method", ["start", "put", "stop"])
def test_bad_input_a_sink_that_fails_ends_with_1_and_a_sentence(tmp_path: Path, method: str) -> None:
    """In start at once; in stop at the end; in put it goes on trying, and nothing is accepted."""
    with SimulatedCluster() as cluster:
        cluster.create_topic("orders", 1)
        cluster.set_group_config("share-orders", {"share.auto.offset.reset": "earliest"})
        cluster.produce("orders", 0, 3)
        file = config(tmp_path, cluster.bootstrap_servers, sink="FailingSink", settings=f'fails = "{method}"\n')
        log = tmp_path / "log"
        with log.open("wb") as output:
            process = subprocess.Popen(
                [sys.executable, "-m", "shareproxy", "sink", "--config", str(file)],
                stderr=output,
                env={**clean_environment(), "PYTHONPATH": str(ROOT)},
            )
        try:
            if method != "start":
                ready = (
                    (lambda: lines(tmp_path / "out"))
                    if method == "stop"
                    else (lambda: b"task failed" in log.read_bytes())
                )
                wait_until(lambda: bool(ready()), "the sink has worked, or failed")
                process.send_signal(signal.SIGTERM)
            code = process.wait(30)
        finally:
            process.kill()
            process.wait()

    sentences = [line for line in log.read_text().splitlines() if line.startswith("shareproxy: ")]
    if method == "put":
        assert (code, sentences) == (0, [])
        assert "RuntimeError: put does not work" in log.read_text()
        assert lines(tmp_path / "out") == []
    else:
        assert code == 1
        assert sentences == [
            f"shareproxy: connector 'orders', task 0: the sink's {method} failed: RuntimeError: {method} does not work"
        ]
    assert "Traceback" not in log.read_text()


def test_without_read_on_its_topics_it_ends_with_4_and_says_what_is_missing(tmp_path: Path) -> None:
    """It may have the group, so that only the fetch tells; a denial that stays is no reason to go on trying."""
    with SimulatedCluster() as cluster:
        cluster.create_topic("orders", 1)
        with cluster.fail(78, 29, topic="orders"):
            done = subprocess.run(
                sink_command(config(tmp_path, cluster.bootstrap_servers)),
                capture_output=True,
                text=True,
                timeout=60,
                env={**clean_environment(), "PYTHONPATH": str(ROOT)},
                check=False,
            )

    sentences = [line for line in done.stderr.splitlines() if line.startswith("shareproxy: ")]
    assert (done.returncode, len(sentences)) == (4, 1), done.stderr
    assert sentences[0].startswith(
        "shareproxy: connector 'orders', task 0: this user may not read topic 'orders': READ on the topic is needed"
    )


@pytest.mark.parametrize(("more", "code"), [((), 0), (("--check",), 130)])
def test_interrupted_before_it_has_reached_a_broker(tmp_path: Path, more: tuple[str, ...], code: int) -> None:
    """Told to stop, it stops, and nothing is left undone; an answer that was asked for does not come."""
    with socket.create_server(("127.0.0.1", 0)) as silent:
        file = config(tmp_path, f"127.0.0.1:{silent.getsockname()[1]}")
        process = subprocess.Popen(
            [*sink_command(file), *more],
            stderr=subprocess.DEVNULL,
            env={**clean_environment(), "PYTHONPATH": str(ROOT)},
        )
        try:
            silent.settimeout(30)
            connection, _ = silent.accept()  # it listens to signals now
            with connection:
                process.send_signal(signal.SIGINT)
                assert process.wait(30) == code
        finally:
            process.kill()
            process.wait()


def sink_command(file: Path) -> list[str]:
    """Return what runs it in a process of its own."""
    return [sys.executable, "-m", "shareproxy", "sink", "--config", str(file)]

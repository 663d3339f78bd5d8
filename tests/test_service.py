"""Which parts run in one process, and what they are told."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from pathlib import Path

import aiohttp
import msgspec
import pytest
from structlog.testing import capture_logs

from shareproxy.cluster.cluster import Cluster
from shareproxy.cluster.security import PLAINTEXT
from shareproxy.config import CannotListen, ConfigError, Settings, load_settings
from shareproxy.connecting import one_address
from shareproxy.lag.visible_model import Want
from shareproxy.observe.exposition import Format
from shareproxy.proxy.client_tls import ClientTls
from shareproxy.service import EXPORTER_HTTP, Service, proxy_settings
from shareproxy.testing.kafka_security import make_certificates
from shareproxy.testing.ports import ports_side_by_side

NOBODY = "127.0.0.1:1"


def settings(**flags: object) -> Settings:
    """Return settings of a service whose cluster is not there, on free ports."""
    ports = ports_side_by_side(4)
    listening = {"listen": f"127.0.0.1:{ports[0]}", "node_ports": f"{ports[1]}-{ports[2]}"}
    return load_settings(None, {}, {"bootstrap_server": NOBODY, **listening, **flags})


@pytest.mark.parametrize(
    ("code", "imported"),
    [
        ("Service(s, with_proxy=True, with_exporter=False)", "proxy"),
        ("Service(s, with_proxy=False, with_exporter=True)", "observe prometheus_client"),
        (
            "Service(msgspec.structs.replace(s, http='127.0.0.1:0'), with_proxy=True, with_exporter=True)",
            "aiohttp observe prometheus_client proxy",
        ),
    ],
)
def test_only_what_runs_is_imported(code: str, imported: str) -> None:
    """A proxy without HTTP starts fast."""
    program = (
        "import asyncio, sys, msgspec\n"
        "from shareproxy.config import Settings\n"
        "from shareproxy.service import Service\n"
        "s = Settings(bootstrap_server='127.0.0.1:1')\n"
        f"async def main(): {code}\n"
        "asyncio.run(main())\n"
        "rooms = {'aiohttp', 'prometheus_client', 'shareproxy.proxy', 'shareproxy.observe'}\n"
        "print(*sorted(room.removeprefix('shareproxy.') for room in rooms & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.stdout.strip() == imported, done.stderr


async def test_the_settings_reach_the_collector() -> None:
    """Each of them."""
    given = {
        "exporter.interval": 7.0,
        "exporter.stale_after": 3,
        "exporter.include_groups": "a.*",
        "exporter.exclude_groups": "ab",
        "exporter.include_topics": "t.*",
        "exporter.exclude_topics": "tt",
        "exporter.internal_topics": True,
        "exporter.visible": "all",
        "timeout": 2.0,
    }
    service = Service(settings(**given), with_proxy=False, with_exporter=True)
    assert service.exporter is not None
    told = service.exporter.collector.settings
    await service.stop()

    assert (told.interval, told.stale_after, told.timeout, told.internal_topics) == (7.0, 3, 2.0, True)
    assert [told.groups.matches(name) for name in ("a", "ab", "ba")] == [True, False, False]
    assert [told.topics.matches(name) for name in ("t", "tt", "at")] == [True, False, False]
    assert told.want == Want.ALL


async def test_a_cheap_closer_look() -> None:
    """Needs no right to read records."""
    service = Service(settings(**{"exporter.visible": "offsets"}), with_proxy=False, with_exporter=True)
    assert service.exporter is not None
    await service.stop()
    assert service.exporter.collector.settings.want == Want.LOG_START | Want.OPEN


async def test_own_requests_are_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    """As the cluster counts them."""
    service = Service(settings(), with_proxy=False, with_exporter=True)
    assert service.exporter is not None
    monkeypatch.setattr(Cluster, "requests_sent", {90: 2})

    page = b"".join(service.exporter.answer(Format.TEXT, gzip=False)[0])

    assert b'shareproxy_requests_total{api_key="90"} 2.0' in page


async def test_a_wrong_pattern_is_named() -> None:
    """With its key and what to write instead."""
    with pytest.raises(ConfigError, match=r"exporter\.exclude_groups: '\[' is not a regular expression"):
        Service(settings(**{"exporter.exclude_groups": "["}), with_proxy=False, with_exporter=True)


async def test_a_port_in_use_is_no_config_error() -> None:
    """It may mend by itself, and the sentence names the setting; nothing keeps running."""
    server = await asyncio.start_server(lambda *_: None, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    service = Service(settings(http=f"127.0.0.1:{port}"), with_proxy=True, with_exporter=True)
    with pytest.raises(CannotListen, match=f"^http: cannot listen on 127.0.0.1:{port}: Address already in use$"):
        await service.start()
    server.close()
    assert asyncio.all_tasks() == {asyncio.current_task()}


async def test_readiness_names_the_proxys_reason_first() -> None:
    """Both halves have to be ready; the probe is answered while the cluster is away."""
    service = Service(settings(http="127.0.0.1:0"), with_proxy=True, with_exporter=True)
    await service.start()
    try:
        assert service.http is not None
        async with (
            aiohttp.ClientSession(f"http://127.0.0.1:{service.http.port}") as client,
            client.get("/readyz") as response,
        ):
            assert response.status == 503
            assert "cluster" in await response.text()
    finally:
        await service.stop()


def test_the_exporter_has_an_address_of_its_own() -> None:
    """The documented one."""
    assert EXPORTER_HTTP == "127.0.0.1:9464"


def test_key_without_a_certificate_is_refused() -> None:
    """The other keys of the table are for nothing then."""
    with pytest.raises(ConfigError, match=r"tls\.certificate: name the PEM file"):
        proxy_settings(settings(**{"tls.client_auth": "required"}), PLAINTEXT)


def test_tls_settings_reach_the_proxy() -> None:
    """Each of them."""
    given = {
        "tls.certificate": "server.pem",
        "tls.key": "key.pem",
        "tls.key_password": "secret",
        "tls.client_ca": "ca.pem",
        "tls.client_auth": "requested",
        "node_hosts": "b{node_id}.kafka.example",
        "advertised_port": 9093,
    }

    told = proxy_settings(settings(**given), PLAINTEXT)

    assert told.client_tls == ClientTls("server.pem", "key.pem", "secret", "ca.pem", "requested")
    assert str(told.node_hosts) == "b{node_id}.kafka.example"
    assert told.advertised_port == 9093


def test_bad_host_pattern_is_a_usage_error() -> None:
    """It says how to write one."""
    with pytest.raises(ConfigError, match="write for instance b"):
        proxy_settings(settings(**{"tls.certificate": "server.pem", "node_hosts": "kafka.example"}), PLAINTEXT)


async def test_reload_reads_the_certificate_again(tmp_path: Path) -> None:
    """What cannot be used is logged in one line, and the service goes on."""
    made = make_certificates(tmp_path)
    service = Service(settings(**{"tls.certificate": str(made.server_pem)}), with_proxy=True, with_exporter=False)
    with capture_logs() as logs:
        await service.reload()
        made.server_pem.write_text("nothing")
        await service.reload()
    await service.stop()

    assert [line["event"] for line in logs if "reloaded" in line["event"]] == [
        "settings reloaded",
        "settings not reloaded",
    ]
    assert any("server.pem" in line.get("error", "") for line in logs)


async def test_reload_takes_limits_and_names_what_needs_a_restart() -> None:
    """The latter stays as it was."""
    before = settings()
    limits = msgspec.structs.replace(before.limits, max_connections=7)
    now = msgspec.structs.replace(before, limits=limits, stop_timeout=9.0, lag_timeout=1.0, http="127.0.0.1:1")
    service = Service(before, with_proxy=True, with_exporter=False, reread=lambda: now)

    with capture_logs() as logs:
        await service.reload()
    await service.stop(0, 0)

    (line,) = logs
    assert line["event"] == "settings reloaded"
    assert line["changed"] == ("limits.max_connections", "stop_timeout")
    assert line["needs_restart"] == ("http", "lag_timeout")
    assert service.settings == msgspec.structs.replace(before, limits=limits, stop_timeout=9.0)


async def test_bad_settings_file_changes_nothing() -> None:
    """One line says what is wrong with it."""

    def reread() -> Settings:
        raise ConfigError("shareproxy.toml: is not TOML")

    service = Service(settings(), with_proxy=True, with_exporter=False, reread=reread)
    before = service.settings

    with capture_logs() as logs:
        await service.reload()
    await service.stop(0, 0)

    assert [(line["event"], line["error"]) for line in logs] == [
        ("settings not reloaded", "shareproxy.toml: is not TOML")
    ]
    assert service.settings is before


async def test_limits_hold_for_open_ports_after_a_reload() -> None:
    """Nobody has to restart to let more clients in, or fewer."""
    before = settings()
    now = msgspec.structs.replace(before, limits=msgspec.structs.replace(before.limits, max_connections=1))
    service = Service(before, with_proxy=True, with_exporter=False, reread=lambda: now)
    await service.start()
    address = one_address("listen", before.listen)
    first, held = await asyncio.open_connection(*address)

    await service.reload()
    second, refused = await asyncio.open_connection(*address)
    answer = await second.read()

    assert answer == b""
    assert not first.at_eof()
    for writer in (held, refused):
        writer.close()
    await service.stop(0, 0)


async def test_metrics_of_the_proxy_need_no_exporter() -> None:
    """`exporter.enabled = false` is about Kafka's groups; without the proxy there are none of the proxy."""
    service = Service(settings(http="127.0.0.1:0"), with_proxy=True, with_exporter=False)
    await service.start()
    try:
        assert service.http is not None
        async with (
            aiohttp.ClientSession(f"http://127.0.0.1:{service.http.port}") as client,
            client.get("/metrics") as metrics,
            client.get("/api/v1/groups") as groups,
        ):
            text = await metrics.text()
            assert (metrics.status, groups.status) == (200, 404)
    finally:
        await service.stop(0, 0)
    assert "shareproxy_build_info" in text
    assert "shareproxy_proxy_" in text
    assert "kafka_sharegroup" not in text


async def test_exporter_shows_the_proxy_too() -> None:
    """One page for both."""
    service = Service(settings(http="127.0.0.1:0"), with_proxy=True, with_exporter=True)
    assert service.exporter is not None
    page = b"".join(service.exporter.answer(Format.OPENMETRICS, gzip=False)[0])
    await service.stop(0, 0)

    assert b"shareproxy_looks_total" in page
    assert b"shareproxy_proxy_" in page
    assert page.count(b"# EOF\n") == 1
    assert page.count(b"shareproxy_build_info{") == 1


async def test_readiness_of_both_halves() -> None:
    """In one sentence, for the service manager."""
    service = Service(settings(http="127.0.0.1:0"), with_proxy=True, with_exporter=True)
    assert service.why_not_ready() == "not started"
    await service.stop(0, 0)
    alone = Service(settings(http="127.0.0.1:0"), with_proxy=False, with_exporter=True)
    assert "read" in (alone.why_not_ready() or "")
    await alone.stop(0, 0)


async def test_stop_twice_is_no_error() -> None:
    """A start that is given up has stopped everything already."""
    service = Service(settings(http="127.0.0.1:0"), with_proxy=True, with_exporter=True)
    await service.start()
    await service.stop(0, 0)
    with capture_logs() as logs:
        await service.stop()
    assert [(line["event"], line["delay"], line["timeout"]) for line in logs] == [("stopping", 0.0, 5.0)]
    assert asyncio.all_tasks() == {asyncio.current_task()}

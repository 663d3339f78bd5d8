"""A worker's probes and metrics."""

from __future__ import annotations

import asyncio
import urllib.error
import urllib.request

import pytest
from prometheus_client import CollectorRegistry, Counter

from shareproxy.drain.health import HealthServer


async def get(server: HealthServer, path: str, **headers: str) -> tuple[int, str, str]:
    """Return status, content type and body."""

    def ask() -> tuple[int, str, str]:
        request = urllib.request.Request(f"http://127.0.0.1:{server.port}{path}", headers=headers)
        try:
            with urllib.request.urlopen(request, timeout=30) as answer:
                return answer.status, answer.headers["Content-Type"], answer.read().decode()
        except urllib.error.HTTPError as error:
            return error.code, error.headers["Content-Type"], error.read().decode()

    return await asyncio.to_thread(ask)


@pytest.fixture
def registry() -> CollectorRegistry:
    """One counter."""
    registry = CollectorRegistry()
    Counter("things", "What is counted.", registry=registry).inc(3)
    return registry


async def test_the_first_reason_is_told(registry: CollectorRegistry) -> None:
    """503 until nothing is missing; alive all the time."""
    reasons: list[str | None] = ["no partitions"]
    server = HealthServer("127.0.0.1", 0, readiness=(lambda: None, lambda: reasons[0]), registry=registry)
    await server.start()
    try:
        assert (await get(server, "/readyz"))[::2] == (503, "no partitions\n")
        assert (await get(server, "/livez"))[::2] == (200, "alive\n")
        reasons[0] = None
        assert (await get(server, "/readyz"))[::2] == (200, "ready\n")
    finally:
        await server.stop()


async def test_metrics_come_in_the_form_that_is_asked_for(registry: CollectorRegistry) -> None:
    """Prometheus text, or OpenMetrics."""
    server = HealthServer("127.0.0.1", 0, readiness=(), registry=registry)
    await server.start()
    try:
        status, kind, text = await get(server, "/metrics")
        assert (status, kind.split(";")[0]) == (200, "text/plain")
        assert "things_total 3.0" in text
        _, kind, text = await get(server, "/metrics", Accept="application/openmetrics-text; version=1.0.0")
        assert kind.startswith("application/openmetrics-text")
        assert text.endswith("# EOF\n")
    finally:
        await server.stop()


async def test_an_address_in_use_is_named(registry: CollectorRegistry) -> None:
    """With what to do."""
    server = HealthServer("127.0.0.1", 0, readiness=(), registry=registry)
    await server.start()
    try:
        second = HealthServer("127.0.0.1", server.port, readiness=(), registry=registry)
        with pytest.raises(OSError, match=f"cannot listen on 127.0.0.1:{server.port}: .*another address$") as error:
            await second.start()
        assert str(error.value.strerror).startswith("cannot listen")  # whoever asked for it names the setting
    finally:
        await server.stop()


async def test_stopping_what_never_started(registry: CollectorRegistry) -> None:
    """Is harmless."""
    await HealthServer("127.0.0.1", 0, readiness=(), registry=registry).stop()

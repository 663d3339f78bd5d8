"""Pages are made once for each look."""

from __future__ import annotations

from shareproxy.cluster.errors import Unreachable
from shareproxy.observe.exposition import Format
from tests.observe.watching import Watched, an_exporter, row


async def test_every_format_is_ready_before_anybody_asks() -> None:
    """And made once, whoever asks."""
    watched = Watched()
    watched.put("g", row())
    exporter = an_exporter(watched)
    await exporter.collector.look()
    pages = [exporter.answer(form, gzip=gzip)[0] for form in Format for gzip in (False, True) for _ in range(2)]
    assert exporter.rendered == 1
    assert pages[0][0] is pages[1][0], "the same bytes are sent to all"


async def test_a_look_that_fails_makes_no_page() -> None:
    """The last one is shown until it is stale."""
    watched = Watched()
    watched.put("g", row())
    exporter = an_exporter(watched)
    await exporter.collector.look()
    watched.failure = Unreachable("nobody answers")
    await exporter.collector.look()
    assert exporter.rendered == 1
    assert b"kafka_sharegroup_lag{" in b"".join(exporter.answer(Format.TEXT, gzip=False)[0])

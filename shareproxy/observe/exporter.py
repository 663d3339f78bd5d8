"""Keep the page of the newest snapshot ready to be sent.

In: snapshots. Out: the pieces of an answer to a scrape. Must never: render a snapshot twice, or for a scrape.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from prometheus_client.registry import Collector as Source

from shareproxy.observe.collector import Collector, CollectorSettings, Engine, Looker
from shareproxy.observe.directory import Directory
from shareproxy.observe.exposition import EMPTY_PAGE, Format, Page, make_pages
from shareproxy.observe.labels import Labels
from shareproxy.observe.metrics import Granularity, families_of
from shareproxy.observe.self_metrics import OwnPage, Requests, SelfMetrics
from shareproxy.observe.snapshot import Snapshot


class Exporter:
    """A collector and the pages made of what it finds.

    Args:
        engine: tells the lag.
        directory: tells which groups there are.
        settings: what to look at.
        granularity: what has series of its own.
        cluster_label: value of the label `cluster` of Kafka's series, empty for none.
        looker: looks closer, if that is wanted.
        requests: tells the requests sent to brokers, by api_key.
        more: metrics to be shown beside its own.
    """

    def __init__(
        self,
        engine: Engine,
        directory: Directory,
        settings: CollectorSettings,
        *,
        granularity: Granularity = "partition",
        cluster_label: str = "",
        looker: Looker | None = None,
        requests: Requests | None = None,
        more: Sequence[Source] = (),
    ) -> None:
        self.collector = Collector(engine, directory, settings, looker=looker, publish=self._render)
        self.rendered = 0
        self._granularity, self._cluster_label = granularity, cluster_label
        self._pages: Mapping[Format, Page] = {}
        self._labels_replaced = Labels()
        self._own = OwnPage((SelfMetrics(self.collector, self._labels_replaced, requests), *more))

    def answer(self, form: Format, *, gzip: bool) -> tuple[Sequence[bytes], int]:
        """Return the pieces of an answer and its length; a stale snapshot is left out."""
        page = EMPTY_PAGE if self.collector.fresh is None else self._pages.get(form, EMPTY_PAGE)
        return page.with_tail(self._own.page(form), gzip=gzip)

    async def _render(self, snapshot: Snapshot) -> None:
        # names are escaped anew for each snapshot: those of groups that are gone must not pile up
        labels = Labels()
        families = await families_of(snapshot, labels, granularity=self._granularity, cluster_label=self._cluster_label)
        self._pages = await make_pages(families)
        self._labels_replaced.replaced += labels.replaced
        self.rendered += 1

"""What is shown of workers."""

from __future__ import annotations

from shareproxy.observe.exposition import Format
from shareproxy.observe.self_metrics import OwnPage
from shareproxy.observe.worker_metrics import WorkerMetrics, WorkerState

STATES = [
    WorkerState(worker=1, pid=41, listening=True, ready=True, restarts=0),
    WorkerState(worker=2, pid=None, listening=False, ready=False, restarts=3),
]


def test_each_worker_has_its_series() -> None:
    """One that is being replaced has no process id."""
    page = OwnPage([WorkerMetrics(lambda: STATES)]).page(Format.TEXT).decode()

    assert [line for line in page.splitlines() if line.startswith("shareproxy_worker")] == [
        'shareproxy_worker_up{worker="1"} 1.0',
        'shareproxy_worker_up{worker="2"} 0.0',
        'shareproxy_worker_ready{worker="1"} 1.0',
        'shareproxy_worker_ready{worker="2"} 0.0',
        'shareproxy_worker_pid{worker="1"} 41.0',
        'shareproxy_worker_restarts_total{worker="1"} 0.0',
        'shareproxy_worker_restarts_total{worker="2"} 3.0',
    ]


def test_page_alone_is_a_whole_answer() -> None:
    """In OpenMetrics with its end."""
    pieces, length = OwnPage([]).answer(Format.OPENMETRICS, gzip=False)
    page = b"".join(pieces)

    assert length == len(page)
    assert page.endswith(b"# EOF\n")
    assert b"shareproxy_build_info" in page

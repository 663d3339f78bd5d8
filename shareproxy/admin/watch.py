"""Look again and again, at a steady pace.

In: a way to look, an interval. Out: one snapshot per look. Must never: drift, end because one look failed, or show an
old report as a new one.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from datetime import UTC, datetime

from shareproxy.admin.errors import AccessDenied, AdminError
from shareproxy.admin.results import Snapshot
from shareproxy.lag.model import LagReport
from shareproxy.lag.rates import GroupRates, rates
from shareproxy.protocol.ids import GroupId

Look = Callable[[], Awaitable[LagReport]]
Rates = Callable[[LagReport, LagReport], Mapping[GroupId, GroupRates]]


async def watch(look: Look, interval: float, compare: Rates = rates) -> AsyncGenerator[Snapshot, None]:
    """Yield a snapshot at once, and one every interval.

    A look that takes longer than the interval skips the looks it ran over. One that fails gives the last good report
    again, with the reason among its problems; only where the brokers refuse us from the start, it is raised.

    Args:
        look: makes a report.
        interval: seconds from the beginning of one look to that of the next.
        compare: rates between an earlier report and a later one.

    Raises:
        AccessDenied: at the first look.
    """
    loop = asyncio.get_running_loop()
    started = loop.time()
    good: tuple[float, LagReport] | None = None
    while True:
        at = loop.time()
        try:
            report = await look()
        except AdminError as error:
            if good is None and isinstance(error, AccessDenied):
                raise
            yield _stale(None if good is None else good[1], error)
        else:
            if good is None:
                yield Snapshot(report)
            else:
                yield Snapshot(report, compare(good[1], report), at - good[0])
            good = at, report
        # counted from the start, so that what the looks and the caller take adds up to nothing
        passed = loop.time() - started
        await asyncio.sleep(started + (passed // interval + 1) * interval - loop.time())


def _stale(last: LagReport | None, error: AdminError) -> Snapshot:
    if last is None:
        report = LagReport("", datetime.now(UTC), (), (error.message,))
    else:
        problem = f"nothing newer is known: {error.message}"
        report = LagReport(last.cluster_id, last.time, last.groups, (*last.problems, problem))
    return Snapshot(report, fresh=False)

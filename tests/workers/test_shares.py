"""What one worker of several may use."""

from __future__ import annotations

import pytest

from shareproxy.config import Limits, Settings
from shareproxy.workers.shares import share_of


@pytest.mark.parametrize(("total", "workers", "share"), [(10, 2, 5), (10, 3, 4), (1, 4, 1), (10_000, 7, 1_429)])
def test_totals_are_divided_and_rounded_up(total: int, workers: int, share: int) -> None:
    """All shares together are never less than the total."""
    limits = Limits(max_connections=total, max_connections_per_address=total)

    divided = share_of(Settings(workers=workers, limits=limits)).limits

    assert (divided.max_connections, divided.max_connections_per_address) == (share, share)
    assert share * workers >= total


def test_no_limit_stays_none() -> None:
    """0 per address means that there is none."""
    assert share_of(Settings(workers=4)).limits.max_connections_per_address == 0


def test_everything_else_stays() -> None:
    """But for what the supervisor does itself."""
    settings = Settings(workers=4, http="127.0.0.1:9464", bootstrap_server="a:1", limits=Limits(max_in_flight=9))

    share = share_of(settings)

    assert (share.workers, share.http) == (1, "")
    assert (share.bootstrap_server, share.limits.max_in_flight) == ("a:1", 9)
    assert share.limits.connect_timeout == settings.limits.connect_timeout

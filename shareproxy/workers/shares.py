"""Divide what is meant for the whole service among its workers.

In: settings. Out: those of one worker. Must never: take a limit away, or divide what holds for each connection.
"""

from __future__ import annotations

import msgspec

from shareproxy.config import Settings


def share_of(settings: Settings) -> Settings:
    """Return the settings of one of the workers.

    The kernel spreads clients nearly evenly, so a limit of all of them is divided, and rounded up.
    """
    limits, workers = settings.limits, settings.workers
    return msgspec.structs.replace(
        settings,
        workers=1,
        http="",  # the supervisor answers for all
        limits=msgspec.structs.replace(
            limits,
            max_connections=-(-limits.max_connections // workers),
            max_connections_per_address=-(-limits.max_connections_per_address // workers),  # 0 is none, and stays so
        ),
    )

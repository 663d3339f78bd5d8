"""`shareproxy serve --workers N`: the supervisor's process.

In: settings. Out: a service with several worker processes, until a signal. Must never: serve a Kafka client itself.
"""

from __future__ import annotations

from shareproxy.config import ConfigError, Settings
from shareproxy.proxy.listening import CAN_SHARE_PORTS
from shareproxy.reloading import Reread
from shareproxy.service import serve_until_stopped
from shareproxy.workers.supervisor import Supervisor, WorkersError

__all__ = ["WorkersError", "serve_with_workers"]


def serve_with_workers(settings: Settings, reread: Reread | None = None) -> None:
    """Run the service until SIGTERM or SIGINT.

    Args:
        settings: of all parts; `workers` is more than one.
        reread: reads them again at SIGHUP.

    Raises:
        ConfigError: settings are wrong, or this system cannot share ports; nothing keeps running.
        CannotListen: an address cannot be bound now; nothing keeps running.
        WorkersError: no worker stays alive.
    """
    if not CAN_SHARE_PORTS:
        raise ConfigError(
            f"workers: {settings.workers} processes cannot share their ports on this system, which needs Linux "
            "(SO_REUSEPORT); leave the setting at 1"
        )
    if settings.listen.endswith(":0"):
        raise ConfigError(f"workers: all of them listen at one port, but listen = {settings.listen!r} names none")
    serve_until_stopped(settings, reread, Supervisor)

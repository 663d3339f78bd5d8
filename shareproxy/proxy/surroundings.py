"""Hold what all client connections of one proxy share, and count them.

In: settings and parts that every connection needs; connections as they come and go. Out: whether one more client can
be served, and the list of those that are. Must never: touch a socket.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

import structlog

from shareproxy.config import Limits
from shareproxy.lag.model import SourceChoice
from shareproxy.protocol.ids import NodeId
from shareproxy.protocol.splice import AddressMapping
from shareproxy.proxy.close import CloseReason, log_level
from shareproxy.proxy.limits import Sweep
from shareproxy.proxy.meter import Meter
from shareproxy.proxy.open_files import OpenFiles, count_open_files
from shareproxy.proxy.share_offsets import LagFiller
from shareproxy.proxy.upstream import Upstream

if TYPE_CHECKING:
    from shareproxy.proxy.connection import Connection

# A client's socket and its broker's.
FILES_PER_CLIENT: Final = 2
# For the log, HTTP, our own connections, certificates that are read again; of a small limit a quarter.
SPARE_FILES: Final = 100
_USUAL_CONNECTIONS: Final = Limits().max_connections


class Surroundings:
    """What all connections of one proxy share.

    Args:
        upstream: connects to brokers.
        mapping: from brokers' addresses to advertised ones.
        filler: works out lag, None to leave DescribeShareGroupOffsets alone.
        choice: which rows it is asked for.
        limits: may be replaced; sizes hold for connections that come later, all others at once.
        lag_timeout: seconds.
        wants_sasl: whether the brokers want clients to authenticate by SASL.
    """

    def __init__(
        self,
        upstream: Upstream,
        mapping: AddressMapping,
        filler: LagFiller | None,
        choice: SourceChoice,
        *,
        limits: Limits,
        lag_timeout: float,
        wants_sasl: bool = False,
    ) -> None:
        self.upstream, self.mapping, self.filler, self.choice = upstream, mapping, filler, choice
        self.limits, self.lag_timeout, self.wants_sasl = limits, lag_timeout, wants_sasl
        self.log = structlog.get_logger()
        self.meter = Meter()
        self.meter.open_files = OpenFiles()
        self.meter.max_connections = lambda: self.max_connections
        self.meter.lag_rows = lambda: getattr(filler, "rows_filled", {})
        self.open: set[Connection] = set()
        """Connections with a socket that is not closed yet."""
        self.on_last_closed: Callable[[], None] = lambda: None
        self.handshakes: set[asyncio.Task[None]] = set()
        """Clients with which TLS is being agreed on."""
        self._files_allow: int | None = None
        self._of_host: dict[str, int] = {}
        self._sweep: Sweep | None = None

    @property
    def max_connections(self) -> int:
        """The limit that holds: what is wanted, or what there are file descriptors for."""
        wanted, allowed = self.limits.max_connections, self._files_allow
        return wanted if allowed is None or wanted < allowed else allowed

    def fit_to_open_files(self) -> None:
        """Take no more clients than there are file descriptors for, counted once all ports are bound.

        An event loop that runs out of them closes clients without a word, or tries again without end.
        """
        files = count_open_files()
        if files is None:
            return
        used, limit = files
        self._files_allow = max((limit - used - min(SPARE_FILES, limit // 4)) // FILES_PER_CLIENT, 1)
        wanted = self.limits.max_connections
        if self._files_allow < wanted:
            level = "info" if wanted == _USUAL_CONNECTIONS else "warning"  # nobody has asked for so many
            getattr(self.log, level)(
                "open files limit connections", open_files=limit, wanted=wanted, max_connections=self._files_allow
            )

    def refusal(self, host: str) -> tuple[CloseReason, str] | None:
        """Return why one more client of this address cannot be served, if so."""
        limits, from_host = self.limits, self._of_host.get(host, 0)
        most = self.max_connections
        if len(self.open) + len(self.handshakes) >= most:
            detail = f"limits.max_connections is {limits.max_connections}"
            if most < limits.max_connections:
                detail += f", but the limit of open files allows {most}; raise it (ulimit -n, LimitNOFILE)"
            return CloseReason.TOO_MANY_CONNECTIONS, detail
        if 0 < limits.max_connections_per_address <= from_host:
            detail = f"{host} has {from_host}; limits.max_connections_per_address is "
            return CloseReason.TOO_MANY_FROM_ADDRESS, f"{detail}{limits.max_connections_per_address}"
        return None

    def handshake_began(self, task: asyncio.Task[None], host: str) -> None:
        """Count a client that is still about to speak TLS."""
        self.handshakes.add(task)
        self._of_host[host] = self._of_host.get(host, 0) + 1

    def handshake_ended(self, task: asyncio.Task[None] | None, host: str) -> None:
        """Count it no longer: it is a connection now, or closed."""
        if task in self.handshakes:
            self.handshakes.remove(task)
            self._host_left(host)

    def turned_away(
        self, client: str, node_id: NodeId | None, reason: CloseReason, detail: str, seconds: float
    ) -> None:
        """Count and log a client that did not become a connection."""
        listener = "bootstrap" if node_id is None else str(node_id)
        self.meter.client_came(listener)
        self.meter.client_went(listener)
        self.meter.closed(reason)
        event: dict[str, object] = {"reason": reason.value, "client": client}
        if node_id is not None:
            event["node_id"] = node_id
        if detail:
            event["detail"] = detail
        getattr(self.log, log_level(reason))("connection closed", **event, seconds=round(seconds, 3))

    async def end_handshakes(self) -> None:
        """Give up those that have not become connections yet."""
        for task in tuple(self.handshakes):
            task.cancel()
        await asyncio.gather(*self.handshakes, return_exceptions=True)

    def remember(self, connection: Connection) -> None:
        """Take a connection that has a socket."""
        self.open.add(connection)
        self._of_host[connection.client_host] = self._of_host.get(connection.client_host, 0) + 1
        self.meter.client_came(connection.listener)
        if self._sweep is None:
            self._sweep = Sweep(lambda: self.limits, self.open, self.meter)
        self._sweep.begin(connection)

    def forget(self, connection: Connection) -> None:
        """Drop a connection whose sockets are both closed."""
        if connection not in self.open:
            return
        self.open.discard(connection)
        self._host_left(connection.client_host)
        self.meter.client_went(connection.listener)
        if self._sweep is not None:
            self._sweep.end(connection)
        if not self.open:
            self.on_last_closed()

    def _host_left(self, host: str) -> None:
        left = self._of_host[host] - 1
        if left:
            self._of_host[host] = left
        else:
            del self._of_host[host]

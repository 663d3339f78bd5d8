"""Give each node a host name of its own, for clients that all come in at one port.

In: a pattern such as `b{node_id}.kafka.example`. Out: a node's host name, and the node id in a name that a client
asks for (SNI). Must never: take a name that the pattern does not make for a node's.
"""

from __future__ import annotations

import re
from typing import Final

from shareproxy.protocol.ids import NodeId
from shareproxy.proxy.ports import PortsError

PLACE: Final = "{node_id}"
# two letters outside ASCII count as s and k where case is ignored
_FLAGS: Final = re.IGNORECASE | re.ASCII
_HOST: Final = re.compile(r"[a-z0-9]([a-z0-9.-]*[a-z0-9])?", _FLAGS)
_MAX_HOST: Final = 253


class HostPattern:
    """Host names with a node id in them.

    Args:
        text: a host name that has `{node_id}` once.

    Raises:
        PortsError: it does not make host names.
    """

    def __init__(self, text: str) -> None:
        if text.count(PLACE) != 1:
            raise PortsError(f"{text!r} needs {PLACE} once; write for instance b{PLACE}.kafka.example")
        if not _HOST.fullmatch(text.replace(PLACE, "2147483647")) or len(text) > _MAX_HOST:
            raise PortsError(f"{text!r} does not make host names; write for instance b{PLACE}.kafka.example")
        self._before, self._behind = (re.escape(part) for part in text.split(PLACE))
        self._text = text
        # without leading zeros, so that a node has one name
        self._match = re.compile(f"{self._before}(0|[1-9][0-9]{{0,9}}){self._behind}", _FLAGS).fullmatch

    def __str__(self) -> str:
        return self._text

    def host_of(self, node_id: int) -> str:
        """Return the host name of a node."""
        return self._text.replace(PLACE, str(node_id))

    def node_of(self, host: str | None) -> NodeId | None:
        """Return the node id in a host name; None: it is not a node's, so the client may go to any broker."""
        found = self._match((host or "").rstrip("."))
        if found is None or int(found[1]) >= 2**31:
            return None
        return NodeId(int(found[1]))

"""Lay out which advertised port leads to which node id.

In: a range of ports and declared node ids. Out: port for a node id, and back. One port belongs to one node id for
ever, so that replicas agree and a restart changes nothing. Must never: invent a port for an undeclared node id.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Final

from shareproxy.protocol.ids import NodeId

# nothing can listen on port 0: a client that is told this address fails at once, as with a broker that is down
NO_PORT: Final = 0
_MAX_NODE_ID: Final = 2**31 - 1


class PortsError(ValueError):
    """The ports and node ids that were declared do not fit; the text says what to write instead."""


class NodePorts:
    """Ports in order, node ids in the order they were declared.

    With the ports 19100-19163 and no declared ids, node id 0 has 19100 and node id 63 has 19163.
    With the ids 1-3,1000 they have 19100, 19101, 19102 and 19103; ids that are added later go to the end.

    Args:
        low, high: first and last port, both included.
        node_ids: declared ranges; None for 0 and up, one per port.

    Raises:
        PortsError: a range is empty, a node id is there twice, or there are more ids than ports.
    """

    def __init__(self, low: int, high: int, node_ids: Sequence[range] | None = None) -> None:
        if not 0 < low <= high < 65_536:
            raise PortsError(f"{low}-{high} is not a range of ports; write for instance 19100-19163")
        room = high - low + 1
        ranges = [range(room)] if node_ids is None else list(node_ids)
        self.low, self.high = low, high
        self._port_of: dict[NodeId, int] = {}
        self._node_of: dict[int, NodeId] = {}
        for ids in ranges:
            if not ids or ids[0] < 0 or ids[-1] > _MAX_NODE_ID or ids.step != 1:
                raise PortsError(f"{ids.start}-{ids.stop - 1} is not a range of node ids; write for instance 0-31")
            if len(self._port_of) + len(ids) > room:
                raise PortsError(
                    f"node ids {ids.start}-{ids.stop - 1} need a port each, but {low}-{high} has only {room}; "
                    "widen --node-ports or declare fewer ids"
                )
            for number in ids:
                node_id, port = NodeId(number), low + len(self._port_of)
                if node_id in self._port_of:
                    raise PortsError(f"node id {node_id} is declared twice")
                self._port_of[node_id] = port
                self._node_of[port] = node_id

    def __iter__(self) -> Iterator[tuple[NodeId, int]]:
        return iter(self._port_of.items())

    def __len__(self) -> int:
        return len(self._port_of)

    def port_of(self, node_id: int) -> int | None:
        """Return the port of a node id, or None if the id was not declared."""
        return self._port_of.get(NodeId(node_id))

    def node_of(self, port: int) -> NodeId | None:
        """Return the node id of a port, or None if the port is not one of these."""
        return self._node_of.get(port)

    def why_missing(self, node_id: int, host: str, port: int) -> str:
        """Say for a person why a broker has no port and which setting gives it one."""
        ids = _ranges_text(sorted(self._port_of))
        return (
            f"broker {node_id} at {host}:{port} has no advertised port: --node-ports {self.low}-{self.high} serves the "
            f"node ids {ids}; widen the range, or declare the id, so that clients can reach this broker"
        )


def parse_node_ids(text: str) -> tuple[range, ...]:
    """Read declared node ids such as `1-3,5,1000-1002`.

    Raises:
        PortsError: names the part that is not a node id or a range of them.
    """
    ranges = []
    for part in text.split(","):
        match = re.fullmatch(r"\s*(\d{1,10})\s*(?:-\s*(\d{1,10})\s*)?", part, re.ASCII)
        low, high = (int(match[1]), int(match[2] or match[1])) if match else (1, 0)
        if not low <= high <= _MAX_NODE_ID:
            raise PortsError(
                f"{part.strip()[:100]!r} is not a node id or a range of them; write for instance 1-3,5,1000-1002"
            )
        ranges.append(range(low, high + 1))
    return tuple(ranges)


def _ranges_text(ids: Sequence[int]) -> str:
    parts: list[list[int]] = []
    for number in ids:
        if parts and parts[-1][1] + 1 == number:
            parts[-1][1] = number
        else:
            parts.append([number, number])
    return ",".join(str(low) if low == high else f"{low}-{high}" for low, high in parts)

"""A Kafka cluster that is simulated: nodes that listen on 127.0.0.1 and answer as brokers of a chosen release do.

In: a script of topics, records, share groups and faults. Out: an address that Kafka clients can connect to.
`python -m shareproxy.testing.simulated --help` serves one from the command line.
Must never: store anything, or be mistaken for a broker that takes records from producers.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Collection, Mapping
from typing import Self

from shareproxy.testing.lifetime import START_SECONDS, Lifetime
from shareproxy.testing.simulation.cluster_state import BROKER_PATIENCE, MOST_MEMBERS, ClusterState
from shareproxy.testing.simulation.node import Node
from shareproxy.testing.simulation.record_of_requests import RequestRecord
from shareproxy.testing.simulation.rights import Rights
from shareproxy.testing.simulation.script import locked
from shareproxy.testing.simulation.script_faults import FaultScript
from shareproxy.testing.simulation.share_sessions import MOST_SESSIONS


class SimulatedCluster(Lifetime, FaultScript):
    """A cluster that lives as long as a `with` or an `async with` block.

    With `async with` it is served by the running event loop; with `with` by a thread of its own, for blocking clients.
    All methods that change it may be called from any thread.

    Args:
        nodes: how many; their ids are 1, 2, ….
        version: Kafka release of all nodes, "4.1.2" to "4.4.0".
        versions: node id → release, for nodes that differ.
        users: name → password; then every client has to log in with SASL PLAIN.
        super_users: principals that may do anything, such as "User:admin".
        authorizer: forbid what no ACL allows; otherwise only what an ACL denies is forbidden.
        internal_partitions: of `__consumer_offsets` and `__share_group_state`.
        broker_patience: seconds for which API 90 waits for what does not answer or does not exist, as real brokers do.
        cluster_id: as clients are told.
        assignment_delay: seconds until members that send heartbeats are assigned something; real brokers need up to
            one.
        most_members: of a share group.
        most_share_sessions: of a node.
        clock: returns milliseconds, for records that are given no timestamp.

    Attributes:
        requests: what the nodes were asked.

    Raises:
        ValueError: no such release.
    """

    def __init__(
        self,
        nodes: int = 1,
        version: str = "4.4.0",
        *,
        versions: Mapping[int, str] | None = None,
        users: Mapping[str, str] | None = None,
        super_users: Collection[str] = (),
        authorizer: bool = False,
        internal_partitions: int = 50,
        broker_patience: float = BROKER_PATIENCE,
        cluster_id: str = "simulated-cluster-0001",
        assignment_delay: float = 0.0,
        most_members: int = MOST_MEMBERS,
        most_share_sessions: int = MOST_SESSIONS,
        clock: Callable[[], int] | None = None,
    ) -> None:
        if nodes < 1:
            raise ValueError(f"a cluster needs at least one node, not {nodes}")
        ids = range(1, nodes + 1)
        if strangers := set(versions or {}) - set(ids):
            raise ValueError(f"versions names nodes {sorted(strangers)}, but the nodes are 1 to {nodes}")
        state = ClusterState(
            {node: (versions or {}).get(node, version) for node in ids},
            cluster_id=cluster_id,
            internal_partitions=internal_partitions,
            rights=Rights(everything_allowed=not authorizer, super_users=frozenset(super_users)),
            clock=clock,
            broker_patience=broker_patience,
        )
        state.users.update(users or {})
        state.assignment_delay, state.most_members = assignment_delay, most_members
        for broker in state.brokers.values():
            broker.sessions.most = most_share_sessions
        super().__init__(state)
        self.requests = RequestRecord()
        self._nodes = {node: Node(state, broker, self.requests) for node, broker in state.brokers.items()}

    # -- life ---------------------------------------------------------------------------------------------------------

    async def start(self) -> Self:
        """Listen with all nodes, in the running event loop."""
        self._loop = asyncio.get_running_loop()
        self._state.deadlines.start()
        for node in self._nodes.values():
            node.listen()
        return self

    async def stop(self) -> None:
        """Close everything."""
        for node in self._nodes.values():
            node.close()
        for node in self._nodes.values():
            await node.closed()
        self._state.deadlines.close()
        self._loop = None

    # -- what it is ---------------------------------------------------------------------------------------------------

    @property
    def bootstrap_servers(self) -> str:
        """The addresses of all nodes, "127.0.0.1:port,…"."""
        return ",".join(f"{broker.host}:{broker.port}" for broker in self._state.brokers.values())

    @property
    def cluster_id(self) -> str:
        """What clients are told."""
        return self._state.cluster_id

    def address(self, node: int) -> tuple[str, int]:
        """Return host and port of a node."""
        broker = self._state.brokers[node]
        return broker.host, broker.port

    # -- nodes --------------------------------------------------------------------------------------------------------

    @locked
    def freeze_node(self, node: int) -> None:
        """Let a node take requests and answer none; it stays in the metadata."""
        self._state.brokers[node].frozen = True

    def thaw_node(self, node: int) -> None:
        """Let a frozen node go on, with what it was asked meanwhile."""
        with self._state.lock:
            self._state.brokers[node].frozen = False
        self._in_loop(self._nodes[node].thawed)

    def stop_node(self, node: int) -> None:
        """Stop a node: its connections end, its partitions go to other replicas, or have no leader."""
        self._leave(node)
        self._in_loop(self._nodes[node].close)

    def start_node(self, node: int) -> None:
        """Start a stopped node on its old port; it leads again what has no leader and a replica there."""
        self._in_loop(self._nodes[node].listen)
        with self._state.lock:
            self._state.brokers[node].alive = True
            for topic in self._state.topics.by_name.values():
                for row in topic.partitions:
                    if row.leader is None and node in row.replicas:
                        row.lead(node)

    def _leave(self, node: int) -> None:
        with self._state.lock:
            self._state.brokers[node].alive = False
            self._state.brokers[node].sessions.clear()
            brokers = self._state.brokers
            for topic in self._state.topics.by_name.values():
                for index, row in enumerate(topic.partitions):
                    if row.leader == node:
                        row.lead(next((other for other in row.replicas if brokers[other].alive), None))
                        self._state.leader_lost(topic, index)

    def drop_connections(self, node: int) -> None:
        """Cut all connections of a node; it goes on listening."""
        self._in_loop(self._nodes[node].drop_connections)

    def _in_loop(self, work: Callable[[], None]) -> None:
        if self._loop is None:
            return
        if self._inside():
            work()
            return
        done = threading.Event()

        def run() -> None:
            try:
                work()
            finally:
                done.set()

        self._loop.call_soon_threadsafe(run)
        done.wait(START_SECONDS)


if __name__ == "__main__":
    from shareproxy.testing.simulation.command import main

    raise SystemExit(main())

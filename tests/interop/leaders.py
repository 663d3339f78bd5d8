"""A topic comes in; the same topic with every partition led by another node goes out.

Must never be used on a cluster that is not a test's own.
"""

from __future__ import annotations

import warnings
from typing import Any

from tests.support.waiting import wait_until

PREFERRED = 0
GROUP_IS_THERE = "Stable"


class Leaders:
    """An admin client connected to the brokers themselves.

    Args:
        bootstrap_servers: the brokers.
    """

    def __init__(self, bootstrap_servers: str) -> None:
        with warnings.catch_warnings(action="ignore"):  # it reads its schemas in a deprecated way
            from kafka import KafkaAdminClient

            self._admin: Any = KafkaAdminClient(bootstrap_servers=bootstrap_servers)

    def close(self) -> None:
        """Close its connections."""
        self._admin.close()

    def wait_for_group(self, group: str) -> None:
        """Return when a classic group has shared out its partitions."""
        wait_until(lambda: self._state(group) == GROUP_IS_THERE, f"group {group} is {GROUP_IS_THERE}")

    def move(self, topic: str) -> None:
        """Let the next replica of each partition lead it, and return when all do."""
        from kafka import TopicPartition

        rows = self._partitions(topic)
        wanted = {row["partition_index"]: [*row["replica_nodes"][1:], row["replica_nodes"][0]] for row in rows}
        self._admin.alter_partition_reassignments({TopicPartition(topic, p): nodes for p, nodes in wanted.items()})

        def all_moved() -> bool:
            self._admin.elect_leaders(PREFERRED, {topic: list(wanted)}, raise_errors=False)
            return all(row["leader_id"] == wanted[row["partition_index"]][0] for row in self._partitions(topic))

        wait_until(all_moved, f"the leaders of {topic} have moved")

    def _state(self, group: str) -> str:
        from kafka.errors import RetriableError

        try:
            return str(self._admin.describe_groups([group])[group]["group_state"])
        except RetriableError:
            return ""  # a cluster's first group has no coordinator yet

    def _partitions(self, topic: str) -> list[dict[str, Any]]:
        return list(self._admin.describe_topics([topic])[0]["partitions"])

"""What goes wrong in a cluster, as a test writes it down.

In: calls. Out: faults that can be lifted. Must never: happen by chance.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from shareproxy.protocol.message import Request
from shareproxy.testing.simulation.cluster_state import SHARE_TOPIC
from shareproxy.testing.simulation.faults import Fault, Kind, OwnAnswer
from shareproxy.testing.simulation.rights import CLUSTER_NAME, AclEntry
from shareproxy.testing.simulation.script import locked
from shareproxy.testing.simulation.script_groups import GroupScript
from shareproxy.testing.simulation.steps import Step

Apis = int | type[Request[Any]] | Collection[int | type[Request[Any]]] | None
"""One API or some, as keys or request classes; None is every one."""


class FaultScript(GroupScript):
    """What can be made to fail."""

    @locked
    def fail(
        self,
        apis: Apis,
        code: int,
        *,
        node: int | None = None,
        group: str | None = None,
        topic: str | None = None,
        partition: int | None = None,
        step: Step | str | None = None,
        times: int | None = None,
    ) -> Fault:
        """Answer with an error code: of one partition, topic or group if named, else of whatever the API has one for.

        With a topic and the step "acknowledge" or "renew" it is the code of acknowledgements, also in a ShareFetch;
        they do not count then. With a topic and another step, or none, it is that of a ShareFetch's records.

        Args:
            apis: API keys.
            code: Kafka's error code.
            node: only on this node.
            group: only for this group.
            topic: only for this topic.
            partition: only for this partition.
            step: only at this step of a share consumer's life: "join", "heartbeat", "leave", "open", "fetch",
                "acknowledge", "renew" or "close"; a fetch that carries acknowledgements is two of them.
            times: how often; None until it is lifted.
        """
        place: dict[str, Any] = {"node": node, "group": group, "topic": topic, "partition": partition}
        return self._add(Kind.CODE, code, apis, step=step, times=times, **place)

    @locked
    def slow(
        self,
        seconds: float,
        apis: Apis = None,
        *,
        node: int | None = None,
        step: Step | str | None = None,
        times: int | None = None,
    ) -> Fault:
        """Answer late; what was asked is done at once."""
        return self._add(Kind.DELAY, seconds, apis, node=node, step=step, times=times)

    @locked
    def throttle(
        self, milliseconds: int, apis: Apis = None, *, node: int | None = None, times: int | None = None
    ) -> Fault:
        """Put a throttle time into answers that have a field for it; nothing is slower for it."""
        return self._add(Kind.THROTTLE, milliseconds, apis, node=node, times=times)

    @locked
    def cut(
        self,
        apis: Apis = None,
        *,
        after_bytes: int = 0,
        node: int | None = None,
        step: Step | str | None = None,
        times: int | None = 1,
    ) -> Fault:
        """Close the connection on a request, without an answer or after some bytes of it.

        Args:
            apis: API keys.
            after_bytes: of the answer, size included; 0 for none: then nothing of what was asked is done.
            node: only on this node.
            step: only at this step of a share consumer's life.
            times: how often; None until it is lifted.
        """
        return self._add(Kind.CUT, after_bytes, apis, node=node, step=step, times=times)

    @locked
    def lose(
        self,
        apis: Apis = None,
        *,
        close: bool = True,
        node: int | None = None,
        step: Step | str | None = None,
        times: int | None = 1,
    ) -> Fault:
        """Do what a request asks for, and lose the answer.

        Args:
            apis: API keys.
            close: the connection ends then; else nothing comes, and the client has to lose patience.
            node: only on this node.
            step: only at this step of a share consumer's life.
            times: how often; None until it is lifted.
        """
        return self._add(Kind.LOSE, close, apis, node=node, step=step, times=times)

    @locked
    def answer_with(self, apis: Apis, answer: OwnAnswer, *, node: int | None = None, times: int | None = None) -> Fault:
        """Answer with what a function returns: a message, the bytes of a frame without size, or None for the usual."""
        return self._add(Kind.ANSWER, 0, apis, node=node, times=times, answer=answer)

    @locked
    def lift_all_faults(self) -> None:
        """End all of the above."""
        self._state.faults.clear()

    def _add(self, kind: Kind, value: float, apis: Apis, *, step: Step | str | None = None, **more: Any) -> Fault:
        about = None if step is None else Step(step)
        return self._state.faults.add(Fault(self._state.faults, kind, value, apis=_keys(apis), step=about, **more))

    # -- coordinators -------------------------------------------------------------------------------------------------

    @locked
    def group_coordinator(self, group: str) -> int | None:
        """Return the node that coordinates a group, None while nobody does."""
        self._state.group_partition(group)
        return self._state.group_coordinator(group)

    @locked
    def share_coordinator(self, group: str, topic: str, partition: int = 0) -> int | None:
        """Return the node that keeps the state of a share partition, None while nobody does."""
        self._state.internal_topic(SHARE_TOPIC)
        return self._state.share_coordinators(group, self._state.topics.get(topic).topic_id)(partition)

    def move_group_coordinator(self, group: str, node: int | None) -> None:
        """Let another node coordinate a group, and all groups that hash to the same partition; None for nobody."""
        self.move_leader("__consumer_offsets", self._state.group_partition(group), node)

    def move_share_coordinator(self, group: str, topic: str, partition: int, node: int | None) -> None:
        """Let another node keep the state of a share partition, and of all that hash to the same place."""
        topic_id = self._state.topics.get(topic).topic_id
        self.move_leader(SHARE_TOPIC, self._state.share_partition_number(group, topic_id, partition), node)

    @locked
    def load(self, group: str, *, loading: bool = True) -> None:
        """Let the coordinator of a group be busy loading (error 14), or be done with it."""
        (self._state.loading.add if loading else self._state.loading.discard)(group)

    @locked
    def hide_from_coordinators(self, topic: str, *, hidden: bool = True) -> None:
        """Let coordinators not know a topic yet that Metadata has, as in the first second after it was created."""
        self._state.topics.get(topic)
        (self._state.new_topics.add if hidden else self._state.new_topics.discard)(topic)

    @locked
    def set_share_version(self, level: int | None) -> None:
        """Set the level of the feature `share.version`; 0 switches share groups off, None is each release's own."""
        self._state.share_version = level

    @locked
    def hold_dead_letters(self, group: str, *, held: bool = True) -> None:
        """Let the dead-letter topic of a group take nothing: rejected records stay in the state archiving (KIP-1191).

        Only where `errors.deadletterqueue.topic.name` is set for the group.
        """
        if held:
            self._state.dead_letters_held.add(group)
            return
        self._state.dead_letters_held.discard(group)
        found = self._share_group(group)
        for topic_id, partitions in found.partitions.items():
            for index, row in partitions.items():
                if row.leader is not None:
                    topic = self._state.topics.by_id[topic_id]
                    row.leader.finish_dead_letters(self._state.rules(group), self._state.writer(found, topic, index))

    # -- rights -------------------------------------------------------------------------------------------------------

    @locked
    def add_acl(self, principal: str, resource: str, name: str, operation: str, permission: str = "ALLOW") -> None:
        """Add one ACL, such as ("User:alice", "GROUP", "g1", "DESCRIBE"); "DENY" wins over "ALLOW".

        Without users everybody is "User:ANONYMOUS". The name of the one CLUSTER is "kafka-cluster".
        """
        self._state.rights.entries.append(AclEntry(principal, resource, name, operation, permission))

    @locked
    def remove_acl(self, principal: str, resource: str, name: str, operation: str, permission: str = "ALLOW") -> int:
        """Remove one ACL, and return how many were found."""
        entry, entries = AclEntry(principal, resource, name, operation, permission), self._state.rights.entries
        found = entries.count(entry)
        self._state.rights.entries[:] = [other for other in entries if other != entry]
        return found

    def deny(self, operation: str, resource: str = "CLUSTER", name: str = CLUSTER_NAME) -> None:
        """Forbid everybody an operation, such as ("DESCRIBE", "GROUP", "g1") or ("CLUSTER_ACTION")."""
        self.add_acl("User:*", resource, name, operation, "DENY")


def _keys(apis: Apis) -> list[int] | None:
    if apis is None:
        return None
    if isinstance(apis, int | type):
        apis = (apis,)
    return [api if isinstance(api, int) else api.api_key for api in apis]

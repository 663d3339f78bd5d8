"""Who may do what, as Kafka's standard authorizer decides.

In: entries, and whether what no entry speaks of is allowed. Out: yes or no. Must never: forbid a super user.
"""

from __future__ import annotations

from typing import Final

import msgspec

ANONYMOUS: Final = "User:ANONYMOUS"
CLUSTER_NAME: Final = "kafka-cluster"
ANY: Final = "*"
# what an answer has in place of the operations where nobody asked for them
NOT_TOLD: Final = -(2**31)

# codes of Kafka's AclOperation; what an answer tells of a caller's rights has one bit for each
_CODES: Final = {
    "READ": 3,
    "WRITE": 4,
    "CREATE": 5,
    "DELETE": 6,
    "ALTER": 7,
    "DESCRIBE": 8,
    "DESCRIBE_CONFIGS": 10,
    "ALTER_CONFIGS": 11,
}
_OPERATIONS: Final = {
    "TOPIC": tuple(_CODES),
    "GROUP": ("READ", "DELETE", "DESCRIBE", "DESCRIBE_CONFIGS", "ALTER_CONFIGS"),
}

# the right to do one of these is the right to look as well
_IMPLIED: Final = {
    "DESCRIBE": ("DESCRIBE", "READ", "WRITE", "DELETE", "ALTER"),
    "DESCRIBE_CONFIGS": ("DESCRIBE_CONFIGS", "ALTER_CONFIGS"),
}


class AclEntry(msgspec.Struct, frozen=True):
    """One entry; `principal` and `name` may be "*"."""

    principal: str
    resource: str
    name: str
    operation: str
    permission: str = "ALLOW"

    def covers(self, principal: str, resource: str, name: str) -> bool:
        """Tell whether the entry speaks of this principal and resource."""
        return self.principal in (principal, "User:*") and self.resource == resource and self.name in (name, ANY)


class Rights:
    """The entries of a cluster.

    Args:
        everything_allowed: what no entry speaks of is allowed, as without an authorizer.
        super_users: principals, such as "User:admin".
    """

    def __init__(self, *, everything_allowed: bool = True, super_users: frozenset[str] = frozenset()) -> None:
        self.entries: list[AclEntry] = []
        self._open, self._super_users = everything_allowed, super_users

    @property
    def unlimited(self) -> bool:
        """Nobody is kept from anything, so that nothing need be asked row by row."""
        return self._open and not self.entries

    def may(self, principal: str, operation: str, resource: str, name: str = CLUSTER_NAME) -> bool:
        """Tell whether a principal may do an operation on a resource.

        Args:
            principal: such as "User:alice".
            operation: DESCRIBE, READ, ALTER, CLUSTER_ACTION …
            resource: TOPIC, GROUP or CLUSTER.
            name: of the topic or group.
        """
        if self.unlimited or principal in self._super_users:
            return True
        covering = [entry for entry in self.entries if entry.covers(principal, resource, name)]
        if any(entry.permission == "DENY" and entry.operation in (operation, "ALL") for entry in covering):
            return False
        enough = (*_IMPLIED.get(operation, (operation,)), "ALL")
        return self._open or any(entry.permission == "ALLOW" and entry.operation in enough for entry in covering)

    def operations(self, principal: str, resource: str, name: str) -> int:
        """Return what a principal may do with a topic or group, one bit for each operation (KIP-430)."""
        allowed = (each for each in _OPERATIONS[resource] if self.may(principal, each, resource, name))
        return sum(1 << _CODES[each] for each in allowed)

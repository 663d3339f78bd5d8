"""Find out before joining whether this user may consume as asked, from what brokers say about it themselves.

In: a cluster, the group, its topics. Out: nothing, or one sentence that names every right that is missing.
Must never: join or create anything, try a right by using it, or refuse because of what it could not see.
"""

from __future__ import annotations

from collections.abc import Sequence

from shareproxy.admin.errors import AccessDenied
from shareproxy.admin.failures import READ, translated
from shareproxy.lag.brokers import Brokers
from shareproxy.lag.rights import may_read_group, topic_rights
from shareproxy.protocol.errors import ErrorCode
from shareproxy.protocol.ids import GroupId


async def check_rights(brokers: Brokers, group: str, topics: Sequence[str], *, deadline: float) -> None:
    """Check that this user has READ on a group and on its topics, which is all that consuming takes.

    Args:
        brokers: where to ask.
        group: its name; it need not be there, and may be of any type.
        topics: by name; those that are not there are left out, as nothing is told of them.
        deadline: `loop.time()` seconds.

    Raises:
        AccessDenied: names what READ is missing on, and the command that grants it.
        CannotReach: nobody answered.

    Source: KIP-430.
    """
    with translated(group):
        may_read = await may_read_group(brokers, GroupId(group), deadline=deadline)
        found = await topic_rights(brokers, topics, deadline=deadline)
    unread = [topic.topic for topic in found if topic.read is False]
    missing = [("group", group)] * (may_read is False) + [("topic", topic) for topic in unread]
    if not missing:
        return
    resources = " and ".join(f"{kind} {name!r}" for kind, name in missing)
    flags = " ".join(f"--{kind} {name}" for kind, name in missing)
    code = ErrorCode.GROUP_AUTHORIZATION_FAILED if may_read is False else ErrorCode.TOPIC_AUTHORIZATION_FAILED
    raise AccessDenied(
        f"this user lacks READ on {resources}; grant it: kafka-acls.sh --bootstrap-server HOST:PORT --add "
        f"--allow-principal User:NAME --operation Read {flags}",
        int(code),
        operation=READ,
        resource=resources,
    )

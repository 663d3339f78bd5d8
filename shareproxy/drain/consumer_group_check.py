"""Find out before joining whether a consumer group can be used as asked (R6, the other way round).

In: a cluster, the group, its topics. Out: nothing, or an exception whose sentence says what to do.
Must never: join, create or change anything, or refuse because of what it could not see.
"""

from __future__ import annotations

from collections.abc import Collection

from shareproxy.admin.errors import AccessDenied, UnknownTopic, WrongArgument
from shareproxy.admin.failures import translated
from shareproxy.cluster.errors import Unreachable
from shareproxy.lag.brokers import Brokers
from shareproxy.lag.listings import CLASSIC, list_groups
from shareproxy.protocol.errors import ErrorCode


async def check_consumer_group(brokers: Brokers, group: str, topics: Collection[str], *, deadline: float) -> None:
    """Check that the topics are there, and that no group of another type has the name.

    Args:
        brokers: where to ask.
        group: its name.
        topics: by name.
        deadline: `loop.time()` seconds.

    Raises:
        WrongArgument: there is a group of that name that is no consumer group.
        UnknownTopic: a topic does not exist, or may not be seen.
        AccessDenied: the login, or DESCRIBE on a topic, is missing.
        CannotReach: nobody answered.
    """
    with translated(group):
        metadata = await brokers.metadata(sorted(topics), deadline=deadline)
        for name in sorted(topics):
            topic = metadata.topics.get(name)
            code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION if topic is None else topic.error_code
            if code == ErrorCode.TOPIC_AUTHORIZATION_FAILED:
                text = f"this user may not see topic {name!r}; grant DESCRIBE and READ on the topic"
                raise AccessDenied(text, code, operation="DESCRIBE", resource=f"topic {name!r}")
            if code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                raise UnknownTopic(f"topic {name!r} does not exist; check the name, or make the topic first", code)
        try:
            listing = await list_groups(brokers, deadline=deadline)
        except Unreachable:
            return  # the answer to the join tells, too
    listed = next((found for found in listing.groups if found.group == group), None)
    if listed is None or listed.state == "Dead" or listed.type in ("consumer", CLASSIC):
        return
    raise WrongArgument(
        f"the name {group!r} is taken: it is a {listed.type} group"
        + ("" if listed.state is None else f", state {listed.state}")
        + ", which cannot be joined as a consumer group, even without members; choose another group.id"
    )

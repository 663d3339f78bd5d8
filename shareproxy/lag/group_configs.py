"""Read the configuration of groups.

In: groups. Out: their settings by name, or the trouble. Must never: fail all groups because of one, or change one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

import msgspec

from shareproxy.cluster.errors import ClusterError
from shareproxy.cluster.retries import Retry
from shareproxy.lag.brokers import Brokers, Trouble, trouble_from_code, trouble_from_error
from shareproxy.lag.groups import GROUP_RESOURCE, LEFT_OUT
from shareproxy.lag.model import Status
from shareproxy.lag.rounds import share_of_time
from shareproxy.protocol.errors import ErrorCode
from shareproxy.protocol.ids import GroupId
from shareproxy.protocol.messages import DescribeConfigsRequest, DescribeConfigsResource, DescribeConfigsResponse

# an answer has some kilobytes per group
GROUPS_PER_REQUEST: Final = 500

ISOLATION_LEVEL: Final = "share.isolation.level"
AUTO_OFFSET_RESET: Final = "share.auto.offset.reset"
RECORD_LOCK_DURATION: Final = "share.record.lock.duration.ms"
DELIVERY_COUNT_LIMIT: Final = "share.delivery.count.limit"
MAX_RECORD_LOCKS: Final = "share.partition.max.record.locks"
DEAD_LETTER_TOPIC: Final = "errors.deadletterqueue.topic.name"

_DEFAULT_CONFIG: Final = 5


class GroupConfig(msgspec.Struct, frozen=True):
    """One setting of a group.

    Attributes:
        value: `None` where the broker keeps it secret.
        is_default: whether nobody set it, neither on the group nor on the brokers.
        source: Kafka's number for where the value comes from: 8 the group, 5 the default.
    """

    name: str
    value: str | None
    is_default: bool
    source: int

    def to_dict(self) -> dict[str, object]:
        """Return the documented JSON object."""
        return {"name": self.name, "value": self.value, "is_default": self.is_default, "source": self.source}


async def group_configs(
    brokers: Brokers, groups: Sequence[GroupId], *, deadline: float
) -> dict[GroupId, Mapping[str, GroupConfig] | Trouble]:
    """Return the settings of each group by name, or why they are not known.

    A group need not exist: settings can be there before it.

    Args:
        brokers: where to ask; any broker answers.
        groups: their names.
        deadline: `loop.time()` seconds.

    Source: KIP-848, KIP-932 (resource type GROUP).
    """
    found: dict[GroupId, Mapping[str, GroupConfig] | Trouble] = {}
    for first in range(0, len(groups), GROUPS_PER_REQUEST):
        asked = groups[first : first + GROUPS_PER_REQUEST]
        # None asks for all settings: one that a broker does not know would be left out without an error
        resources = [DescribeConfigsResource(GROUP_RESOURCE, group, None) for group in asked]
        try:
            response = await _ask(brokers, DescribeConfigsRequest(resources), deadline)
        except ClusterError as error:
            found.update(dict.fromkeys(asked, trouble_from_error(error)))
            continue
        for result in response.results:
            group = GroupId(result.resource_name)
            if result.error_code:
                found[group] = _trouble(group, result.error_code, result.error_message)
            else:
                found[group] = {
                    config.name: GroupConfig(
                        config.name, config.value, config.config_source == _DEFAULT_CONFIG, config.config_source
                    )
                    for config in result.configs
                }
    return {group: found.get(group, LEFT_OUT) for group in groups}


async def _ask(brokers: Brokers, request: DescribeConfigsRequest, deadline: float) -> DescribeConfigsResponse:
    """Ask any broker; if that one hangs or has gone, another."""
    try:
        return await brokers.request(None, request, deadline=share_of_time(deadline, 0.5))
    except ClusterError as error:
        if error.retry is Retry.FINAL:
            raise
    return await brokers.request(None, request, deadline=deadline)


def _trouble(group: GroupId, code: int, text: str | None) -> Trouble:
    if code == ErrorCode.GROUP_AUTHORIZATION_FAILED:
        advice = f"this user may not see the configuration of group {group!r}; grant DESCRIBE_CONFIGS on the group"
        return Trouble(Status.NOT_AUTHORIZED, code, advice)
    return trouble_from_code(code, text)

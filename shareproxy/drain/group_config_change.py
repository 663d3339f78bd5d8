"""Set a configuration of a group, or find out whether that would work.

In: the group, a name, a value. Out: nothing once brokers show it, or an exception.
Must never: touch another setting.
"""

from __future__ import annotations

import re
from typing import Final

from shareproxy.admin.errors import AccessDenied, AdminError, TimedOut, WrongArgument
from shareproxy.admin.failures import translated
from shareproxy.cluster.retries import Backoff
from shareproxy.lag.brokers import Brokers, Trouble
from shareproxy.lag.group_configs import group_configs
from shareproxy.lag.groups import GROUP_RESOURCE
from shareproxy.protocol.errors import ErrorCode, error_name
from shareproxy.protocol.ids import GroupId
from shareproxy.protocol.messages import (
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsRequestAlterableConfig,
    IncrementalAlterConfigsRequestAlterConfigsResource,
)

_SET: Final = 0
_INVALID_CONFIG: Final = 40
_WRONG: Final = (_INVALID_CONFIG, ErrorCode.INVALID_REQUEST)
_DURATION: Final = re.compile(r"by_duration:P(?=.)(\d+D)?(T(?=.)(\d+H)?(\d+M)?(\d+(\.\d+)?S)?)?")


def auto_offset_reset(text: str) -> str:
    """Return a value of share.auto.offset.reset as Kafka wants it.

    Raises:
        WrongArgument: it is none.
    """
    value = text.strip()
    if value in ("earliest", "latest") or _DURATION.fullmatch(value):
        return value
    raise WrongArgument(
        f"share.auto.offset.reset: {text!r} is not earliest, latest or by_duration: with an ISO 8601 duration; "
        "write for instance by_duration:PT1H for the last hour, by_duration:P2D for two days"
    )


async def set_group_config(
    brokers: Brokers, group: str, name: str, value: str, *, validate_only: bool = False, deadline: float
) -> None:
    """Set a configuration of a group, which need not exist, and wait until brokers show it.

    Args:
        brokers: where to ask.
        group: its name.
        name: of the setting.
        value: as text.
        validate_only: only find out whether it would work.
        deadline: `loop.time()` seconds.

    Raises:
        WrongArgument: the brokers do not take the value, or do not know the setting.
        AccessDenied: ALTER_CONFIGS on the group is missing.
        TimedOut: the brokers took it and do not show it yet.

    Source: KIP-932, IncrementalAlterConfigs (API 44, resource type 32).
    """
    config = IncrementalAlterConfigsRequestAlterableConfig(name, _SET, value)
    resource = IncrementalAlterConfigsRequestAlterConfigsResource(GROUP_RESOURCE, group, [config])
    request = IncrementalAlterConfigsRequest([resource], validate_only)
    with translated(group, changing=not validate_only):
        answer = await brokers.request(None, request, deadline=deadline)
    for row in answer.responses:
        if row.error_code:
            raise _refusal(group, name, value, row.error_code, row.error_message)
    if validate_only:
        return
    backoff = Backoff()
    with translated(group):
        while await _shown(brokers, GroupId(group), name, deadline) != value:
            if not await backoff.pause(deadline):
                raise TimedOut(f"group {group!r}: the brokers took {name}={value}, but do not show it yet")


async def _shown(brokers: Brokers, group: GroupId, name: str, deadline: float) -> str | None:
    found = (await group_configs(brokers, [group], deadline=deadline))[group]
    return None if isinstance(found, Trouble) or name not in found else found[name].value


def _refusal(group: str, name: str, value: str, code: int, text: str | None) -> AdminError:
    reason = (text or "the broker gave no reason").rstrip(".")
    if code in (ErrorCode.GROUP_AUTHORIZATION_FAILED, ErrorCode.CLUSTER_AUTHORIZATION_FAILED):
        return AccessDenied(
            f"this user may not configure group {group!r}: ALTER_CONFIGS on the group is needed",
            code,
            operation="ALTER_CONFIGS",
            resource=f"group {group!r}",
        )
    if code in _WRONG:
        return WrongArgument(f"group {group!r}: the brokers do not take {name}={value}: {reason}", code)
    return AdminError(f"group {group!r}: {name}={value} was not set: {reason} (error {code} {error_name(code)})", code)

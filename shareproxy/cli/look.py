"""Look at the lag of named groups, whichever type they are.

In: an admin client and names. Out: the report on share groups, and the lag of those that are consumer groups instead.
Must never: show one group twice.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Sequence

    from shareproxy.admin import ShareAdmin
    from shareproxy.lag.consumer_model import ConsumerGroupLag
    from shareproxy.lag.model import LagReport
    from shareproxy.lag.visible_model import Want

OTHER_TYPE: Final = "NOT_A_SHARE_GROUP"


class Looked(NamedTuple):
    """What was found.

    Attributes:
        report: share groups, and names that are no group at all.
        consumer_groups: consumer and classic groups.
    """

    report: LagReport
    consumer_groups: tuple[ConsumerGroupLag, ...] = ()


async def look(
    admin: ShareAdmin,
    groups: Sequence[str] | None,
    *,
    topics: Sequence[str] | None = None,
    want: Want | None = None,
    timeout: float,
) -> Looked:
    """Return the lag of share groups, and of those names that turn out to be consumer groups.

    Args:
        admin: whom to ask.
        groups: names; `None` for every share group.
        topics: look at these only.
        want: what to find out besides the lag, `None` for nothing.
        timeout: seconds for all of it.
    """
    import msgspec

    from shareproxy.cli.time_left import TimeLeft
    from shareproxy.lag.visible_model import Want

    left = TimeLeft(timeout)
    report = await admin.lag(groups, topics=topics, want=want, timeout=left.seconds())
    others = [g.group for g in report.groups if g.error is not None and g.error.name == OTHER_TYPE]
    if not others:
        return Looked(report)
    closer = want is not None and want != Want.LOG_END
    consumed = await admin.consumer_lag(others, topics=topics, look_closer=closer, timeout=left.seconds())
    answered = tuple(group for group in consumed.groups if group.error is None or group.error.name != OTHER_TYPE)
    names = {group.group for group in answered}
    kept = tuple(group for group in report.groups if group.group not in names)
    problems = (*report.problems, *consumed.problems)
    return Looked(msgspec.structs.replace(report, groups=kept, problems=problems), answered)

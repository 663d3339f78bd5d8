"""Share-group lag for every Kafka client, and share consumers for Python.

The names below are the public API. They are loaded when first used: the command line has to start fast.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Final

from shareproxy.version import __version__

if TYPE_CHECKING:
    from shareproxy.admin.errors import (
        AccessDenied,
        AdminError,
        CannotReach,
        GroupNotEmpty,
        GroupNotFound,
        NotAShareGroup,
        NotSupported,
        OffsetRefused,
        TimedOut,
        UnknownTopic,
        WrongArgument,
    )
    from shareproxy.admin.results import (
        AlteredOffset,
        AlterResult,
        DeletedTopic,
        DeleteResult,
        OffsetPlan,
        PlannedOffset,
        ShareOffset,
        Snapshot,
    )
    from shareproxy.admin.share_admin import ShareAdmin
    from shareproxy.admin.targets import Earliest, Latest, Shift, ToOffset, ToTime
    from shareproxy.cluster.security import Security
    from shareproxy.drain.batch import RecordBatch
    from shareproxy.drain.commit_results import CommitResult, CommitStats
    from shareproxy.drain.committer import ReconcilingCommitter
    from shareproxy.drain.consumer import ShareConsumer
    from shareproxy.drain.errors import ConsumerClosed, DrainError, GroupIsFull
    from shareproxy.drain.events import (
        AcknowledgementsLost,
        AssignmentChanged,
        BrokerLost,
        ConsumerEvent,
        GapsAcknowledged,
        GroupFull,
        LeaderMoved,
        LockLost,
        MemberFenced,
        PartitionRefused,
        RecordsGivenBack,
        RecordsSkipped,
        SessionReopened,
    )
    from shareproxy.drain.handlers import run, run_worker
    from shareproxy.drain.model import (
        Acknowledgement,
        AckResult,
        AckResults,
        AcquireMode,
        OffsetRange,
        TimestampType,
        TopicPartition,
    )
    from shareproxy.drain.record import ShareRecord
    from shareproxy.drain.retry_delay import Retry
    from shareproxy.drain.sink import Fatal, Outcome, RejectRecord, Retriable
    from shareproxy.drain.tickets import AckTicket, BatchTicket
    from shareproxy.lag.consumer_model import (
        ConsumerGroupLag,
        ConsumerLagReport,
        ConsumerPartitionLag,
        ConsumerStatus,
    )
    from shareproxy.lag.descriptions import AssignedTopic, GroupDescription, Member
    from shareproxy.lag.group_configs import GroupConfig
    from shareproxy.lag.listings import GroupListing, ListedGroup
    from shareproxy.lag.model import GroupError, GroupLag, LagReport, PartitionLag, Source, SourceChoice, Status
    from shareproxy.lag.rates import GroupRates, PartitionRates
    from shareproxy.lag.visible_model import GroupVisible, PartitionVisible, Want

_WHERE: Final = {
    "shareproxy.admin.errors": (
        "AccessDenied",
        "AdminError",
        "CannotReach",
        "GroupNotEmpty",
        "GroupNotFound",
        "NotAShareGroup",
        "NotSupported",
        "OffsetRefused",
        "TimedOut",
        "UnknownTopic",
        "WrongArgument",
    ),
    "shareproxy.admin.results": (
        "AlterResult",
        "AlteredOffset",
        "DeleteResult",
        "DeletedTopic",
        "OffsetPlan",
        "PlannedOffset",
        "ShareOffset",
        "Snapshot",
    ),
    "shareproxy.admin.share_admin": ("ShareAdmin",),
    "shareproxy.admin.targets": ("Earliest", "Latest", "Shift", "ToOffset", "ToTime"),
    "shareproxy.cluster.security": ("Security",),
    "shareproxy.drain.batch": ("RecordBatch",),
    "shareproxy.drain.commit_results": ("CommitResult", "CommitStats"),
    "shareproxy.drain.committer": ("ReconcilingCommitter",),
    "shareproxy.drain.consumer": ("ShareConsumer",),
    "shareproxy.drain.errors": (
        "ConsumerClosed",
        "DrainError",
        "GroupIsFull",
    ),
    "shareproxy.drain.events": (
        "AcknowledgementsLost",
        "AssignmentChanged",
        "BrokerLost",
        "ConsumerEvent",
        "GapsAcknowledged",
        "GroupFull",
        "LeaderMoved",
        "LockLost",
        "MemberFenced",
        "PartitionRefused",
        "RecordsGivenBack",
        "RecordsSkipped",
        "SessionReopened",
    ),
    "shareproxy.drain.handlers": (
        "run",
        "run_worker",
    ),
    "shareproxy.drain.model": (
        "AcquireMode",
        "Acknowledgement",
        "AckResult",
        "AckResults",
        "OffsetRange",
        "TimestampType",
        "TopicPartition",
    ),
    "shareproxy.drain.record": ("ShareRecord",),
    "shareproxy.drain.retry_delay": ("Retry",),
    "shareproxy.drain.sink": (
        "Fatal",
        "Outcome",
        "RejectRecord",
        "Retriable",
    ),
    "shareproxy.drain.tickets": (
        "AckTicket",
        "BatchTicket",
    ),
    "shareproxy.lag.consumer_model": (
        "ConsumerGroupLag",
        "ConsumerLagReport",
        "ConsumerPartitionLag",
        "ConsumerStatus",
    ),
    "shareproxy.lag.descriptions": ("AssignedTopic", "GroupDescription", "Member"),
    "shareproxy.lag.group_configs": ("GroupConfig",),
    "shareproxy.lag.listings": ("GroupListing", "ListedGroup"),
    "shareproxy.lag.model": (
        "GroupError",
        "GroupLag",
        "LagReport",
        "PartitionLag",
        "Source",
        "SourceChoice",
        "Status",
    ),
    "shareproxy.lag.rates": ("GroupRates", "PartitionRates"),
    "shareproxy.lag.visible_model": ("GroupVisible", "PartitionVisible", "Want"),
}
_MODULE_OF: Final = {name: module for module, names in _WHERE.items() for name in names}

__all__ = [
    "__version__",
    "AccessDenied",
    "AckResult",
    "AckResults",
    "AckTicket",
    "Acknowledgement",
    "AcknowledgementsLost",
    "AcquireMode",
    "AdminError",
    "AlterResult",
    "AlteredOffset",
    "AssignedTopic",
    "AssignmentChanged",
    "BatchTicket",
    "BrokerLost",
    "CannotReach",
    "CommitResult",
    "CommitStats",
    "ConsumerClosed",
    "ConsumerEvent",
    "ConsumerGroupLag",
    "ConsumerLagReport",
    "ConsumerPartitionLag",
    "ConsumerStatus",
    "DeleteResult",
    "DeletedTopic",
    "DrainError",
    "Earliest",
    "Fatal",
    "GapsAcknowledged",
    "GroupConfig",
    "GroupDescription",
    "GroupError",
    "GroupFull",
    "GroupIsFull",
    "GroupLag",
    "GroupListing",
    "GroupNotEmpty",
    "GroupNotFound",
    "GroupRates",
    "GroupVisible",
    "LagReport",
    "Latest",
    "LeaderMoved",
    "ListedGroup",
    "LockLost",
    "Member",
    "MemberFenced",
    "NotAShareGroup",
    "NotSupported",
    "OffsetPlan",
    "OffsetRange",
    "OffsetRefused",
    "Outcome",
    "PartitionLag",
    "PartitionRates",
    "PartitionRefused",
    "PartitionVisible",
    "PlannedOffset",
    "ReconcilingCommitter",
    "RecordBatch",
    "RecordsGivenBack",
    "RecordsSkipped",
    "RejectRecord",
    "Retriable",
    "Retry",
    "Security",
    "SessionReopened",
    "ShareAdmin",
    "ShareConsumer",
    "ShareOffset",
    "ShareRecord",
    "Shift",
    "Snapshot",
    "Source",
    "SourceChoice",
    "Status",
    "TimedOut",
    "TimestampType",
    "ToOffset",
    "ToTime",
    "TopicPartition",
    "UnknownTopic",
    "Want",
    "WrongArgument",
    "run",
    "run_worker",
]


if not TYPE_CHECKING:  # a type checker would take every name for one that exists

    def __getattr__(name: str) -> object:
        """Load a public name when it is first used."""
        module = _MODULE_OF.get(name)
        if module is None:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        found: object = getattr(importlib.import_module(module), name)
        globals()[name] = found
        return found


def __dir__() -> list[str]:
    """Name what can be used."""
    return sorted({*globals(), *__all__})

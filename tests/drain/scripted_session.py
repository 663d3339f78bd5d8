"""A share session that only notes what it is given, for tests of what stands before it."""

from __future__ import annotations

from collections.abc import Sequence

from shareproxy.drain.acquired import AcquiredRange
from shareproxy.drain.lot import HeldLot, PartitionAcks
from shareproxy.drain.model import Acknowledgement, AckResult, OffsetRange, TimestampType
from shareproxy.drain.record import Origin, ShareRecord
from shareproxy.drain.session import SharePartition, ShareSession
from shareproxy.protocol.ids import TopicId

PARTITION = SharePartition("orders", 3, TopicId(bytes(15) + b"\x01"))
DEADLINE = 1e12


class ScriptedSession(ShareSession):
    """Notes acknowledgements; `not_held` says which offsets it refuses, `renews` whether it renews."""

    def __init__(self, *, renews: bool = True, lock_duration: float = 30.0) -> None:
        super().__init__("workers", "member", version=2 if renews else 1)
        self.lock_duration = lock_duration
        self.noted: list[tuple[int, int, Acknowledgement]] = []
        self.not_held: Sequence[OffsetRange] = ()
        self.deadline: float | None = DEADLINE

    def acknowledge(
        self, partition: SharePartition, first: int, last: int, kind: Acknowledgement
    ) -> Sequence[OffsetRange]:
        """Note it."""
        assert partition == PARTITION
        self.noted.append((first, last, kind))
        return [each for each in self.not_held if first <= each.first and each.last <= last]

    def lock_deadline(self, partition: SharePartition, offset: int) -> float | None:
        """Return what the test wants."""
        return self.deadline


class Desk:
    """The acknowledgements of one partition, with what they asked for."""

    def __init__(self, session: ScriptedSession | None = None) -> None:
        self.session = session or ScriptedSession()
        self.noted = 0
        self.provoked = 0
        self.acks = PartitionAcks(PARTITION, self.session, self._note, self._provoke)

    def _note(self, acks: PartitionAcks) -> None:
        self.noted += 1

    def _provoke(self) -> None:
        self.provoked += 1

    def lot(self, *ranges: tuple[int, int]) -> HeldLot:
        """Return a lot of offsets, each delivered for the first time."""
        return self.acks.hand_over([AcquiredRange(first, last, 1) for first, last in ranges])

    def answer(self, *ranges: tuple[int, int, Acknowledgement], code: int | None = 0) -> AckResult:
        """Let the broker answer."""
        result = AckResult(
            PARTITION.name, tuple((OffsetRange(first, last), kind) for first, last, kind in ranges), code
        )
        self.acks.answer(result)
        return result


def records(lot: HeldLot, *offsets: int) -> list[ShareRecord]:
    """Return records of a lot."""
    origin = Origin("orders", 3, TimestampType.CREATE, 1, lot)
    return [ShareRecord(origin, offset, 0, None, b"v", (), None, b"v") for offset in offsets]

"""What shall go wrong: error codes, slow answers, throttling, cut connections, answers of your own.

In: faults with what they apply to. Out: the first that applies; one with a limited number of times is used up.
Must never: depend on the clock or on chance.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from enum import Enum, auto
from typing import Any

from shareproxy.protocol.message import Request, Response
from shareproxy.testing.simulation.steps import NO_STEPS, Step

OwnAnswer = Callable[[Request[Any], int], "Response | bytes | None"]
"""Given request and node id: an answer, a response frame without size, or None for the usual answer."""


class Kind(Enum):
    """What a fault does."""

    CODE = auto()
    DELAY = auto()
    THROTTLE = auto()
    CUT = auto()
    LOSE = auto()
    ANSWER = auto()


class Fault:
    """One thing that goes wrong until it is lifted; also a context manager that lifts it at the end.

    Attributes:
        kind: what it does.
        value: error code, seconds, milliseconds, or bytes until the cut.
        step: of a share consumer's life that it is about; None for any request.
        hits: how often it has applied.
    """

    def __init__(
        self,
        faults: Faults,
        kind: Kind,
        value: float,
        *,
        apis: Collection[int] | None,
        node: int | None,
        group: str | None = None,
        topic: str | None = None,
        partition: int | None = None,
        step: Step | None = None,
        times: int | None = None,
        answer: OwnAnswer | None = None,
    ) -> None:
        self.kind, self.value, self.answer = kind, value, answer
        self.hits = 0
        self._faults, self._left = faults, times
        self._apis = None if apis is None else frozenset(apis)
        self._node, self._group, self._topic, self._partition = node, group, topic, partition
        self.step = step

    def lift(self) -> None:
        """Let things go right again."""
        self._faults.remove(self)

    def __enter__(self) -> Fault:
        return self

    def __exit__(self, *_: object) -> None:
        self.lift()

    @property
    def of_partition(self) -> bool:
        """Whether it is about a topic or partition, not about a whole group or request."""
        return self._topic is not None or self._partition is not None

    def applies(
        self,
        api_key: int,
        node: int,
        group: str | None,
        topic: str | None,
        partition: int | None,
        steps: Collection[Step] = NO_STEPS,
    ) -> bool:
        """Tell whether it is about this place and step."""
        return (
            (self.step is None or self.step in steps)
            and (self._apis is None or api_key in self._apis)
            and self._node in (None, node)
            and self._group in (None, group)
            and self._topic in (None, topic)
            and self._partition in (None, partition)
        )

    def use(self) -> None:
        """Count one time."""
        self.hits += 1
        if self._left is not None:
            self._left -= 1
            if self._left <= 0:
                self.lift()


class Faults:
    """All faults of a cluster, the newest last."""

    def __init__(self) -> None:
        self._faults: list[Fault] = []
        self._has_codes = False

    def add(self, fault: Fault) -> Fault:
        """Begin with a fault."""
        self._faults.append(fault)
        self._has_codes = self._has_codes or fault.kind is Kind.CODE
        return fault

    def remove(self, fault: Fault) -> None:
        """End it; one that has ended is none."""
        if fault in self._faults:
            self._faults.remove(fault)
        self._has_codes = any(left.kind is Kind.CODE for left in self._faults)

    def clear(self) -> None:
        """End all."""
        self._faults.clear()
        self._has_codes = False

    def first(
        self, kind: Kind, api_key: int, node: int, steps: Collection[Step] = NO_STEPS, *, group: str | None = None
    ) -> Fault | None:
        """Return the first fault of a kind that is about a whole request, and use it once."""
        for fault in self._faults:
            if fault.kind is kind and fault.applies(api_key, node, group, None, None, steps):
                fault.use()
                return fault
        return None

    def code(
        self,
        api_key: int,
        node: int,
        *,
        group: str | None = None,
        topic: str | None = None,
        partition: int | None = None,
        steps: Collection[Step] = NO_STEPS,
        of_steps_only: bool = False,
    ) -> int:
        """Return the error code for a place, 0 for none, and use its fault once.

        A row (with `topic`) takes any fault that is about it; a group or a whole request only those that name no topic
        or partition. `of_steps_only` leaves out the faults that are about any request.
        """
        if not self._has_codes:
            return 0
        for fault in self._faults:
            if (
                fault.kind is Kind.CODE
                and (topic is not None or not fault.of_partition)
                and (fault.step is not None or not of_steps_only)
                and fault.applies(api_key, node, group, topic, partition, steps)
            ):
                fault.use()
                return int(fault.value)
        return 0

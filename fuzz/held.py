"""Measure how many bytes of other people a session holds.

In: an object. Out: the bytes in it and in what it refers to. Must never: know the names of what it walks through, so
that nothing new is missed.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping
from types import GeneratorType
from typing import Any

from shareproxy.protocol.plan import Step, StructPlan

_LEAVES = frozenset((int, float, bool, type(None)))


def held_bytes(root: object, leave_out: Iterable[object] = ()) -> int:
    """Count the bytes and letters that an object keeps alive, each object once.

    Args:
        leave_out: objects that are not looked into.
    """
    seen = {id(item) for item in leave_out}
    pending, total = [root], 0
    while pending:
        item = pending.pop()
        if type(item) in _LEAVES or id(item) in seen:
            continue
        seen.add(id(item))
        if isinstance(item, bytes | bytearray | str):
            total += len(item)
        elif isinstance(item, memoryview):
            pending.append(item.obj)
        else:
            pending.extend(_inside(item))
    return total


def _inside(item: Any) -> Iterable[Any]:
    if isinstance(item, list | tuple | set | frozenset | deque):
        return item
    if isinstance(item, Mapping):
        return [*item.keys(), *item.values()]
    if isinstance(item, GeneratorType):
        return list(item.gi_frame.f_locals.values()) if item.gi_frame is not None else ()
    kinds = type(item).__mro__
    # plans are made once for all sessions
    if isinstance(item, StructPlan | Step) or not any(kind.__module__.startswith("shareproxy.") for kind in kinds):
        return ()
    names = [name for kind in kinds for name in getattr(kind, "__slots__", ())]
    return [*getattr(item, "__dict__", {}).values(), *(getattr(item, name, None) for name in names)]

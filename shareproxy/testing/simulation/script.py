"""Base of what a test does to a simulated cluster.

In: nothing by itself. Out: the state, and a decorator that keeps answers and changes apart.
Must never: change anything while a node makes an answer in another thread.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Concatenate, ParamSpec, TypeVar

from shareproxy.testing.simulation.cluster_state import ClusterState

P = ParamSpec("P")
R = TypeVar("R")
S = TypeVar("S", bound="Script")


class Script:
    """Has the state that its methods change."""

    def __init__(self, state: ClusterState) -> None:
        self._state = state


def locked(method: Callable[Concatenate[S, P], R]) -> Callable[Concatenate[S, P], R]:
    """Let a method run while no answer is being made."""

    def run(self: S, /, *args: P.args, **kwargs: P.kwargs) -> R:
        with self._state.lock:
            return method(self, *args, **kwargs)

    functools.update_wrapper(run, method)
    return run

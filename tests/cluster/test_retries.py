"""What to do after a failure."""

from __future__ import annotations

import asyncio

import pytest

from shareproxy.cluster.retries import Backoff, Retry, classify
from tests.cluster.scripted_broker import soon


@pytest.mark.parametrize("code", [7, 14, 75, 78])
def test_some_codes_ask_to_wait(code: int) -> None:
    """The node that answered is the right one, a little later."""
    assert classify(code) is Retry.HERE


@pytest.mark.parametrize("code", [3, 5, 6, 15, 16, 74, 100, 129])
def test_some_codes_ask_to_look_elsewhere(code: int) -> None:
    """Metadata or coordinator are out of date."""
    assert classify(code) is Retry.ELSEWHERE


@pytest.mark.parametrize("code", [-1, 24, 29, 30, 31, 35, 42, 58, 69, 9999])
def test_other_codes_are_final(code: int) -> None:
    """Also one that nobody knows yet."""
    assert classify(code) is Retry.FINAL


def test_zero_is_no_failure() -> None:
    """A caller that classifies success has a bug."""
    with pytest.raises(ValueError, match="not a failure"):
        classify(0)


async def test_pauses_grow_up_to_the_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each pause is twice the one before, plus or minus the jitter."""
    pauses: list[float] = []

    async def note(seconds: float) -> None:
        pauses.append(seconds)

    monkeypatch.setattr(asyncio, "sleep", note)
    backoff = Backoff(first=0.1, most=0.3)

    assert all([await backoff.pause(soon()) for _ in range(4)])

    for pause, middle in zip(pauses, [0.1, 0.2, 0.3, 0.3], strict=True):
        assert middle * 0.8 <= pause <= middle * 1.2


async def test_a_pause_never_passes_the_deadline() -> None:
    """Where nothing would be left, it returns at once."""
    assert not await Backoff(first=60).pause(soon(1))

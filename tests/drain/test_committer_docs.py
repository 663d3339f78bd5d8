"""The program on the page about commits does what the page says."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import aiokafka
import pytest

from tests.drain.fake_group_consumer import MARKER, FakeGroupConsumer

PAGE = Path(__file__).parent.parent.parent / "docs" / "how-to" / "commit-what-is-finished.md"


class EndOfTest(Exception):  # noqa: N818 - it is none
    """All that there is was read."""


def test_the_program_commits_the_markers(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """It prints its records, and when it ends everything is committed."""
    (program,) = re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    consumers: list[FakeGroupConsumer] = []

    class Consumer(FakeGroupConsumer):
        async def getmany(self, *partitions: Any, **more: Any) -> Any:
            found = await super().getmany(*partitions, **more)
            if not found:
                raise EndOfTest
            return found

    def make(**arguments: Any) -> FakeGroupConsumer:
        assert arguments["enable_auto_commit"] is False
        consumers.append(Consumer({("payments", 0): ["a", MARKER], ("payments", 1): [MARKER, MARKER]}))
        return consumers[0]

    monkeypatch.setattr(aiokafka, "AIOKafkaConsumer", make)
    with pytest.raises(EndOfTest):
        exec(compile(program, str(PAGE), "exec"), {"__name__": "__main__"})
    assert capsys.readouterr().out == "0 0\n"
    assert consumers[0].committed == {("payments", 0): 2, ("payments", 1): 2}

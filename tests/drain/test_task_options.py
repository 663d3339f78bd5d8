"""What a sink is told of its task (R9, R14)."""

from __future__ import annotations

from typing import Any

from shareproxy.drain.sink import TaskContext
from shareproxy.drain.task_options import Context, TaskOptions


class Source:
    """A source that notes what is renewed."""

    group, topics, share_group = "g", ("orders",), True

    def __init__(self) -> None:
        self.renewed: list[Any] = []

    async def renew(self, records: Any) -> None:
        """Note."""
        self.renewed.append(records)


async def test_the_context_tells_what_kip_1302_allows_and_renews() -> None:
    """Only what is being put."""
    source = Source()
    context = Context(TaskOptions(connector="c", task_id=3, config={"a": 1}), source)  # type: ignore[arg-type]
    as_sink_sees_it: TaskContext = context

    await as_sink_sees_it.renew()
    assert source.renewed == []
    records: Any = ["record"]
    context.putting = records
    await as_sink_sees_it.renew()

    assert source.renewed == [records]
    assert (context.connector, context.task_id, context.config) == ("c", 3, {"a": 1})
    assert (context.group, context.topics, context.share_group) == ("g", ("orders",), True)
    assert not {"offsets", "offset", "seek", "pause", "resume"} & set(dir(context))


def test_a_task_is_named_for_sentences() -> None:
    """Connector and number."""
    assert TaskOptions(connector="c", task_id=3).name == "connector 'c', task 3"

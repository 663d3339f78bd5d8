"""Flags that several commands share."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from shareproxy.cli.options import topic_selection
from shareproxy.config import ConfigError


@pytest.mark.parametrize(
    ("given", "selection"),
    [
        ([], None),
        (["orders"], {"orders": None}),
        (["orders:0"], {"orders": [0]}),
        (["orders:2,0", "orders:1"], {"orders": [0, 1, 2]}),
        (["orders:1", "orders"], {"orders": None}),
        (["orders", "orders:1"], {"orders": None}),
        (["a:0", "b"], {"a": [0], "b": None}),
    ],
)
def test_topics_and_partitions(given: Sequence[str], selection: dict[str, list[int] | None] | None) -> None:
    """All of a topic wins over some of it."""
    assert topic_selection(given) == selection


@pytest.mark.parametrize("text", ["", ":", ":1", "orders:", "orders:x", "orders:1,", "orders:-1", "orders:1:2"])
def test_what_is_no_topic_is_refused(text: str) -> None:
    """With an example of what to write."""
    with pytest.raises(ConfigError, match="orders:0,1"):
        topic_selection([text])

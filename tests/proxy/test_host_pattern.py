"""Host names of nodes."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shareproxy.proxy.host_pattern import HostPattern
from shareproxy.proxy.ports import PortsError


@given(st.integers(0, 2**31 - 1))
def test_each_node_has_a_name_and_each_name_its_node(node_id: int) -> None:
    """There and back."""
    pattern = HostPattern("b{node_id}.kafka.example")

    assert pattern.node_of(pattern.host_of(node_id)) == node_id
    assert pattern.node_of(pattern.host_of(node_id).upper() + ".") == node_id


@pytest.mark.parametrize(
    "host",
    ["kafka.example", "b.kafka.example", "b01.kafka.example", "b-1.kafka.example", "b1xkafka.example",
     "b1.kafka.example.evil", "xb1.kafka.example", "b2147483648.kafka.example", "b1.\u212aafka.example", "", None],
)  # fmt: skip
def test_other_names_are_nobodys(host: str | None) -> None:
    """They lead to any broker."""
    assert HostPattern("b{node_id}.kafka.example").node_of(host) is None


@pytest.mark.parametrize(
    "text", ["kafka.example", "b{node_id}{node_id}", "b_{node_id}", "{node_id}:9093", "a b{node_id}", "ſ{node_id}"]
)
def test_bad_patterns_are_refused(text: str) -> None:
    """The error shows how to write one."""
    with pytest.raises(PortsError, match=r"write for instance b\{node_id\}\.kafka\.example"):
        HostPattern(text)

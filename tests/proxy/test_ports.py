"""The plan of ports and node ids."""

import pytest

from shareproxy.proxy.ports import NodePorts, PortsError, parse_node_ids


@pytest.mark.parametrize("node_id", [0, 1, 3, 63])
def test_ids_from_0_need_no_declaration(node_id: int) -> None:
    """The lowest port belongs to node id 0, so both 0, 1, 2 and 1, 2, 3 work as they are."""
    ports = NodePorts(19100, 19163)

    assert ports.port_of(node_id) == 19100 + node_id
    assert ports.node_of(19100 + node_id) == node_id


def test_declared_ids_with_gaps_take_ports_in_order() -> None:
    """Ids far apart need no more ports than there are ids."""
    ports = NodePorts(19100, 19110, parse_node_ids("1,5,1000-1001"))

    assert list(ports) == [(1, 19100), (5, 19101), (1000, 19102), (1001, 19103)]
    assert len(ports) == 4
    assert ports.node_of(19104) is None


def test_ids_added_later_leave_the_others_alone() -> None:
    """A port never changes its node id."""
    before = dict(NodePorts(19100, 19110, parse_node_ids("1-3")))
    after = dict(NodePorts(19100, 19110, parse_node_ids("1-3,0,7")))

    assert before.items() <= after.items()


@pytest.mark.parametrize("node_id", [-1, 64, 1000])
def test_undeclared_id_has_no_port(node_id: int) -> None:
    """No port is invented."""
    assert NodePorts(19100, 19163).port_of(node_id) is None


def test_missing_port_is_explained() -> None:
    """The sentence has the id, the broker's address, the setting and what it serves now."""
    text = NodePorts(19100, 19105, parse_node_ids("0-2,7")).why_missing(1001, "kafka", 9092)

    assert "broker 1001 at kafka:9092" in text
    assert "--node-ports 19100-19105" in text
    assert "0-2,7" in text


@pytest.mark.parametrize(("low", "high"), [(0, 5), (19105, 19100), (65000, 65536), (-1, 3)])
def test_impossible_port_range_is_refused(low: int, high: int) -> None:
    """Ports are 1 to 65535, low to high."""
    with pytest.raises(PortsError, match="write for instance"):
        NodePorts(low, high)


def test_more_ids_than_ports_are_refused() -> None:
    """The error names the ids and what to change."""
    with pytest.raises(PortsError, match=r"node ids 10-12 .* only 4.*--node-ports"):
        NodePorts(1, 4, parse_node_ids("1-2,10-12"))


def test_id_declared_twice_is_refused() -> None:
    """One id cannot have two ports."""
    with pytest.raises(PortsError, match="node id 2 is declared twice"):
        NodePorts(1, 9, parse_node_ids("1-2,2-3"))


@pytest.mark.parametrize("ids", [range(0), range(-1, 2), range(0, 4, 2), range(2**31 - 1, 2**31 + 1)])
def test_range_that_is_no_node_id_range_is_refused(ids: range) -> None:
    """Node ids are 0 to 2³¹−1, without steps."""
    with pytest.raises(PortsError, match="not a range of node ids"):
        NodePorts(1, 9, [ids])


@pytest.mark.parametrize("text", ["", "a", "1-", "3-1", "1,,2", "-1", "99999999999", "2147483648", "١-٣"])
def test_bad_node_ids_are_refused(text: str) -> None:
    """The error shows the part and an example."""
    with pytest.raises(PortsError, match="write for instance"):
        parse_node_ids(text)


def test_node_ids_are_read_with_blanks() -> None:
    """Blanks around parts do no harm."""
    assert parse_node_ids(" 1 - 3 , 5 ") == (range(1, 4), range(5, 6))

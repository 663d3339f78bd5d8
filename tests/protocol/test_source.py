"""Writing Python source."""

import traceback

import pytest

from shareproxy.protocol.source import Source


def test_blocks_are_indented() -> None:
    """What stands in a block belongs to the line before it."""
    source = Source()
    with source.block("def double(x):"):
        with source.block("if x:"):
            source.line("return x + x")
        source.line("return None")
    double = source.function("double", "doubling")
    assert (double(3), double(0)) == (6, None)


def test_names_stand_for_objects() -> None:
    """The same object keeps its name, another one gets a name of its own."""
    source, one, other = Source(), object(), object()
    names = [source.name("thing", one), source.name("thing", other), source.name("thing", one)]
    assert names[0] == names[2] != names[1]
    with source.block("def both():"):
        source.line(f"return {names[0]}, {names[1]}")
    assert source.function("both", "names")() == (one, other)


def test_shared_objects_are_named_once() -> None:
    """Of two objects with one key the first is used."""
    source = Source()
    assert source.shared("key", "thing", [1]) == source.shared("key", "thing", [2])
    assert source.names["thing"] == [1]


def test_traceback_shows_the_line() -> None:
    """A mistake in generated code can be read."""
    source = Source()
    with source.block("def fail(x):"):
        source.line("return x / 0  # this one")
    fail = source.function("fail", "failing")
    with pytest.raises(ZeroDivisionError) as caught:
        fail(1)
    assert "return x / 0  # this one" in "".join(traceback.format_exception(caught.value))

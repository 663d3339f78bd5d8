"""Which offsets were first handed out together."""

from __future__ import annotations

from shareproxy.testing.simulation.chunks import Chunk, Chunks


def test_neighbours_of_one_fetch_are_one_chunk() -> None:
    """What joins is added to the last one, if it touches it."""
    chunks = Chunks()
    chunks.add(0, 9, joins=False)
    chunks.add(10, 19, joins=True)
    chunks.add(25, 29, joins=True)
    assert [chunks.at(offset) for offset in (0, 19, 20, 25)] == [Chunk(0, 19), Chunk(0, 19), None, Chunk(25, 29)]
    assert Chunk(0, 19).size == 20


def test_what_lies_below_is_forgotten() -> None:
    """A chunk that reaches over the offset stays whole: its size counts."""
    chunks = Chunks()
    chunks.add(0, 9, joins=False)
    chunks.add(10, 19, joins=False)
    chunks.drop_before(15)
    assert (chunks.at(5), chunks.at(10)) == (None, Chunk(10, 19))

"""Draw one share partition as a line: start offset, runs of delivery states, end offset, as KIP-1226 draws it.

In: a partition's lag with a closer look. Out: the cells of the line and what each sign means.
Must never: hide a run because it is short; a single held record is what keeps a start offset where it is.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Final, NamedTuple

from shareproxy.lag.model import PartitionLag
from shareproxy.lag.visible_model import StateRun

COMPLETE: Final = frozenset({"acknowledged", "archived"})
UNTOUCHED: Final = "untouched"
GONE: Final = "gone"
OPEN: Final = "open"
# in the order of the legend
MEANINGS: Final[Mapping[str, str]] = {
    "acknowledged": "acknowledged",
    "acquired": "held by a member",
    "available": "given back, to be delivered again",
    UNTOUCHED: "nothing stored yet: not delivered, or delivered and not answered",
    "archiving": "on its way to the dead-letter topic",
    "archived": "archived: rejected, or tried too often",
    OPEN: "in an open transaction",
    GONE: "deleted by retention before it was consumed",
    "unknown": "a state newer than this program",
}
BLOCKS: Final[Mapping[str, str]] = {
    "acknowledged": "█",
    "acquired": "▓",
    "available": "▒",
    UNTOUCHED: "░",
    "archiving": "◪",
    "archived": "■",
    OPEN: "┄",
    GONE: "×",
    "unknown": "?",
}
ASCII: Final[Mapping[str, str]] = {
    "acknowledged": "#",
    "acquired": ">",
    "available": "=",
    UNTOUCHED: ".",
    "archiving": "~",
    "archived": "x",
    OPEN: "-",
    GONE: "!",
    "unknown": "?",
}


class Stretch(NamedTuple):
    """Neighbouring offsets drawn alike; `end` is exclusive."""

    first: int
    end: int
    state: str

    @property
    def offsets(self) -> int:
        """How many offsets it covers."""
        return self.end - self.first


def stretches(row: PartitionLag) -> tuple[Stretch, ...] | None:
    """Return the offsets from the start offset to the end, cut into stretches of one state.

    Returns:
        `None` where the start offset, the end or the stored states are unknown; nothing where there is no offset.
    """
    visible = row.visible
    if visible is None or visible.runs is None or row.start_offset is None or row.end_offset is None:
        return None
    start, end = row.start_offset, row.end_offset
    if start >= end:
        return ()
    log_start = start if visible.log_start_offset is None else visible.log_start_offset
    stable = end if visible.last_stable_offset is None else visible.last_stable_offset
    found: list[Stretch] = []
    for piece in _covered(visible.runs, start, end):
        # what is complete stays what it is; only what still counts can be gone, or unreadable for now
        if piece.state in COMPLETE:
            _add(found, piece)
            continue
        _add(found, Stretch(piece.first, min(piece.end, log_start), GONE))
        _add(found, Stretch(max(piece.first, log_start), min(piece.end, stable), piece.state))
        _add(found, Stretch(max(piece.first, log_start, stable), piece.end, OPEN))
    return tuple(found)


def _covered(runs: Sequence[StateRun], start: int, end: int) -> list[Stretch]:
    """Lay the stored runs over the window; offsets between them have no stored state."""
    pieces, position = [], start
    for run in sorted(runs, key=lambda run: run.first_offset):
        first, last = max(run.first_offset, position), min(run.last_offset + 1, end)
        if first >= last:
            continue
        if first > position:
            pieces.append(Stretch(position, first, UNTOUCHED))
        pieces.append(Stretch(first, last, run.state if run.state in MEANINGS else "unknown"))
        position = last
    if position < end:
        pieces.append(Stretch(position, end, UNTOUCHED))
    return pieces


def _add(found: list[Stretch], piece: Stretch) -> None:
    if piece.first >= piece.end:
        return
    if found and found[-1].state == piece.state and found[-1].end == piece.first:
        piece = Stretch(found.pop().first, piece.end, piece.state)
    found.append(piece)


def draw(pieces: Sequence[Stretch], width: int, signs: Mapping[str, str] = BLOCKS) -> str:
    """Return the cells of a picture, at most `width` of them.

    One cell per offset where they fit. Else each stretch has one cell at least and the others are shared out by
    size; where there are more stretches than cells, each cell shows what most of its offsets are.
    """
    total = sum(piece.offsets for piece in pieces)
    if total <= width:
        return "".join(signs[piece.state] * piece.offsets for piece in pieces)
    if len(pieces) > width:
        return "".join(signs[state] for state in _majorities(pieces, width))
    spare = width - len(pieces)
    # largest remainders: the cells beyond the first of each stretch, in proportion to what it covers beyond it
    beyond = total - len(pieces)
    shares = [spare * (piece.offsets - 1) / beyond for piece in pieces]
    cells = [1 + int(share) for share in shares]
    by_remainder = sorted(range(len(pieces)), key=lambda number: int(shares[number]) - shares[number])
    for number in by_remainder[: width - sum(cells)]:
        cells[number] += 1
    return "".join(signs[piece.state] * count for piece, count in zip(pieces, cells, strict=True))


def to_scale(pieces: Sequence[Stretch], width: int) -> bool:
    """Return whether each offset has a cell of its own."""
    return sum(piece.offsets for piece in pieces) <= width


def _majorities(pieces: Sequence[Stretch], width: int) -> list[str]:
    first, total = pieces[0].first, sum(piece.offsets for piece in pieces)
    states, number = [], 0
    for cell in range(width):
        begin, end = first + cell * total // width, first + (cell + 1) * total // width
        inside: dict[str, int] = {}
        while number < len(pieces):
            piece = pieces[number]
            overlap = min(piece.end, end) - max(piece.first, begin)
            inside[piece.state] = inside.get(piece.state, 0) + max(overlap, 0)
            if piece.end > end:
                break
            number += 1
        states.append(max(inside, key=lambda state: inside[state]))
    return states


def totals(pieces: Sequence[Stretch]) -> dict[str, int]:
    """Return how many offsets are in each state, in the order of the legend."""
    return {
        state: count for state in MEANINGS if (count := sum(piece.offsets for piece in pieces if piece.state == state))
    }


def legend(states: Collection[str], signs: Mapping[str, str] = BLOCKS) -> list[str]:
    """Return one line per state that was drawn."""
    return [f"{signs[state]} {meaning}" for state, meaning in MEANINGS.items() if state in states]

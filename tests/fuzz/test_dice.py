"""Decisions out of bytes."""

from __future__ import annotations

from fuzz.dice import Dice


def test_equal_bytes_decide_equally() -> None:
    """An input can be run again."""
    first, second = Dice(bytes(range(40))), Dice(bytes(range(40)))

    for dice in (first, second):
        dice.take(3)

    assert (first.number(2), first.choose("abc"), first.blob()) == (
        second.number(2),
        second.choose("abc"),
        second.blob(),
    )


def test_used_up_dice_choose_the_first() -> None:
    """Short inputs stay small and ordinary."""
    dice = Dice(b"")

    assert (dice.left, dice.number(4), dice.signed(2), dice.choose((7, 8)), dice.blob()) == (0, 0, 0, 7, b"")
    assert not dice.seldom()


def test_signed_numbers() -> None:
    """Two's complement, as on the wire."""
    assert Dice(b"\xff\xfe").signed(2) == -2


def test_long_blob_takes_few_bytes() -> None:
    """A frame over a limit fits into an input."""
    assert Dice(b"\xf5\x20\x00").blob() == b"\xf5" * 8_192

"""Damage a frame in ways that follow from an input.

In: a frame and dice. Out: another frame. Must never: change the size that stands before it: framing is damaged apart.
"""

from __future__ import annotations

from fuzz.dice import Dice


def damaged(frame: bytes, dice: Dice) -> bytes:
    """Return a frame in which one to three places are changed, taken out or put in."""
    result = bytearray(frame)
    for _ in range(1 + dice.below(3)):
        # places near the end matter as much as those at the beginning
        at = dice.number(2) % (len(result) + 1)
        at = len(result) - at if dice.below(2) else at
        match dice.below(5):
            case 0:
                raw = dice.choose((b"\xff", b"\0", b"\x01", b"\x80", b"\x7f\xff\xff\xff", b"\xff\xff\xff\xff\x0f"))
                result[at : at + len(raw)] = raw
            case 1:
                result[at : at + 1] = dice.take(1)
            case 2:
                del result[at : at + 1 + dice.below(8)]
            case 3:
                result[at:at] = dice.take(1 + dice.below(8))
            case _:
                del result[at:]
    return bytes(result)

"""Change inputs in ways that protocols are sensitive to.

In: an input and a random source. Out: another one. Must never: depend on anything but these, so that a seed repeats it.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Final

from fuzz.target import Target

_HOSTILE: Final = (
    b"\x7f\xff\xff\xff",  # counts and sizes of two billion
    b"\xff\xff\xff\xff\x0f",
    b"\xff\xff\xff\xff\xff\x0f",  # varints that are too long
    b"\x81\x00",  # longer than necessary, but legal
    b"\xff\xff\xff\xff",
    b"\xff\xff",
    b"\x80",
    b"\0",
    b"\x01",
    b"\x02",
    b"\x01\x05\x02ab",  # a tag section
    b"\x02\0\x01\0\x01\x01a",  # one with two
    b"\0\0\0\0\0",
)
FRESH_ONE_IN: Final = 20
Mutate = Callable[[bytes, int], bytes]


def mutated(target: Target, data: bytes, limit: int, random: Random, other: Mutate | None = None) -> bytes:
    """Return a changed input.

    Args:
        target: makes fresh inputs.
        data: the input.
        limit: largest size of the result.
        random: decides.
        other: a mutator that gets every second input, such as the fuzzer's own.
    """
    if random.randrange(FRESH_ONE_IN) == 0:
        return target.fresh(random)[:limit]
    if other is not None and random.randrange(2):
        return other(data, limit)
    result = bytearray(data)
    for _ in range(random.choice((1, 1, 1, 2, 4))):
        _change(result, random)
    return bytes(result[:limit])


def _change(result: bytearray, random: Random) -> None:
    at = random.randint(0, len(result))
    stop = min(len(result), at + random.choice((1, 1, 2, 4, 8, 30)))
    match random.randrange(8):
        case 0 if at < len(result):
            result[at] ^= 1 << random.randrange(8)
        case 1 if at < len(result):
            result[at] = (result[at] + random.choice((-1, 1))) & 0xFF
        case 2:
            raw = random.choice(_HOSTILE)
            result[at : at + len(raw)] = raw
        case 3:
            result[at:at] = random.choice(_HOSTILE)
        case 4:
            del result[at:stop]
        case 5:
            del result[at:]
        case 6:
            block = result[at:stop]
            to = random.randint(0, len(result))
            result[to:to] = block
        case _:
            result[at:stop] = random.randbytes(stop - at or 1)

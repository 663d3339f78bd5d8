"""Keep inputs: one text file per target, one input per line in Base64.

In: a target's name. Out: its inputs. Must never: grow past what is worth keeping; what a fuzzer has found lately is in
`WORKING`, which is not part of the repository.
"""

from __future__ import annotations

import base64
from collections.abc import Iterable
from pathlib import Path
from typing import Final

KEPT: Final = Path(__file__).parent / "corpus"
WORKING: Final = Path(".fuzz")
LIMIT_BYTES: Final = 36_000
"""Of a target's file; all of them stay below 300 KB."""


def kept_inputs(name: str) -> list[bytes]:
    """Return the inputs that are kept for a target; lines that begin with # say what the next one showed."""
    file = KEPT / f"{name}.txt"
    if not file.exists():
        return []
    lines = file.read_text(encoding="ascii").splitlines()
    return [base64.b64decode(line, validate=True) for line in lines if line and not line.startswith("#")]


def keep(name: str, inputs: Iterable[bytes]) -> int:
    """Add inputs to a target's file, the shortest first, as long as there is room.

    Returns:
        How many were added.
    """
    file = KEPT / f"{name}.txt"
    known = set(kept_inputs(name))
    text = file.read_text(encoding="ascii") if file.exists() else ""
    added = 0
    for data in sorted(set(inputs) - known, key=lambda item: (len(item), item)):
        line = base64.b64encode(data).decode() + "\n"
        if len(text) + len(line) > LIMIT_BYTES:
            break
        text += line
        added += 1
    if added:
        file.write_text(text, encoding="ascii")
    return added


def write_out(folder: Path, inputs: Iterable[bytes]) -> None:
    """Write inputs as a folder with a file for each, as fuzzers want them."""
    folder.mkdir(parents=True, exist_ok=True)
    for number, data in enumerate(inputs):
        (folder / f"{number:04}").write_bytes(data)

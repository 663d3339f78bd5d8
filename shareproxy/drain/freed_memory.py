"""Keep the C library from giving memory back to the kernel after every fetch.

An answer of a megabyte is copied once or twice on its way, and freed. glibc returns freed memory beyond a threshold at
once, so that every page of the next answer costs a fault: more time than everything else that is done with a record of
1 KiB. The threshold is twice the largest block that was ever freed: freeing one, never touched, is all it takes.
"""

from __future__ import annotations

from typing import Final

# up to twice as much stays with the process once it has been used
LARGEST_BLOCK: Final = 8 * 1024 * 1024


def keep_freed_memory() -> None:
    """Raise glibc's thresholds for this process; other C libraries take no notice."""
    bytearray(LARGEST_BLOCK)

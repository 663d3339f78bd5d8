"""Find free ports on 127.0.0.1."""

from __future__ import annotations

import contextlib
import random
import socket

ATTEMPTS = 100
# Below every system's range for outgoing connections: where there are many of those, no run of ports is free in there.
LOWEST, HIGHEST = 20_000, 32_000


def ports_side_by_side(count: int) -> range:
    """Return free ports in one run, such as a bootstrap port and the node ports behind it.

    Raises:
        OSError: there is no such run.
    """
    for _ in range(ATTEMPTS):
        with contextlib.ExitStack() as stack, contextlib.suppress(OSError):
            first = random.randrange(LOWEST, HIGHEST - count)
            for port in range(first, first + count):
                stack.enter_context(socket.create_server(("127.0.0.1", port)))
            return range(first, first + count)
    raise OSError(f"no {count} free ports side by side on 127.0.0.1")

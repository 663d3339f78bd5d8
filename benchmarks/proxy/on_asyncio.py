"""Run shareproxy on asyncio's own event loop, where it would take uvloop."""

from __future__ import annotations

import asyncio

import uvloop

from shareproxy.cli.start import main

if __name__ == "__main__":
    vars(uvloop)["new_event_loop"] = asyncio.new_event_loop
    main()

"""Run a proxy in front of one broker as a process, on either event loop and with few file descriptors.

In: loop, port of the broker, first of four ports to listen on, file descriptors it may have. Out: a line when it does.
Must never: have more than the proxy in it; the service's own start always takes uvloop.
"""

from __future__ import annotations

import asyncio
import resource
import sys
from collections.abc import Mapping

import uvloop

from shareproxy.cluster.addresses import Address
from shareproxy.config import Log
from shareproxy.protocol.ids import NodeId
from shareproxy.proxy.server import Proxy, ProxySettings
from shareproxy.service_log import configure_log

HOST = "127.0.0.1"


async def serve(broker: Address, first_port: int, descriptors: int) -> None:
    """Serve until killed."""
    settings = ProxySettings(
        listen=Address(HOST, first_port),
        advertised_host=HOST,
        node_ports=(first_port + 1, first_port + 3),
        bootstrap_servers=(broker,),
    )

    async def read_nodes(deadline: float) -> Mapping[NodeId, Address]:
        return {NodeId(1): broker}

    proxy = Proxy(settings, None, read_nodes=read_nodes)
    await proxy.start()
    resource.setrlimit(resource.RLIMIT_NOFILE, (descriptors, descriptors))
    print("listening", flush=True)  # noqa: T201 - for the test that waits
    await asyncio.Event().wait()


def main() -> None:
    """Take the arguments."""
    loop, port, first_port, descriptors = sys.argv[1], *map(int, sys.argv[2:])
    configure_log(Log())
    factory = uvloop.new_event_loop if loop == "uvloop" else asyncio.new_event_loop
    with asyncio.Runner(loop_factory=factory) as runner:
        runner.run(serve(Address(HOST, port), first_port, descriptors))


if __name__ == "__main__":
    main()

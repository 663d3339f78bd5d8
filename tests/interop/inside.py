"""Run a command in a new network namespace in which only some ports of 127.0.0.0/8 exist (a script, not a module).

In: a socket's file descriptor, addresses, a command. Out: the listening sockets, by that descriptor; then this process
becomes the command. Needs to be started by `unshare --net`. Must never run where the machine's own network is.
"""

from __future__ import annotations

import fcntl
import json
import os
import socket
import struct
import sys

# from linux/sockios.h and linux/if.h
SIOCGIFFLAGS, SIOCSIFFLAGS, IFF_UP = 0x8913, 0x8914, 0x1
IFREQ = "16sh14x"
BACKLOG = 64


def main() -> None:
    """Take loopback up, listen, hand the sockets over, and become the command."""
    channel, addresses, command = int(sys.argv[1]), json.loads(sys.argv[2]), sys.argv[3:]
    if {name for _, name in socket.if_nameindex()} != {"lo"}:
        sys.exit("inside.py was not started in a new network namespace; use: unshare --net")
    with socket.socket() as any_socket:
        answer = fcntl.ioctl(any_socket, SIOCGIFFLAGS, struct.pack(IFREQ, b"lo", 0))
        flags = struct.unpack(IFREQ, answer)[1]
        fcntl.ioctl(any_socket, SIOCSIFFLAGS, struct.pack(IFREQ, b"lo", flags | IFF_UP))
    listening = [socket.create_server((host, port), backlog=BACKLOG) for host, port in addresses]
    with socket.socket(fileno=channel) as parent:
        socket.send_fds(parent, [b"!"], [each.fileno() for each in listening])
    for each in listening:
        each.close()
    os.execvp(command[0], command)


if __name__ == "__main__":
    main()

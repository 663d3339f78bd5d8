"""Read and write `host:port`: the one parser for addresses everywhere.

In: text of flags, files and environment. Out: addresses. Must never: resolve a name.
"""

from __future__ import annotations

import re
from typing import Final, NamedTuple

_BRACKETS: Final = re.compile(r"\[([^\[\]]*)\](?::(.*))?")
_SHOWN: Final = 100
"""What an error shows of a text that may be of any length."""
_HOST: Final = re.compile(r"[^\s/:@\[\],]+")


class Address(NamedTuple):
    """A host, without brackets, and a port."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


def parse_address(text: str) -> Address:
    """Read one `host:port`, with brackets around an IPv6 host.

    Raises:
        ValueError: says what is missing.
    """
    text = text.strip()
    if "://" in text:
        raise ValueError(f"{text!r} looks like a URL; write HOST:PORT only")
    if text.startswith("["):
        match = _BRACKETS.fullmatch(text)
        if match is None or ":" not in match[1]:
            raise ValueError(f"{text!r} is not an address; write an IPv6 one as [::1]:9092")
        host, port = match[1], match[2]
    else:
        host, _, port = text.rpartition(":") if ":" in text else (text, "", None)
        if ":" in host:
            raise ValueError(f"{text[:_SHOWN]!r} is ambiguous; write an IPv6 host in brackets: {_in_brackets(text)}")
        if not _HOST.fullmatch(host):
            raise ValueError(f"{text!r} has no usable host; write HOST:PORT")
    if port is None or port == "":
        raise ValueError(f"{text!r} has no port; write {text.rstrip(':')}:9092")
    if not _is_port(port):
        raise ValueError(f"{text[:_SHOWN]!r}: port {port[:_SHOWN]!r} is not a number from 0 to 65535")
    return Address(host, int(port))


def _is_port(text: str) -> bool:
    return text.isascii() and text.isdecimal() and len(text) <= 5 and int(text) < 65_536


def _in_brackets(text: str) -> str:
    """Return what somebody who wrote an IPv6 host without brackets most likely meant."""
    host, _, port = text.rpartition(":")
    if _is_ipv6(host) and _is_port(port):
        return f"[{host}]:{port}"
    return f"[{text}]:9092" if _is_ipv6(text) else "[::1]:9092"


def _is_ipv6(text: str) -> bool:
    import ipaddress  # only for the error: commands have to start fast

    try:
        ipaddress.IPv6Address(text)
    except ValueError:
        return False
    return True


def parse_own_address(text: str, port: int) -> Address:
    """Read the one `host:port` of something of ours that listens.

    Args:
        text: as somebody wrote it.
        port: what the error names where none is written.

    Raises:
        ValueError: says what is missing, or that it is more than one.
    """
    if ":" not in text:  # a port alone, or a host alone: which one, nobody can tell
        alone = text.strip()
        raise ValueError(
            f"{text!r} is not HOST:PORT; write for instance 127.0.0.1:{alone if _is_port(alone) else port}"
        )
    addresses = parse_addresses(text)
    if len(addresses) != 1:
        raise ValueError(f"one HOST:PORT is wanted, not {len(addresses)}")
    return addresses[0]


def parse_addresses(text: str) -> tuple[Address, ...]:
    """Read `host:port[,host:port…]`; an address given twice counts once.

    Raises:
        ValueError: says which address is wrong and how to write it.
    """
    parts = [part for part in text.split(",") if part.strip()]
    if not parts:
        raise ValueError("no address is given; write HOST:PORT[,HOST:PORT…]")
    return tuple(dict.fromkeys(parse_address(part) for part in parts))

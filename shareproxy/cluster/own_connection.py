"""Say how our own connections are made: as a Java property file says, or without security.

In: the path of a file, or none. Out: security, client id, and what of the file is not used.
Must never: load the reader of property files when there is none to read; commands have to start fast.
"""

from __future__ import annotations

import os
from typing import NamedTuple

from shareproxy.cluster.security import PLAINTEXT, Security


class OwnConnection(NamedTuple):
    """How our own connections are made.

    Args:
        notes: sentences about what the property file says and we do not use.
    """

    security: Security
    client_id: str
    notes: tuple[str, ...] = ()


def connection_from_file(
    command_config: str | os.PathLike[str] | None, client_id: str, *, default_client_id: str = "shareproxy"
) -> OwnConnection:
    """Return how our own connections are made.

    Args:
        command_config: path of a Java client property file.
        client_id: our name; the file's takes its place where this is only the default.
        default_client_id: the name of those who chose none.

    Raises:
        PropertiesError: the file cannot be read or contradicts itself.
    """
    if not command_config:
        return OwnConnection(PLAINTEXT, client_id)
    from shareproxy.cluster.properties import read_client_properties

    path = os.fspath(command_config)
    properties = read_client_properties(path)
    chosen = properties.client_id if client_id == default_client_id else None
    notes = tuple(f"{path}: not used here: {note}" for note in properties.ignored)
    return OwnConnection(properties.security, chosen or client_id, notes)

"""Who is on the other end of a connection: nobody in particular, or a user with a password (SASL PLAIN).

In: handshake and token. Out: answers, and the principal. Must never: keep a password longer than the comparison.
"""

from __future__ import annotations

from collections.abc import Mapping

from shareproxy.protocol.message import Response
from shareproxy.protocol.messages import (
    SaslAuthenticateRequest,
    SaslAuthenticateResponse,
    SaslHandshakeRequest,
    SaslHandshakeResponse,
)
from shareproxy.testing.simulation.rights import ANONYMOUS

MECHANISM = "PLAIN"
_REFUSED = "Authentication failed: Invalid username or password"


class Login:
    """The login of one connection.

    Args:
        users: name → password; empty for a cluster without login.
    """

    def __init__(self, users: Mapping[str, str]) -> None:
        self._users, self._shook_hands = users, False
        self.principal = ANONYMOUS
        self.done = not users

    def take(self, message: SaslHandshakeRequest | SaslAuthenticateRequest) -> Response:
        """Answer one step."""
        if isinstance(message, SaslHandshakeRequest):
            if not self._users or self.done:
                return SaslHandshakeResponse(34, [])
            if message.mechanism != MECHANISM:
                return SaslHandshakeResponse(33, [MECHANISM])
            self._shook_hands = True
            return SaslHandshakeResponse(0, [MECHANISM])
        if not self._shook_hands or self.done:
            return SaslAuthenticateResponse(34, "SaslAuthenticate without a handshake before it")
        parts = message.auth_bytes.split(b"\0")
        if len(parts) == 3:
            name = parts[1].decode(errors="replace")
            if self._users.get(name) == parts[2].decode(errors="replace"):
                self.principal, self.done = f"User:{name}", True
                return SaslAuthenticateResponse()
        return SaslAuthenticateResponse(58, _REFUSED)

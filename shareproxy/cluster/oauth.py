"""Get the tokens of OAUTHBEARER and speak its side of the login.

In: a file with a token, or a token endpoint with a client's name and secret. Out: tokens, fresh enough for a login.
Must never: put a token or a secret into a message, follow a redirect with a secret, or block the event loop.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Final

from shareproxy.cluster.errors import AuthenticationFailed, ClusterError

if TYPE_CHECKING:
    import ssl

    from shareproxy.cluster.security import Security

# One request to the endpoint; Kafka's own `sasl.login.read.timeout.ms` is unset, which is for ever.
ENDPOINT_SECONDS: Final = 10.0
# A token is asked for again when so much of its life is over; Java's clients do it at the same point.
RENEW_AFTER: Final = 0.8
# An answer of an endpoint is a small JSON object.
MAX_ANSWER_BYTES: Final = 1024 * 1024
_ERROR_WORDS: Final = 300
_KVSEP: Final = b"\x01"


@dataclass(frozen=True)
class ClientCredentials:
    """Where tokens come from, and who asks for them (RFC 6749, section 4.4).

    Args:
        endpoint: URL with http or https.
        client_id: of this program at the endpoint.
        client_secret: what goes with it.
        scope: what the token is asked for, None to leave it to the endpoint.
        ca_file: PEM file with the authorities for the endpoint's certificate, None for the system's.
    """

    endpoint: str
    client_id: str
    client_secret: str = field(repr=False)
    scope: str | None = None
    ca_file: str | None = None


class OAuthLogin:
    """The client's part of one login (RFC 7628).

    Args:
        security: says where the token comes from.
    """

    def __init__(self, security: Security) -> None:
        self._security = security
        self._sent = False

    async def step(self, payload: bytes | None) -> tuple[bytes, bool] | None:
        """Send the token; a broker that refuses it says why, and wants a last byte before it ends the login."""
        if self._sent:
            if not payload:
                return None
            forget_token(self._security)
            return _KVSEP, True
        self._sent = True
        token = await read_token(self._security)
        return b"n,,\x01auth=Bearer " + token.encode() + _KVSEP * 2, True


async def read_token(security: Security) -> str:
    """Return a token.

    Raises:
        ClusterError: there is none; names the file, or the endpoint and what it said.
        AuthenticationFailed: the endpoint refuses this client.
    """
    if security.client_credentials is not None:
        return await _endpoint(security.client_credentials).token()
    file = security.token_file or ""
    try:
        text = await asyncio.get_running_loop().run_in_executor(None, Path(file).read_text)
    except (OSError, UnicodeDecodeError) as error:
        reason = (error.strerror if isinstance(error, OSError) else None) or "is not text"
        raise ClusterError(f"the token in {file} cannot be read: {reason}") from error
    return _checked(text.strip(), f"the token in {file}")


def forget_token(security: Security) -> None:
    """Ask the endpoint again at the next login: a broker has refused the token."""
    if security.client_credentials is not None:
        _endpoint(security.client_credentials).forget()


@lru_cache(maxsize=8)
def _endpoint(credentials: ClientCredentials) -> _TokenEndpoint:
    return _TokenEndpoint(credentials)


class _TokenEndpoint:
    """Remembers the token of one client for the most part of its life: each connection to a broker needs one."""

    def __init__(self, credentials: ClientCredentials) -> None:
        self._credentials = credentials
        self.forget()

    def forget(self) -> None:
        self._token, self._good_until = "", float("-inf")

    async def token(self) -> str:
        loop = asyncio.get_running_loop()
        if loop.time() < self._good_until:
            return self._token
        asked_at = loop.time()
        self._token, lifetime = await loop.run_in_executor(None, _ask, self._credentials)
        self._good_until = asked_at + lifetime * RENEW_AFTER
        return self._token


def _ask(credentials: ClientCredentials) -> tuple[str, float]:
    """Return a token and for how many seconds it is good; runs in a thread."""
    import base64  # these are slow to load and rarely used
    import http.client
    import json
    import urllib.error
    import urllib.request
    from urllib.parse import urlencode, urlsplit

    where = f"the token endpoint {credentials.endpoint}"
    form = {"grant_type": "client_credentials"} | ({"scope": credentials.scope} if credentials.scope else {})
    login = base64.b64encode(f"{credentials.client_id}:{credentials.client_secret}".encode()).decode()
    headers = {"Authorization": f"Basic {login}", "Accept": "application/json"}
    request = urllib.request.Request(credentials.endpoint, urlencode(form).encode(), headers)

    class NoRedirect(urllib.request.HTTPRedirectHandler):
        """The secret is for this endpoint only."""

        def redirect_request(self, *_: object) -> None:
            return None

    handlers: list[urllib.request.BaseHandler] = [NoRedirect()]
    if urlsplit(credentials.endpoint).scheme == "https":
        handlers.append(urllib.request.HTTPSHandler(context=_context(credentials)))
    try:
        with urllib.request.build_opener(*handlers).open(request, timeout=ENDPOINT_SECONDS) as answer:
            body = answer.read(MAX_ANSWER_BYTES)
    except urllib.error.HTTPError as error:
        text = f"{where} answers {error.code} {error.reason}{_said(error.read(MAX_ANSWER_BYTES))}"
        error.close()
        if error.code in (400, 401, 403):
            raise AuthenticationFailed(f"{text}; check the client id and its secret") from None
        raise ClusterError(text) from None
    except (OSError, http.client.HTTPException) as error:  # urllib.error.URLError is an OSError
        raise ClusterError(f"{where} cannot be asked: {getattr(error, 'reason', None) or error}") from None
    try:
        found = json.loads(body)
        token, lifetime = str(found["access_token"]), float(found.get("expires_in") or 0)
    except (ValueError, KeyError, TypeError, AttributeError):
        raise ClusterError(f'{where} answers without "access_token"; is it the right URL?') from None
    return _checked(token, f"the token of {where}"), lifetime


def _context(credentials: ClientCredentials) -> ssl.SSLContext:
    import ssl

    from shareproxy.cluster.errors import PropertiesError

    try:
        return ssl.create_default_context(cafile=credentials.ca_file)
    except OSError as error:
        raise PropertiesError(credentials.ca_file or "", f"cannot be used for TLS: {error}") from None


def _said(body: bytes) -> str:
    """Return the reason in an error of an endpoint (RFC 6749, section 5.2)."""
    import json

    try:
        found = json.loads(body)
        words = [str(found[key]) for key in ("error", "error_description") if found.get(key)]
    except (ValueError, AttributeError):
        return ""
    return f" ({': '.join(words)[:_ERROR_WORDS]})" if words else ""


def _checked(token: str, what: str) -> str:
    # RFC 6750: printable letters and signs; a line break in it would end the field of the login
    if not token or not token.isascii() or not token.isprintable() or " " in token:
        raise ClusterError(f"{what} is {'empty' if not token else 'not a token: it has signs that no token has'}")
    return token

"""Names of clients come in; a token endpoint that gives them unsecured tokens goes out.

Kafka's own validator for development accepts such tokens. Must never be used but on 127.0.0.1.
"""

from __future__ import annotations

import base64
import json
import ssl
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from urllib.parse import parse_qs

Answer = tuple[int, dict[str, str], bytes]


@dataclass
class OAuthEndpoint:
    """A running endpoint.

    Attributes:
        url: where it is.
        clients: secret by name; the name is also the principal.
        lifetime: seconds that a token is good for.
        forced: what is answered instead of a token, if set: status, headers, body.
        asked: the form and the Authorization header of each request.
    """

    url: str = ""
    clients: dict[str, str] = field(default_factory=lambda: {"admin": "admin-secret"})
    lifetime: int = 300
    forced: Answer | None = None
    asked: list[tuple[dict[str, list[str]], str]] = field(default_factory=list)

    def answer(self, form: dict[str, list[str]], authorization: str) -> Answer:
        """Return status, headers and body for one request."""
        self.asked.append((form, authorization))
        if self.forced is not None:
            return self.forced
        name, _, secret = base64.b64decode(authorization.removeprefix("Basic ")).decode().partition(":")
        if self.clients.get(name) != secret:
            refusal = {"error": "invalid_client", "error_description": "no such client"}
            return 401, {}, json.dumps(refusal).encode()
        answer = {"access_token": unsecured_token(name, self.lifetime), "expires_in": self.lifetime}
        return 200, {}, json.dumps(answer).encode()


def unsecured_token(principal: str, lifetime: int = 300) -> str:
    """Return a token without a signature."""
    now = int(time.time())
    claims = {"sub": principal, "iat": now - 1, "exp": now + lifetime}
    parts = [base64.urlsafe_b64encode(json.dumps(part).encode()).rstrip(b"=") for part in ({"alg": "none"}, claims)]
    return b".".join((*parts, b"")).decode()


@contextmanager
def oauth_endpoint(certificate: Path | None = None) -> Iterator[OAuthEndpoint]:
    """Run an endpoint until the block ends; with a PEM file of key and certificate it speaks TLS."""
    endpoint = OAuthEndpoint()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            form = parse_qs(self.rfile.read(int(self.headers["Content-Length"])).decode())
            status, headers, body = endpoint.answer(form, self.headers.get("Authorization", ""))
            self.send_response(status)
            for name, value in headers.items():
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            """Stay silent."""

    with HTTPServer(("127.0.0.1", 0), Handler) as server:
        scheme = "http"
        if certificate is not None:
            scheme, context = "https", ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(certificate)
            server.socket = context.wrap_socket(server.socket, server_side=True)
        endpoint.url = f"{scheme}://127.0.0.1:{server.server_port}/token"
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
        thread.start()
        try:
            yield endpoint
        finally:
            server.shutdown()
            thread.join()

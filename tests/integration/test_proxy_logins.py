"""Logins through the proxy, byte for byte as without it, and the proxy's own logins for its look-ups."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import hmac
import re
import time
from collections.abc import Callable, Iterator
from typing import NamedTuple

import pytest

from shareproxy.cluster.addresses import parse_addresses
from shareproxy.cluster.cluster import Cluster
from shareproxy.cluster.oauth import ClientCredentials
from shareproxy.cluster.security import Security as BrokerSecurity
from shareproxy.protocol.headers import decode_response, sized
from shareproxy.protocol.ids import NodeId
from shareproxy.protocol.messages import (
    DescribeShareGroupOffsetsRequest,
    DescribeShareGroupOffsetsRequestGroup,
    ListGroupsRequest,
    MetadataRequest,
    SaslAuthenticateRequest,
    SaslAuthenticateResponse,
    SaslHandshakeRequest,
)
from shareproxy.testing.driver import ShareDriver
from shareproxy.testing.kafka import LocalKafka, Security
from tests.support import scenarios
from tests.support.oauth_endpoint import oauth_endpoint, unsecured_token
from tests.support.raw_frames import RawConnection, head, request
from tests.support.real_kafka import VERSIONS, require_kafka
from tests.support.running_proxy import RunningProxy, running_proxy

LISTENER = "listener.name.sasl_plaintext."
HANDLERS = "org.apache.kafka.common.security.oauthbearer."
SHORT_LIVED = "SCRAM-SHA-512"
PROPERTIES = {
    f"{LISTENER}sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512,OAUTHBEARER",
    f"{LISTENER}oauthbearer.sasl.jaas.config": (
        f'{HANDLERS}OAuthBearerLoginModule required unsecuredLoginStringClaim_sub="broker";'
    ),
    "connections.max.reauth.ms": "3600000",
    f"{LISTENER}{SHORT_LIVED.lower()}.connections.max.reauth.ms": "1500",
}
USERS = {"admin": "admin-secret", "alice": "alice-secret"}
NONCE = "fyko"
GROUPS = request(ListGroupsRequest(), 3, 9)
LARGE_GROUPS = sized(GROUPS[4:] + bytes(600_000))  # more than is taken before a login; brokers skip what is behind
WRONG = "wrong"

Said = list[object]
"""What was heard, without what is random in it."""


class Login(NamedTuple):
    """Who logs in, and how."""

    mechanism: str
    user: str
    password: str

    def second(self, first_of_broker: bytes) -> bytes:
        """Return the second token of SCRAM (RFC 5802)."""
        digest = hashlib.sha256 if self.mechanism == "SCRAM-SHA-256" else hashlib.sha512
        name = digest().name
        parts = dict(part.split("=", 1) for part in first_of_broker.decode().split(","))
        salted = hashlib.pbkdf2_hmac(name, self.password.encode(), base64.b64decode(parts["s"]), int(parts["i"]))
        without_proof = f"c=biws,r={parts['r']}"
        signed = f"n={self.user},r={NONCE},{first_of_broker.decode()},{without_proof}".encode()
        key = hmac.digest(salted, b"Client Key", name)
        signature = hmac.digest(digest(key).digest(), signed, name)
        proof = bytes(a ^ b for a, b in zip(key, signature, strict=True))
        return f"{without_proof},p={base64.b64encode(proof).decode()}".encode()

    def first(self) -> bytes:
        """Return the first token."""
        if self.mechanism.startswith("SCRAM"):
            return f"n,,n={self.user},r={NONCE}".encode()
        if self.mechanism == "PLAIN":
            return f"\0{self.user}\0{self.password}".encode()
        return f"n,,\x01auth=Bearer {self.password or unsecured_token(self.user)}\x01\x01".encode()


ADMIN = {name: Login(name, "admin", "admin-secret") for name in ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")}
TOKEN = Login("OAUTHBEARER", "admin", "")


def log_in(connection: RawConnection, login: Login, version: int = 1) -> Said:
    """Log in and return what the broker said."""
    said: Said = [connection.ask(request(SaslHandshakeRequest(login.mechanism), version))]
    token: bytes | None = login.first()
    while token is not None:
        if version == 0:
            answer = connection.ask(sized(token))
            said.append(answer if answer is None else settled(answer))
        else:
            frame = connection.ask(request(SaslAuthenticateRequest(token), 2))
            if frame is None:
                return [*said, None]
            _, message = decode_response(SaslAuthenticateResponse, 2, frame)
            answer = message.auth_bytes
            lasting = message.session_lifetime_ms > 0
            said.append((message.error_code, message.error_message, settled(answer), lasting))
        token = login.second(answer) if answer is not None and answer.startswith(b"r=") else None
    return said


def settled(token: bytes) -> bytes:
    """Return a broker's token without what is random."""
    return re.sub(rb"^r=[^,]*|^v=.*", b"*", token)


def then_groups(login: Login, version: int, asked: bytes = GROUPS) -> Callable[[RawConnection], Said]:
    """Log in and ask for something."""
    return lambda connection: [*log_in(connection, login, version), connection.ask(asked)]


def again(first: Login, second: Login) -> Callable[[RawConnection], Said]:
    """Log in, and a second time on the same connection once the broker allows it; ask after each."""

    def run(connection: RawConnection) -> Said:
        said = [*log_in(connection, first), connection.ask(GROUPS)]
        allowed = time.monotonic() + 1.1  # seconds; earlier ones are refused
        while time.monotonic() < allowed:
            connection.ask(GROUPS)
        return [*said, *log_in(connection, second), connection.ask(GROUPS)]

    return run


def sends(*parts: bytes) -> Callable[[RawConnection], Said]:
    """Send all at once."""

    def run(connection: RawConnection) -> Said:
        connection.send(b"".join(parts))
        return list(connection.rest())

    return run


def outlive(connection: RawConnection) -> Said:
    """Log in for a short time and ask until the broker has enough of it."""
    said = log_in(connection, ADMIN[SHORT_LIVED])
    heard: Said = []
    while (frame := connection.ask(GROUPS)) is not None:
        heard = [frame]
    return [*said, *heard, None]


def shake(mechanism: str, version: int) -> bytes:
    """Return a handshake."""
    return request(SaslHandshakeRequest(mechanism), version)


PLAIN_TOKEN = ADMIN["PLAIN"].first()
AUTHENTICATE = request(SaslAuthenticateRequest(PLAIN_TOKEN), 1, 2)
CONVERSATIONS: dict[str, Callable[[RawConnection], Said]] = {
    **{f"{name} v{v}": then_groups(login, v) for name, login in ADMIN.items() for v in (0, 1)},
    **{
        f"{name} v{v} wrong": then_groups(login._replace(password=WRONG), v)
        for name, login in ADMIN.items()
        for v in (0, 1)
    },
    **{
        f"{name} v{v} nobody": then_groups(login._replace(user="bob"), v)
        for name, login in ADMIN.items()
        for v in (0, 1)
    },
    **{f"{name} v{v} large": then_groups(login, v, LARGE_GROUPS) for name, login in ADMIN.items() for v in (0, 1)},
    "OAUTHBEARER v1 large": then_groups(TOKEN, 1, LARGE_GROUPS),
    "no login, large": sends(LARGE_GROUPS),
    "OAUTHBEARER v1": then_groups(TOKEN, 1),
    "OAUTHBEARER v0": then_groups(TOKEN, 0),
    "OAUTHBEARER wrong": then_groups(TOKEN._replace(password=WRONG), 1),
    "again": again(ADMIN["PLAIN"], ADMIN["PLAIN"]),
    "again as somebody else": again(ADMIN["PLAIN"], Login("PLAIN", "alice", "alice-secret")),
    "again with a wrong password": again(ADMIN["PLAIN"], ADMIN["PLAIN"]._replace(password=WRONG)),
    "login that ends": outlive,
    "no login": sends(request(MetadataRequest(topics=[]), 4)),
    "newer versions before a login": sends(head(18, 99), shake("PLAIN", 1), AUTHENTICATE, GROUPS),
    "all at once": sends(shake("PLAIN", 1), AUTHENTICATE, GROUPS),
    "all at once v0": sends(shake("PLAIN", 0), sized(PLAIN_TOKEN), GROUPS),
    "unknown mechanism": sends(shake("FOO", 1)),
    "unknown mechanism, then a known one": sends(shake("FOO", 1), shake("PLAIN", 1), AUTHENTICATE, GROUPS),
    "request instead of a token": sends(shake("PLAIN", 1), GROUPS),
    "token before the handshake": sends(AUTHENTICATE),
    "handshake twice": sends(shake("PLAIN", 1), shake("PLAIN", 1), AUTHENTICATE, GROUPS),
    "token after the login": sends(shake("PLAIN", 1), AUTHENTICATE, AUTHENTICATE, GROUPS),
    "handshake of an unknown version": sends(shake("PLAIN", 1)[:6] + b"\0\2" + shake("PLAIN", 1)[8:]),
    "raw token that is too large": lambda c: [c.ask(shake("PLAIN", 0)), c.ask(sized(bytes(524_289)))],
    "raw token without an end": lambda c: [c.ask(shake("PLAIN", 0)), c.ask(b"\xff\xff\xff\xff")],
    "empty raw token": lambda c: [c.ask(shake("PLAIN", 0)), c.ask(sized(b""))],
}


@pytest.fixture(scope="module", params=sorted({VERSIONS[0], VERSIONS[-1]}))
def kafka(request: pytest.FixtureRequest) -> Iterator[LocalKafka]:
    """A node with all mechanisms, whose logins end."""
    require_kafka()
    security = Security(users=USERS, authorizer=True, super_users=("admin",))
    with LocalKafka(request.param, security=security, properties=PROPERTIES) as cluster:
        yield cluster


@pytest.fixture(scope="module")
def proxy(kafka: LocalKafka) -> Iterator[RunningProxy]:
    """A proxy in front of the listener with logins; its own look-ups are admin's, with a login that ends soon."""
    admin = BrokerSecurity("SASL_PLAINTEXT", SHORT_LIVED, "admin", "admin-secret")
    with running_proxy(kafka.listeners["SASL_PLAINTEXT"], broker_security=admin) as proxy:
        yield proxy


@pytest.mark.parametrize("name", CONVERSATIONS)
def test_same_as_the_broker(name: str, kafka: LocalKafka, proxy: RunningProxy) -> None:
    """Every answer of a login, and what can be asked behind it."""

    def said(address: str) -> Said:
        with RawConnection(address) as connection:
            return CONVERSATIONS[name](connection)

    assert said(proxy.node_ports[1]) == said(kafka.listeners["SASL_PLAINTEXT"])


def test_look_ups_by_a_token_endpoint(kafka: LocalKafka, topic: str, group: str) -> None:
    """The proxy's own identity may come from OAUTHBEARER with client credentials; 4.1 needs it for lag."""
    if kafka.version != VERSIONS[0]:
        pytest.skip("later brokers tell the lag themselves")
    with oauth_endpoint() as endpoint, ShareDriver(kafka) as driver:
        scenarios.kip_1226_layout(driver, topic, group)
        credentials = ClientCredentials(endpoint.url, "admin", "admin-secret")
        identity = BrokerSecurity("SASL_PLAINTEXT", "OAUTHBEARER", client_credentials=credentials)
        with running_proxy(kafka.listeners["SASL_PLAINTEXT"], broker_security=identity) as proxy:
            lag = asyncio.run(lag_for_admin(proxy.bootstrap_servers, group))

    assert lag == 7
    assert len(endpoint.asked) == 1


async def lag_for_admin(address: str, group: str) -> int:
    """Ask with our own client, logged in by a password."""
    admin = BrokerSecurity("SASL_PLAINTEXT", "PLAIN", "admin", "admin-secret")
    async with Cluster(parse_addresses(address), admin) as cluster:
        deadline = asyncio.get_running_loop().time() + 30
        asked = DescribeShareGroupOffsetsRequest([DescribeShareGroupOffsetsRequestGroup(group, None)])
        answer = await cluster.request(NodeId(1), asked, deadline=deadline, min_version=1)
    return answer.groups[0].topics[0].partitions[0].lag

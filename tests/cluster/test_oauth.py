"""Tokens for OAUTHBEARER: where they come from, how long they are kept, what a person is told."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from shareproxy.cluster.errors import AuthenticationFailed, ClusterError, PropertiesError
from shareproxy.cluster.oauth import ClientCredentials, OAuthLogin, forget_token, read_token
from shareproxy.cluster.security import Security
from tests.support.certificates import issue
from tests.support.oauth_endpoint import OAuthEndpoint, oauth_endpoint


@pytest.fixture
def endpoint() -> Iterator[OAuthEndpoint]:
    """A token endpoint that knows admin."""
    with oauth_endpoint() as started:
        yield started


def security(endpoint: OAuthEndpoint, secret: str = "admin-secret", scope: str | None = None) -> Security:
    """Return the security of a client with credentials."""
    credentials = ClientCredentials(endpoint.url, "admin", secret, scope)
    return Security("SASL_PLAINTEXT", "OAUTHBEARER", client_credentials=credentials)


async def test_the_endpoint_is_asked_as_the_standard_says(endpoint: OAuthEndpoint) -> None:
    """Grant type and scope in the form, name and secret in the header (RFC 6749, section 4.4)."""
    token = await read_token(security(endpoint, scope="kafka one"))

    assert endpoint.asked == [
        ({"grant_type": ["client_credentials"], "scope": ["kafka one"]}, "Basic YWRtaW46YWRtaW4tc2VjcmV0")
    ]
    assert token.count(".") == 2


async def test_a_token_is_kept_while_it_is_good(endpoint: OAuthEndpoint) -> None:
    """Every connection to a broker needs one; after it was refused a new one is asked for."""
    asks = security(endpoint)

    tokens = {await read_token(asks) for _ in range(3)}
    assert len(endpoint.asked) == len(tokens) == 1

    forget_token(asks)
    await read_token(asks)
    assert len(endpoint.asked) == 2


async def test_a_token_without_a_lifetime_is_not_kept(endpoint: OAuthEndpoint) -> None:
    """Nobody knows how long it is good."""
    endpoint.lifetime = 0

    for _ in range(2):
        await read_token(security(endpoint))

    assert len(endpoint.asked) == 2


async def test_a_wrong_secret_is_the_endpoints_answer(endpoint: OAuthEndpoint) -> None:
    """With its words and without the secret."""
    with pytest.raises(
        AuthenticationFailed, match=r"401 .*\(invalid_client: no such client\); check the client id"
    ) as e:
        await read_token(security(endpoint, "wrong-s3cret"))

    assert "wrong-s3cret" not in str(e.value)


@pytest.mark.parametrize(
    ("answer", "problem"),
    [
        ((200, {}, b"<html>"), 'answers without "access_token"; is it the right URL'),
        ((200, {}, b"[]"), 'answers without "access_token"'),
        ((200, {}, b'{"access_token": "a\\nb"}'), "is not a token"),
        ((200, {}, b'{"access_token": ""}'), "is empty"),
        ((200, {}, b'{"access_token": "a", "expires_in": "soon"}'), 'answers without "access_token"'),
        ((500, {}, b"oops"), "answers 500"),
        ((302, {"Location": "http://127.0.0.1:1/"}, b""), "answers 302"),
    ],
)
async def test_what_is_not_a_token_is_said(
    endpoint: OAuthEndpoint, answer: tuple[int, dict[str, str], bytes], problem: str
) -> None:
    """A redirect is not followed: the secret is for this endpoint only."""
    endpoint.forced = answer

    with pytest.raises(ClusterError, match=problem):
        await read_token(security(endpoint))


async def test_an_endpoint_that_is_not_there_is_named() -> None:
    """With the system's reason."""
    nowhere = ClientCredentials("http://127.0.0.1:1/token", "a", "b")

    with pytest.raises(ClusterError, match=r"endpoint http://127\.0\.0\.1:1/token cannot be asked: .*refused"):
        await read_token(Security("SASL_PLAINTEXT", "OAUTHBEARER", client_credentials=nowhere))


async def test_a_missing_file_with_authorities_is_named(tmp_path: Path) -> None:
    """Before anything is sent."""
    missing = str(tmp_path / "none.pem")
    asks = ClientCredentials("https://127.0.0.1:1/token", "a", "b", ca_file=missing)

    with pytest.raises(PropertiesError, match=r"none\.pem: cannot be used for TLS"):
        await read_token(Security("SASL_PLAINTEXT", "OAUTHBEARER", client_credentials=asks))


async def test_the_endpoints_certificate_is_checked(tmp_path: Path) -> None:
    """With the authorities that are named, or the system's."""
    files = issue(tmp_path, "IP:127.0.0.1")
    with oauth_endpoint(files.pem) as endpoint:
        trusting = ClientCredentials(endpoint.url, "admin", "admin-secret", ca_file=str(files.ca_pem))
        token = await read_token(Security("SASL_PLAINTEXT", "OAUTHBEARER", client_credentials=trusting))
        with pytest.raises(ClusterError, match=r"cannot be asked: .*certificate verify failed"):
            await read_token(security(endpoint))

    assert token
    assert len(endpoint.asked) == 1


async def test_the_loop_goes_on_while_the_endpoint_is_asked(endpoint: OAuthEndpoint) -> None:
    """Asking is another thread's work."""
    turns = 0

    async def count() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    counting = asyncio.create_task(count())
    await read_token(security(endpoint))
    counting.cancel()

    assert turns > 1


async def test_a_refused_token_is_said_goodbye_and_forgotten(endpoint: OAuthEndpoint) -> None:
    """A broker's reason is followed by one byte of ours, after which it ends the login (RFC 7628, section 3.2.3)."""
    asks = security(endpoint)
    login = OAuthLogin(asks)

    first = await login.step(None)
    assert first is not None
    assert first[0].startswith(b"n,,\x01auth=Bearer ")
    assert await login.step(b'{"status":"invalid_token"}') == (b"\x01", True)
    await read_token(asks)

    assert len(endpoint.asked) == 2


async def test_an_accepted_token_ends_the_login(endpoint: OAuthEndpoint) -> None:
    """The broker's last token is empty."""
    login = OAuthLogin(security(endpoint))

    await login.step(None)

    assert await login.step(b"") is None

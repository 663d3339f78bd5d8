"""Hold what can go wrong on the way to the brokers.

In: nothing. Out: exceptions whose text is a sentence for a person: what happened, where, what to try; `retry` tells a
program the same. Must never: carry a password.
"""

# ruff: noqa: N818 - these names say what happened, as Kafka's own error names do

from __future__ import annotations

import ssl

from shareproxy.cluster.retries import Retry, classify
from shareproxy.protocol.errors import error_name


class ClusterError(Exception):
    """Base of everything this layer raises on purpose."""

    retry: Retry = Retry.FINAL


class Unreachable(ClusterError):
    """Nobody answered."""

    retry = Retry.ELSEWHERE


class DeadlinePassed(Unreachable):
    """The answer did not come in time; the node may still be working on it."""


class WrongListener(Unreachable):
    """Somebody answers there, but not in the way the security settings want."""

    retry = Retry.FINAL


class ConnectionClosed(ClusterError):
    """The connection ended before the answer came."""

    retry = Retry.HERE


class BadAnswer(ConnectionClosed):
    """The other side broke the rules of the protocol; the connection was closed for it."""

    retry = Retry.FINAL


class AuthenticationFailed(ClusterError):
    """The broker does not know us, or we do not trust the broker."""


class NotAuthorized(ClusterError):
    """The broker knows us and refuses.

    Args:
        sentence: for a person.
        code: Kafka's error code.
    """

    def __init__(self, sentence: str, code: int | None = None) -> None:
        self.code = code
        super().__init__(sentence)


class UnsupportedApi(ClusterError):
    """The broker does not offer the wanted versions of an API.

    Args:
        api_key: Kafka's number of the API.
        name: of the request, without "Request".
        wanted: first and last usable version.
        offered: first and last version the broker offers, None if it does not know the API.
        where: the broker.
    """

    def __init__(
        self,
        api_key: int,
        name: str,
        wanted: tuple[int, int],
        offered: tuple[int, int] | None,
        where: str = "the broker",
    ) -> None:
        self.api_key, self.name, self.wanted, self.offered = api_key, name, wanted, offered
        has = "does not offer it" if offered is None else f"offers {_range(offered)}"
        super().__init__(f"{where}: {name} (API {api_key}) {_range(wanted)} is needed, but the broker {has}")


class BrokerError(ClusterError):
    """The broker answered with an error code.

    Args:
        code: Kafka's error code.
        message: the broker's own text, None if it gave none.
        where: what was asked of whom.
    """

    def __init__(self, code: int, message: str | None, where: str) -> None:
        self.code, self.message, self.where = code, message, where
        self.retry = classify(code)
        super().__init__(f"{where}: error {code} ({error_name(code)})" + (f": {message}" if message else ""))


class InternalTopicMissing(ClusterError):
    """An internal topic does not exist yet, so nobody coordinates; it is not made by asking.

    Args:
        topic: name of the internal topic.
        sentence: for a person.
    """

    retry = Retry.ELSEWHERE

    def __init__(self, topic: str, sentence: str) -> None:
        self.topic = topic
        super().__init__(sentence)


class PropertiesError(ClusterError):
    """A client property file, or a file that it names, cannot be used.

    Args:
        file: path.
        problem: what is wrong and what to do.
        line: number of the line, None if no line is at fault.
        key: property at fault, None if none is.
    """

    def __init__(self, file: str, problem: str, *, line: int | None = None, key: str | None = None) -> None:
        self.file, self.problem, self.line, self.key = file, problem, line, key
        place = file if line is None else f"{file}, line {line}"
        super().__init__(": ".join(part for part in (place, key, problem) if part))


def cause_text(error: BaseException) -> str:
    """Return why a connection could not be made or kept, in a few words."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"its certificate is not accepted: {error.verify_message.rstrip('.')}"
    if isinstance(error, ssl.SSLError):
        return f"TLS failed: {(error.reason or str(error)).lower().replace('_', ' ')}"
    if isinstance(error, TimeoutError):
        return "no answer in time"
    if isinstance(error, ConnectionRefusedError):
        return "connection refused"
    if isinstance(error, OSError):
        return (error.strerror or str(error) or type(error).__name__).lower()
    return str(error) or type(error).__name__


def _range(versions: tuple[int, int]) -> str:
    low, high = versions
    return f"version {low}" if low == high else f"versions {low}–{high}"

"""What people write: property files, TOML, addresses, node ids, host patterns, logins, version ranges.

In: which of them, and text. Out: nothing, or a finding: an error that is not the one with the sentence, or a value
that does not survive being written and read again.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from random import Random
from tempfile import NamedTemporaryFile
from typing import Final

import msgspec

from fuzz.finding import expect
from fuzz.target import Target
from shareproxy.cluster.addresses import parse_addresses
from shareproxy.cluster.errors import PropertiesError
from shareproxy.cluster.jaas import parse_jaas
from shareproxy.cluster.properties import KEYS, read_client_properties
from shareproxy.cluster.property_file import PropertySyntaxError, parse_properties, read_property_text
from shareproxy.config import ConfigError, Settings, environment_name, load_settings, setting_keys
from shareproxy.protocol.versions import VersionRange
from shareproxy.proxy.host_pattern import HostPattern
from shareproxy.proxy.ports import NodePorts, PortsError, parse_node_ids

_LONGEST_MESSAGE: Final = 20_000


def run(data: bytes) -> None:
    """Take the kind in one byte, then its text."""
    if data and data[0] < len(_KINDS):
        _KINDS[data[0]](data[1:])


def _property_file(text: bytes) -> None:
    with NamedTemporaryFile(buffering=0) as file:
        file.write(text)
        try:
            read_client_properties(file.name)
        except PropertiesError as error:
            _readable(error)


def _property_text(text: bytes) -> None:
    try:
        entries = parse_properties(read_property_text(text))
    except PropertySyntaxError as error:
        expect(error.line > 0, "a line is named", error)
        return
    written = "\n".join(f"{_escaped(entry.key)}={_escaped(entry.value)}" for entry in entries)
    again = parse_properties(written)
    expect([row[:2] for row in again] == [row[:2] for row in entries], "entries survive", entries, written)


def _escaped(text: str) -> str:
    return "".join(f"\\u{unit:04x}" for unit in _utf16_units(text))


def _utf16_units(text: str) -> list[int]:
    """Return the UTF-16 units of a text, as Java escapes them."""
    raw = text.encode("utf-16-be", "surrogatepass")
    return [int.from_bytes(raw[at : at + 2]) for at in range(0, len(raw), 2)]


def _toml(text: bytes) -> None:
    with NamedTemporaryFile(buffering=0) as file:
        file.write(text)
        try:
            _check(load_settings(file.name))
        except ConfigError as error:
            _readable(error)


def _environment(text: bytes) -> None:
    keys = [key for key, _ in setting_keys()]
    environment = {}
    for row in text.split(b"\n"):
        if row:
            environment[environment_name(keys[row[0] % len(keys)])] = row[1:].decode("utf-8", "surrogateescape")
    try:
        _check(load_settings(None, environment))
    except ConfigError as error:
        _readable(error)


def _check(settings: Settings) -> None:
    for seconds in (
        settings.lag_timeout,
        settings.timeout,
        settings.exporter.interval,
        settings.limits.connect_timeout,
    ):
        expect(math.isfinite(seconds) and 0 < seconds <= 86_400, "a time is a time", seconds)
    again = msgspec.convert(msgspec.to_builtins(settings), Settings)
    expect(again == settings, "settings survive", settings, again)


def _host_pattern(text: bytes) -> None:
    pattern_text, _, host = text.decode("utf-8", "surrogateescape").partition("\n")
    try:
        pattern = HostPattern(pattern_text)
    except PortsError as error:
        _readable(error)
        return
    for node_id in (0, 1, 10, 2**31 - 1):
        expect(
            pattern.node_of(pattern.host_of(node_id)) == node_id, "a node is found by its name", pattern_text, node_id
        )
        expect(pattern.host_of(node_id).isascii(), "a host name is one", pattern_text)
    found = pattern.node_of(host)
    if found is not None:
        expect(pattern.host_of(found).lower() == host.rstrip(".").lower(), "a node has one name", pattern_text, host)


def _addresses(text: bytes) -> None:
    try:
        addresses = parse_addresses(text.decode("utf-8", "surrogateescape"))
    except ValueError as error:
        expect(type(error) is ValueError, "an address is refused in words", error)
        _readable(error)
        return
    for address in addresses:
        expect(bool(address.host) and 0 <= address.port < 65_536, "an address has a host and a port", address)
    again = parse_addresses(",".join(map(str, addresses)))
    expect(again == addresses, "addresses survive", addresses, again)


def _node_ids(text: bytes) -> None:
    try:
        ranges = parse_node_ids(text.decode("utf-8", "surrogateescape"))
        ports = NodePorts(19_100, 19_163, ranges)
    except PortsError as error:
        _readable(error)
        return
    taken = [node_id for ids in ranges for node_id in ids]
    expect(len(set(taken)) == len(taken) <= 64, "each node has a port", taken)
    for node_id in taken:
        port = ports.port_of(node_id)
        assert port is not None
        expect(ports.node_of(port) == node_id, "a port has one node", node_id, port)


def _jaas(text: bytes) -> None:
    try:
        login = parse_jaas(text.decode("utf-8", "replace"))
    except ValueError as error:
        _readable(error)
        return
    written = "".join(f' {name}="{_quoted(value)}"' for name, value in login.options.items())
    if all(name and not set(name) & set("\\\"'") for name in login.options) and login.module:
        again = parse_jaas(f"{login.module} required{written};")
        expect(again.options == login.options, "options survive", login.options, written)


def _quoted(value: str) -> str:
    return value.replace("\\", "\\\\").replace('"', '\\"')


def _versions(text: bytes) -> None:
    try:
        versions = VersionRange.parse(text.decode("utf-8", "replace"))
    except ValueError as error:
        _readable(error)
        return
    expect(VersionRange.parse(str(versions)) == versions, "a range survives", versions)


def _readable(error: Exception) -> None:
    text = str(error)
    expect(bool(text) and len(text) < _LONGEST_MESSAGE, "an error is a sentence", len(text), text)


_KINDS: Final[tuple[Callable[[bytes], None], ...]] = (
    _property_file,
    _property_text,
    _toml,
    _environment,
    _host_pattern,
    _addresses,
    _node_ids,
    _jaas,
    _versions,
)
_PEM: Final = "-----BEGIN CERTIFICATE-----\\nMIIB\\n-----END CERTIFICATE-----"
_LOGIN: Final = 'org.apache.kafka.common.security.plain.PlainLoginModule required username="u" password="p w";'
_TOKEN: Final = (
    "security.protocol=SASL_PLAINTEXT\nsasl.mechanism=OAUTHBEARER\n"
    "sasl.jaas.config=org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule required scope=s;\n"
)
_CLIENT: Final = "sasl.oauthbearer.client.credentials.client."
_EXAMPLES: Final = (
    (0, f"security.protocol=SASL_SSL\nsasl.mechanism=PLAIN\nsasl.jaas.config={_LOGIN}\n"),
    (0, f"{_TOKEN}sasl.oauthbearer.token.endpoint.url=file:///t\n"),
    (0, f"{_TOKEN}sasl.oauthbearer.token.endpoint.url=https://id/t\n{_CLIENT}id=me\n{_CLIENT}secret=s\n"),
    (0, "security.protocol=SASL_PLAINTEXT\nsasl.mechanism=GSSAPI\nsasl.kerberos.service.name=kafka\n"),
    (0, f"security.protocol=SSL\nssl.truststore.type=PEM\nssl.truststore.certificates={_PEM}\n"),
    (
        0,
        f"security.protocol=SSL\nssl.keystore.type=PEM\nssl.keystore.key={_PEM}\nssl.keystore.certificate.chain={_PEM}\n",
    ),
    (0, "security.protocol=SSL\nssl.truststore.location=trust.pem\nssl.endpoint.identification.algorithm=\n"),
    (0, "request.timeout.ms=30000\nclient.id=me\nbootstrap.servers=x:1\n"),
    (0, "".join(f"{key}=x\n" for key in KEYS)),
    (1, "# c\n! c\na = 1\nb : 2 \\\n  3\n\\u0041\\ b\\=c d\\t\n"),
    (2, 'listen = "127.0.0.1:1"\nnode_ids = "1-3,9"\n[limits]\nmax_connections = 5\nconnect_timeout = 1.5\n'),
    (2, '[exporter]\nenabled = false\nvisible = "all"\n[log]\nlevel = "debug"\n[tls]\nclient_auth = "required"\n'),
    (2, '"limits.max_connections" = 3\ntls = { certificate = "c" }\n'),
    (3, "\0kafka:9092\n\x09true\n\x105\n\x0b0.5"),
    (4, "b{node_id}.kafka.example\nb12.kafka.example"),
    (4, "{node_id}.k\nB0.K."),
    (5, "kafka-1:9092, [::1]:9093,kafka-1:9092"),
    (6, "1-3, 5,1000-1002"),
    (7, _LOGIN),
    (7, 'a.b.PlainLoginModule required username="u" password="p\\"w";'),
    (7, "a.b.ScramLoginModule required username='x' password=y tokenauth=\"true\";"),
    (8, "1-4"),
    (8, "2+"),
    (8, "none"),
)


def seeds() -> Iterator[bytes]:
    """Yield what people write when they make no mistake."""
    for kind, text in _EXAMPLES:
        yield bytes((kind,)) + text.encode()


def fresh(random: Random) -> bytes:
    """Return one of the examples with lines of others of its kind."""
    kind, text = random.choice(_EXAMPLES)
    lines = [line for other, rows in _EXAMPLES if other == kind for line in rows.split("\n")]
    picked = random.sample(lines, random.randint(1, len(lines))) if random.randrange(2) else [text]
    return bytes((kind,)) + "\n".join(picked).encode()


TARGET: Final = Target("settings", "files, flags and variables that people write", run, seeds, fresh, 2_048)

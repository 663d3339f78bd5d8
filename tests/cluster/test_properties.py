"""Java client property files, as people have them."""

from __future__ import annotations

from pathlib import Path

import pytest

from shareproxy.cluster.errors import PropertiesError
from shareproxy.cluster.oauth import ClientCredentials
from shareproxy.cluster.properties import ClientProperties, read_client_properties
from shareproxy.cluster.security import PLAINTEXT

LOGIN = (
    "sasl.jaas.config=org.apache.kafka.common.security.{}LoginModule required \\\n"
    '  username="ann" \\\n  password="s3cret";\n'
)
PLAIN_LOGIN, SCRAM_LOGIN = LOGIN.format("plain.Plain"), LOGIN.format("scram.Scram")
SASL = "security.protocol=SASL_PLAINTEXT\nsasl.mechanism=PLAIN\n"
PEM = "-----BEGIN CERTIFICATE-----\nQUJD\n-----END CERTIFICATE-----\n"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Where the files are, with a few stores."""
    (tmp_path / "ca.pem").write_text(f"Bag Attributes\n{PEM}")
    (tmp_path / "store.jks").write_bytes(b"\xfe\xed\xfe\xed\x00\x00\x00\x02")
    (tmp_path / "store.p12").write_bytes(b"\x30\x82\x01\x00")
    (tmp_path / "empty").write_bytes(b"")
    return tmp_path


def read(folder: Path, text: str) -> ClientProperties:
    """Write a file and read it; `@` stands for the folder."""
    path = folder / "client.properties"
    path.write_text(text.replace("@", str(folder)))
    return read_client_properties(path)


def test_an_empty_file_is_plain_text(folder: Path) -> None:
    """Every key has a default."""
    assert read(folder, "") == ClientProperties(PLAINTEXT)


def test_a_login_is_read(folder: Path) -> None:
    """PLAIN, over several lines."""
    security = read(folder, SASL + PLAIN_LOGIN).security

    assert (security.protocol, security.sasl_mechanism) == ("SASL_PLAINTEXT", "PLAIN")
    assert (security.username, security.password) == ("ann", "s3cret")


@pytest.mark.parametrize("mechanism", ["SCRAM-SHA-256", "scram-sha-512"])
def test_a_scram_login_is_read(folder: Path, mechanism: str) -> None:
    """The module is the same for both."""
    security = read(folder, f"security.protocol=SASL_PLAINTEXT\nsasl.mechanism={mechanism}\n{SCRAM_LOGIN}").security

    assert security.sasl_mechanism == mechanism.upper()


def test_tls_files_are_read(folder: Path) -> None:
    """Trust store and key store as PEM files."""
    security = read(
        folder,
        "security.protocol=SSL\nssl.truststore.type=PEM\nssl.truststore.location=@/ca.pem\n"
        "ssl.keystore.type=pem\nssl.keystore.location=@/ca.pem\nssl.key.password=k",
    ).security

    assert security.ca_file == security.certificate_file == str(folder / "ca.pem")
    assert security.key_password == "k"
    assert security.check_hostname


def test_tls_texts_are_read(folder: Path) -> None:
    """A PEM on one line gets its line breaks back."""
    one_line = PEM.replace("\n", " ")
    security = read(
        folder,
        "security.protocol=SSL\nssl.truststore.type=PEM\nssl.keystore.type=PEM\n"
        f"ssl.truststore.certificates={one_line}{one_line}\n"
        f"ssl.keystore.certificate.chain={one_line}\n"
        "ssl.keystore.key=-----BEGIN PRIVATE KEY----- \\\n QUJD \\\n REVG \\\n -----END PRIVATE KEY-----\n",
    ).security

    assert security.ca_pem == PEM + PEM
    assert security.certificate_pem == PEM
    assert security.key_pem == "-----BEGIN PRIVATE KEY-----\nQUJD\nREVG\n-----END PRIVATE KEY-----\n"


@pytest.mark.parametrize(("value", "checked"), [("", False), ("https", True), ("HTTPS", True)])
def test_the_name_check_can_be_turned_off(folder: Path, value: str, checked: bool) -> None:
    """By the empty value, as in Java."""
    properties = read(folder, f"security.protocol=SSL\nssl.endpoint.identification.algorithm={value}\n")

    assert properties.security.check_hostname is checked


def test_other_mechanisms_are_read(folder: Path) -> None:
    """A token in a file; Kerberos with its service name."""
    oauth = read(
        folder,
        "security.protocol=SASL_SSL\nsasl.mechanism=OAUTHBEARER\n"
        "sasl.jaas.config=org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule required;\n"
        "sasl.oauthbearer.token.endpoint.url=file:///run/a%20token\n",
    ).security
    kerberos = read(
        folder, "security.protocol=SASL_SSL\nsasl.mechanism=GSSAPI\nsasl.kerberos.service.name=k\n"
    ).security

    assert oauth.token_file == "/run/a token"
    assert kerberos.kerberos_service_name == "k"


@pytest.mark.parametrize(
    "text",
    [
        'sasl.jaas.config=a.OAuthBearerLoginModule required clientId="me" clientSecret="s3cret" scope="kafka";',
        "sasl.jaas.config=a.OAuthBearerLoginModule required;\n"
        "sasl.oauthbearer.client.credentials.client.id=me\n"
        "sasl.oauthbearer.client.credentials.client.secret=s3cret\nsasl.oauthbearer.scope=kafka",
    ],
    ids=["options", "keys"],
)
def test_a_token_endpoint_is_read(folder: Path, text: str) -> None:
    """The client's name and secret stand in the login's options, or in the keys of Kafka 4.1 (KIP-1139)."""
    properties = read(
        folder,
        f"security.protocol=SASL_SSL\nsasl.mechanism=OAUTHBEARER\n{text}\n"
        "sasl.oauthbearer.token.endpoint.url=https://idp/token\n"
        "sasl.login.callback.handler.class=org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginCallbackHandler",
    )

    found = properties.security.client_credentials
    assert found == ClientCredentials("https://idp/token", "me", "s3cret", "kafka")
    assert "s3cret" not in repr(properties)
    assert properties.ignored == ()


def test_other_keys_are_read_or_ignored(folder: Path) -> None:
    """What means nothing here is collected, with a note where one is due."""
    properties = read(
        folder,
        "bootstrap.servers=h:1\nclient.id=me\nrequest.timeout.ms=5000\nretries=3\nclient.idd=x\n"
        "security.protocol=PLAINTEXT\nssl.truststore.location=/nowhere\n",
    )

    assert (properties.client_id, properties.request_timeout_ms) == ("me", 5000)
    assert properties.ignored == (
        "bootstrap.servers (--bootstrap-server says where to connect)",
        "retries",
        "client.idd (is client.id meant?)",
        "ssl.truststore.location (security.protocol=PLAINTEXT has no use for it)",
    )


def test_the_last_value_of_a_key_counts(folder: Path) -> None:
    """As in Java."""
    assert read(folder, "client.id=a\nclient.id=b").client_id == "b"


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("security.protocol=SASL_TLS", r"line 1: security\.protocol: is one of .* not 'SASL_TLS'; is SASL_SSL meant\?"),
        ("\nsecurity.protocol=x", r"line 2: security\.protocol: is one of [^?]*$"),
        ("security.protocol=SASL_SSL", r"client\.properties: sasl\.mechanism: is missing; it is one of PLAIN"),
        (
            "security.protocol=SASL_SSL\nsasl.mechansim=PLAIN",
            r"line 2: sasl\.mechansim: .*is sasl\.mechanism meant\?",
        ),
        ("security.protocol=SASL_SSL\nsasl.mechanism=SCRAM-SHA-1", "is SCRAM-SHA-512 meant|is SCRAM-SHA-256 meant"),
        (SASL, r"sasl\.jaas\.config: is missing, but sasl\.mechanism=PLAIN needs it"),
        (SASL + SCRAM_LOGIN, r"line 3: .*names ScramLoginModule, but .* goes with PlainLoginModule"),
        (SASL + "sasl.jaas.config=nonsense", "line 3: sasl.jaas.config: it begins with a module"),
        (SASL + PLAIN_LOGIN.replace("username", "user"), 'needs username="…"; is user meant'),
        (SASL + PLAIN_LOGIN.replace("password", "xyz"), 'needs password="…"$'),
        (
            SASL.replace("PLAIN\n", "SCRAM-SHA-256\n") + SCRAM_LOGIN.replace(";", " tokenauth=true;"),
            "delegation tokens",
        ),
        (PLAIN_LOGIN, r"security\.protocol: is missing, although sasl\.jaas\.config is set; is it SASL_SSL \(or"),
        ("ssl.keystore.location=@/ca.pem", r"security\.protocol: is missing, .* is it SSL\?"),
        (PLAIN_LOGIN + "ssl.truststore.location=@/ca.pem", r"is it SASL_SSL\?"),
        ("security.protocol=SSL\nssl.truststore.location=@/none", "line 2: ssl.truststore.location: .*No such file"),
        ("security.protocol=SSL\nssl.truststore.location=@/store.jks", "keytool -importkeystore.*openssl.*nokeys"),
        (
            "security.protocol=SSL\nssl.keystore.location=@/store.p12",
            "PKCS12 store.*openssl pkcs12 -in .*store.p12 -nodes",
        ),
        ("security.protocol=SSL\nssl.truststore.location=@/empty", "holds no PEM certificate"),
        (
            "security.protocol=SSL\nssl.truststore.type=JKS\nssl.truststore.location=@/ca.pem",
            r"line 2: ssl\.truststore\.type: is JKS, but .* holds PEM",
        ),
        (f"security.protocol=SSL\nssl.truststore.certificates={PEM!r}", r"needs ssl\.truststore\.type=PEM"),
        (
            "security.protocol=SSL\nssl.truststore.type=PEM\nssl.truststore.certificates=x\n"
            "ssl.truststore.location=@/ca.pem",
            "as well as ssl.truststore.location",
        ),
        ("security.protocol=SSL\nssl.keystore.type=PEM\nssl.keystore.key=x", "go together"),
        ("security.protocol=SSL\nssl.keystore.type=PEM\nssl.keystore.certificate.chain=x", "go together"),
        ("security.protocol=SSL\nssl.endpoint.identification.algorithm=ldap", "https or empty"),
        ("request.timeout.ms=5s", "line 1: request.timeout.ms: '5s' is not a number of milliseconds"),
        ("request.timeout.ms=0", "above 0"),
        ("request.timeout.ms=" + "9" * 5_000, "above 0"),
        ("security.protocol=SSL\nssl.truststore.location=a\\u0000b", "cannot be read: embedded null byte"),
        (
            "security.protocol=SASL_SSL\nsasl.mechanism=OAUTHBEARER\n"
            "sasl.jaas.config=a.OAuthBearerLoginModule required;\nsasl.oauthbearer.token.endpoint.url=file://[",
            "line 4: .*is the URL of a token endpoint",
        ),
        ("a=\\u12", "line 1: .*hexadecimal"),
        (
            "security.protocol=SASL_SSL\nsasl.mechanism=OAUTHBEARER\n"
            "sasl.jaas.config=a.OAuthBearerLoginModule required;\n"
            "sasl.oauthbearer.token.endpoint.url=ftp://idp/token",
            "line 4: .*is the URL of a token endpoint, or of a file",
        ),
        (
            "security.protocol=SASL_SSL\nsasl.mechanism=OAUTHBEARER\n"
            'sasl.jaas.config=a.OAuthBearerLoginModule required clientId="me";\n'
            "sasl.oauthbearer.token.endpoint.url=https://idp/token",
            r"client\.secret: is missing; or give OAuthBearerLoginModule clientSecret=",
        ),
    ],
)
def test_a_mistake_is_named_with_its_place_and_a_way_out(folder: Path, text: str, problem: str) -> None:
    """File, line, key, and what to write instead."""
    with pytest.raises(PropertiesError, match=problem) as caught:
        read(folder, text)

    assert str(caught.value).startswith(str(folder / "client.properties"))
    assert "s3cret" not in str(caught.value)


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    """With the system's reason."""
    with pytest.raises(PropertiesError, match=r"none\.properties: cannot be read: No such file"):
        read_client_properties(tmp_path / "none.properties")

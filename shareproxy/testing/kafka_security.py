"""What a test wants of security comes in; broker properties and certificate files go out.

PLAINTEXT always exists and carries the brokers' own traffic as super user ANONYMOUS, so ready checks and drivers work
in every variant; rights are restricted on the other listeners. For tests only: keys and passwords lie in plain files.
"""

import subprocess
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from shareproxy.testing.kafka_jars import KafkaFailed, find_tool

SCRAM_MECHANISMS = ("SCRAM-SHA-256", "SCRAM-SHA-512")
STORE_PASSWORD = "changeit"


@dataclass(frozen=True)
class Security:
    """The listeners beside PLAINTEXT, who may log in there, and what they may do.

    Attributes:
        users: name → password; adds the SASL_PLAINTEXT listener (and SASL_SSL with `tls`), PLAIN and SCRAM.
        tls: adds the SSL listener.
        client_auth: "none", "requested" or "required" client certificates on SSL; without one a client is ANONYMOUS.
        authorizer: turn on Kafka's StandardAuthorizer; without an ACL nothing is then allowed.
        super_users: users that the authorizer lets do everything; ANONYMOUS (PLAINTEXT) always may.
    """

    users: Mapping[str, str] = field(default_factory=dict)
    tls: bool = False
    client_auth: str = "none"
    authorizer: bool = False
    super_users: tuple[str, ...] = ()

    def listeners(self) -> tuple[str, ...]:
        """Return the names of the listeners for clients, PLAINTEXT first."""
        names = ["PLAINTEXT"]
        if self.users:
            names.append("SASL_PLAINTEXT")
        if self.tls:
            names.append("SSL")
        if self.users and self.tls:
            names.append("SASL_SSL")
        return tuple(names)

    def broker_properties(self, certificates: "Certificates | None") -> dict[str, str]:
        """Return the broker properties of these listeners and of the authorizer."""
        properties: dict[str, str] = {}
        for listener in self.listeners():
            if listener.startswith("SASL"):
                properties |= self._sasl(listener)
        if certificates:
            properties |= {
                "ssl.keystore.type": "PEM",
                "ssl.keystore.location": str(certificates.server_pem),
                "ssl.truststore.type": "PEM",
                "ssl.truststore.location": str(certificates.ca_pem),
                "listener.name.ssl.ssl.client.auth": self.client_auth,
            }
        if self.authorizer:
            supers = ("ANONYMOUS", *self.super_users)
            properties |= {
                "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
                "super.users": ";".join(f"User:{name}" for name in supers),
                "allow.everyone.if.no.acl.found": "false",
            }
        return properties

    def format_arguments(self) -> list[str]:
        """Return the arguments of Kafka's storage tool that create the SCRAM users."""
        arguments = []
        for name, password in self.users.items():
            for mechanism in SCRAM_MECHANISMS:
                arguments += ["--add-scram", f"{mechanism}=[name={name},password={password}]"]
        return arguments

    def _sasl(self, listener: str) -> dict[str, str]:
        prefix = f"listener.name.{listener.lower()}."
        users = " ".join(f'user_{name}="{password}"' for name, password in self.users.items())
        plain = f"org.apache.kafka.common.security.plain.PlainLoginModule required {users};"
        scram = "org.apache.kafka.common.security.scram.ScramLoginModule required;"
        properties = {prefix + "sasl.enabled.mechanisms": ",".join(("PLAIN", *SCRAM_MECHANISMS))}
        properties[prefix + "plain.sasl.jaas.config"] = plain
        for mechanism in SCRAM_MECHANISMS:
            properties[f"{prefix}{mechanism.lower()}.sasl.jaas.config"] = scram
        return properties


def client_properties(
    name: str, password: str, mechanism: str = "PLAIN", protocol: str = "SASL_PLAINTEXT"
) -> dict[str, str]:
    """Return the Java client properties with which one user logs in.

    Args:
        name: the user.
        password: the password.
        mechanism: "PLAIN", "SCRAM-SHA-256" or "SCRAM-SHA-512".
        protocol: "SASL_PLAINTEXT" or "SASL_SSL".
    """
    module = "plain.PlainLoginModule" if mechanism == "PLAIN" else "scram.ScramLoginModule"
    login = f'org.apache.kafka.common.security.{module} required username="{name}" password="{password}";'
    return {"security.protocol": protocol, "sasl.mechanism": mechanism, "sasl.jaas.config": login}


@dataclass(frozen=True)
class Certificates:
    """A throw-away certificate authority, a server certificate for 127.0.0.1 and localhost, and a client certificate.

    Attributes:
        ca_pem: the authority's certificate.
        server_pem: the server's key and chain in one file, as Kafka's PEM key store wants it.
        client_pem: the client's key and chain in one file; the principal is `User:CN=client`.
        client_certificate_pem: the client's certificate alone.
        client_key_pem: the client's key alone, without a password.
        truststore: the authority as a Java key store (PKCS12), password `STORE_PASSWORD`.
    """

    ca_pem: Path
    server_pem: Path
    client_pem: Path
    client_certificate_pem: Path
    client_key_pem: Path
    truststore: Path

    def ssl_properties(self, *, client_certificate: bool = False) -> dict[str, str]:
        """Return the Java client properties for a listener with TLS, merging well over `client_properties`."""
        properties = {
            "security.protocol": "SSL",
            "ssl.truststore.type": "PKCS12",
            "ssl.truststore.location": str(self.truststore),
            "ssl.truststore.password": STORE_PASSWORD,
        }
        if client_certificate:
            properties |= {"ssl.keystore.type": "PEM", "ssl.keystore.location": str(self.client_pem)}
        return properties


def make_certificates(directory: Path) -> Certificates:
    """Make a new authority, server and client certificate in `directory`.

    Raises:
        MissingTool: no openssl or keytool.
        KafkaFailed: one of them failed.
    """
    openssl, keytool = find_tool("openssl"), find_tool("keytool")
    directory.mkdir(parents=True, exist_ok=True)
    made = Certificates(
        ca_pem=directory / "ca.pem",
        server_pem=directory / "server.pem",
        client_pem=directory / "client.pem",
        client_certificate_pem=directory / "client-certificate.pem",
        client_key_pem=directory / "client-key.pem",
        truststore=directory / "truststore.p12",
    )
    ca_key = directory / "ca-key.pem"
    new = [str(openssl), "req", "-newkey", "rsa:2048", "-nodes", "-batch"]
    _run(
        *new,
        "-x509",
        "-days",
        "30",
        "-subj",
        "/CN=shareproxy test authority",
        "-keyout",
        str(ca_key),
        "-out",
        str(made.ca_pem),
    )
    for name in ("server", "client"):
        key, request, certificate = (directory / f"{name}-{part}.pem" for part in ("key", "request", "certificate"))
        extensions = directory / f"{name}-extensions.cnf"
        extensions.write_text("subjectAltName=IP:127.0.0.1,DNS:localhost\nbasicConstraints=CA:FALSE\n")
        subject = "localhost" if name == "server" else "client"
        _run(*new, "-subj", f"/CN={subject}", "-keyout", str(key), "-out", str(request))
        sign = [
            str(openssl),
            "x509",
            "-req",
            "-days",
            "30",
            "-CAcreateserial",
            "-CA",
            str(made.ca_pem),
            "-CAkey",
            str(ca_key),
        ]
        _run(*sign, "-in", str(request), "-extfile", str(extensions), "-out", str(certificate))
        chain = key.read_text() + certificate.read_text() + made.ca_pem.read_text()
        (directory / f"{name}.pem").write_text(chain)
    store = ["-keystore", str(made.truststore), "-storetype", "PKCS12", "-storepass", STORE_PASSWORD]
    _run(str(keytool), "-importcert", "-noprompt", "-alias", "ca", "-file", str(made.ca_pem), *store)
    return made


def _run(*command: str) -> None:
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        raise KafkaFailed(f"{command[0]} could not make the test certificates:\n{done.stdout}{done.stderr}")

"""A Kafka version comes in; a cached directory with its jars, and the Java tools to run them, go out.

Maven fetches, with whatever repositories and proxies the user's own settings name. The cache lies outside the
checkout and is shared by processes. Must never leave a half-filled directory where a full one is expected.
"""

import contextlib
import fcntl
import hashlib
import os
import platform
import re
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

Progress = Callable[[str], None]

OLDEST_JAVA = 17
# Kafka 4.x ships slf4j-api 1.7; this binding of the same release writes to stderr and starts faster than log4j.
SLF4J_VERSION = "1.7.36"
FETCH_TIMEOUT = 900.0  # seconds; about 45 MB, on a slow line

_POM = """\
<project xmlns="http://maven.apache.org/POM/4.0.0">
  <modelVersion>4.0.0</modelVersion>
  <groupId>shareproxy</groupId><artifactId>kafka-jars</artifactId><version>1</version><packaging>pom</packaging>
  <dependencies>
    <dependency>
      <groupId>org.apache.kafka</groupId><artifactId>kafka_2.13</artifactId><version>{version}</version>
    </dependency>
    <dependency>
      <groupId>org.apache.kafka</groupId><artifactId>kafka-tools</artifactId><version>{version}</version>
      <exclusions>
        <exclusion><groupId>org.apache.kafka</groupId><artifactId>connect-runtime</artifactId></exclusion>
      </exclusions>
    </dependency>
    <dependency>
      <groupId>org.slf4j</groupId><artifactId>slf4j-simple</artifactId><version>{slf4j}</version>
    </dependency>
  </dependencies>
</project>
"""

_INSTALL = {
    "java": {
        "Debian, Ubuntu": "apt-get install default-jdk-headless",
        "Fedora": "dnf install java-21-openjdk-devel",
        "Arch": "pacman -S jdk-openjdk",
        "macOS": "brew install openjdk",
    },
    "mvn": {
        "Debian, Ubuntu": "apt-get install maven",
        "Fedora": "dnf install maven",
        "Arch": "pacman -S maven",
        "macOS": "brew install maven",
    },
    "openssl": {
        "Debian, Ubuntu": "apt-get install openssl",
        "Fedora": "dnf install openssl",
        "Arch": "pacman -S openssl",
        "macOS": "brew install openssl",
    },
}
_PACKAGE_OF = {"javac": "java", "keytool": "java"}


class MissingTool(Exception):  # noqa: N818 - says what is missing
    """A program that a real Kafka needs is not installed; the message says how to install it."""


class KafkaFailed(Exception):  # noqa: N818 - says what failed
    """A real Kafka could not be fetched, started or stopped; the message says why and where its log is."""


def find_tool(name: str) -> Path:
    """Return the path of `java`, `javac`, `keytool`, `mvn` or `openssl`; JAVA_HOME goes before PATH.

    Raises:
        MissingTool: it is not there, or it is a Java older than 17.
    """
    home = os.environ.get("JAVA_HOME")
    places = [str(Path(home, "bin"))] if home and name not in ("mvn", "openssl") else []
    places.append(os.environ.get("PATH", ""))
    found = next((path for place in places if (path := shutil.which(name, path=place))), None)
    if found is None:
        raise MissingTool(_how_to_install(name, f"{name} was not found in JAVA_HOME or PATH."))
    if name == "java":
        release = _java_release(Path(found))
        if release is not None and release < OLDEST_JAVA:
            raise MissingTool(_how_to_install(name, f"{found} is Java {release}, which cannot run Kafka 4."))
    return Path(found)


def java_fingerprint() -> str:
    """Return a short text that differs between Java installations: what one JVM archives no other can read."""
    java = find_tool("java").resolve()
    try:
        build = (java.parent.parent / "release").read_bytes()
    except OSError:
        build = b""
    return hashlib.sha256(str(java).encode() + build).hexdigest()[:8]


def cache_dir() -> Path:
    """Return where fetched and compiled files are kept: $SHAREPROXY_CACHE, else `shareproxy` in the user's cache."""
    if own := os.environ.get("SHAREPROXY_CACHE"):
        return Path(own)
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base, "shareproxy")


def jars(version: str, progress: Progress | None = None) -> Path:
    """Return the directory with Kafka's jars for one released version, fetching them the first time.

    Args:
        version: a release of `org.apache.kafka:kafka_2.13`, such as "4.4.0".
        progress: called with one line of text before something slow happens.

    Raises:
        MissingTool: no java (17 or newer) or no mvn.
        KafkaFailed: Maven could not fetch them.
    """
    if not re.fullmatch(r"\d+(\.\d+){1,3}(-[\w.]+)?", version):
        raise KafkaFailed(f"{version!r} is not a Kafka version. Try one such as 4.4.0.")
    find_tool("java")
    home = cache_dir() / "kafka" / version
    pom = _POM.format(version=version, slf4j=SLF4J_VERSION)
    if _is_current(home, pom):
        return home / "jars"
    with locked(home):
        if not _is_current(home, pom):  # another process may have fetched them while this one waited
            if progress:
                progress(f"Fetching Kafka {version} with Maven (about 45 MB, once) into {home}")
            with replacing(home) as fresh:
                _fetch(version, pom, fresh)
    return home / "jars"


def classpath(jar_dir: Path, *more: Path) -> str:
    """Return a Java class path of `more` and every jar of `jar_dir`, always in the same order."""
    return os.pathsep.join([*map(str, more), *map(str, sorted(jar_dir.glob("*.jar")))])


@contextlib.contextmanager
def locked(target: Path) -> Iterator[None]:
    """Keep every other process out of making `target`; the lock ends with the process, however that ends."""
    target.parent.mkdir(parents=True, exist_ok=True)
    with open(target.with_name(f"{target.name}.lock"), "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


@contextlib.contextmanager
def replacing(target: Path) -> Iterator[Path]:
    """Give an empty directory that becomes `target` in one step if the block succeeds, and vanishes if not."""
    fresh = Path(tempfile.mkdtemp(prefix=f".{target.name}-", dir=target.parent))
    try:
        yield fresh
        if target.exists():
            old = Path(tempfile.mkdtemp(prefix=f".{target.name}-old-", dir=target.parent))
            target.rename(old / target.name)
            fresh.rename(target)
            shutil.rmtree(old, ignore_errors=True)
        else:
            fresh.rename(target)
    finally:
        shutil.rmtree(fresh, ignore_errors=True)


def _fetch(version: str, pom: str, fresh: Path) -> None:
    mvn = find_tool("mvn")
    (fresh / "pom.xml").write_text(pom)
    command = [
        str(mvn),
        "-B",
        "-q",
        "-Dstyle.color=never",
        "-f",
        str(fresh / "pom.xml"),
        "dependency:copy-dependencies",
    ]
    command += ["-DincludeScope=runtime", f"-DoutputDirectory={fresh / 'jars'}"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=FETCH_TIMEOUT, cwd=fresh)
    except subprocess.TimeoutExpired:
        raise KafkaFailed(
            f"Maven did not fetch Kafka {version} within {FETCH_TIMEOUT:.0f} s. Try again, or check ~/.m2/settings.xml."
        ) from None
    if done.returncode != 0 or not any(fresh.glob("jars/kafka-clients-*.jar")):
        lines = [line for line in (done.stdout + done.stderr).splitlines() if line.strip()]
        raise KafkaFailed(
            f"Maven could not fetch Kafka {version} (exit code {done.returncode}). Does that release exist, and can "
            "mvn reach a repository (see ~/.m2/settings.xml)? It said:\n" + "\n".join(lines[:6])
        )


def _is_current(home: Path, pom: str) -> bool:
    # The pom is kept beside the jars: when this file asks for other jars, old directories are fetched anew.
    try:
        return (home / "pom.xml").read_text() == pom
    except FileNotFoundError:
        return False


def _java_release(java: Path) -> int | None:
    # Reading the JDK's `release` file saves starting a JVM just to ask for its version.
    try:
        text = (java.resolve().parent.parent / "release").read_text()
    except OSError:
        text = subprocess.run([str(java), "-version"], capture_output=True, text=True).stderr
    found = re.search(r'(?:JAVA_VERSION=|version )"(?:1\.)?(\d+)', text)
    return int(found.group(1)) if found else None


def _how_to_install(name: str, what: str) -> str:
    tool = _PACKAGE_OF.get(name, name)
    need = f"a JDK, version {OLDEST_JAVA} or newer" if tool == "java" else tool
    system = "macOS" if platform.system() == "Darwin" else None
    ways = [f"  {where}: {how}" for where, how in _INSTALL[tool].items() if system in (None, where)]
    return f"{what} A real Kafka needs {need}. Install it:\n" + "\n".join(ways)

"""Finding Java and Maven, and filling the cache of jars (with a stand-in for Maven: no network)."""

import concurrent.futures
import os
from pathlib import Path

import pytest

from shareproxy.testing import kafka_jars
from shareproxy.testing.kafka_jars import (
    KafkaFailed,
    MissingTool,
    cache_dir,
    classpath,
    find_tool,
    jars,
    java_fingerprint,
)

FAKE_MVN = """\
#!/bin/sh
echo run >> "{counter}"
for argument in "$@"; do
  case "$argument" in -DoutputDirectory=*) out="${{argument#-DoutputDirectory=}}" ;; esac
done
mkdir -p "$out" && : > "$out/kafka-clients-1.jar" && {last}
"""


@pytest.fixture
def fake_tools(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A PATH with the system's shell, a Java 17 and a Maven that makes one empty jar; returns the file it counts in."""
    _install(tmp_path, "java", "#!/bin/sh\n")
    (tmp_path / "release").write_text('JAVA_VERSION="17.0.1"\n')
    counter = tmp_path / "counter"
    _install(tmp_path, "mvn", FAKE_MVN.format(counter=counter, last="true"))
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}{os.pathsep}/usr/bin{os.pathsep}/bin")
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("SHAREPROXY_CACHE", str(tmp_path / "cache"))
    return counter


def _install(home: Path, name: str, text: str) -> None:
    program = home / "bin" / name
    program.parent.mkdir(exist_ok=True)
    program.write_text(text)
    program.chmod(0o755)


@pytest.mark.parametrize(
    ("tool", "package"),
    [("java", "default-jdk-headless"), ("javac", "default-jdk-headless"), ("mvn", "maven"), ("openssl", "openssl")],
)
def test_missing_tool_says_what_to_install(tool: str, package: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """With nothing on the PATH the message names the tool and each system's package."""
    monkeypatch.setenv("PATH", "")
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setattr("platform.system", lambda: "Linux")

    with pytest.raises(MissingTool) as caught:
        find_tool(tool)

    message = str(caught.value)
    assert message.startswith(f"{tool} was not found")
    assert package in message
    assert "Fedora" in message
    assert "macOS" in message


def test_mac_is_told_of_homebrew_only(monkeypatch: pytest.MonkeyPatch) -> None:
    """On macOS the other systems' commands would only be in the way."""
    monkeypatch.setenv("PATH", "")
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setattr("platform.system", lambda: "Darwin")

    with pytest.raises(MissingTool, match="brew install maven") as caught:
        find_tool("mvn")

    assert "apt-get" not in str(caught.value)


@pytest.mark.parametrize(("version", "release"), [("11.0.2", 11), ("1.8.0_292", 8)])
def test_old_java_is_refused(version: str, release: int, fake_tools: Path) -> None:
    """A Java that cannot run Kafka 4 is as good as none, and the message says which one was found."""
    (fake_tools.parent / "release").write_text(f'JAVA_VERSION="{version}"\n')

    with pytest.raises(MissingTool, match=rf"bin/java is Java {release}, .* version 17 or newer"):
        find_tool("java")


def test_java_without_a_release_file_is_asked(fake_tools: Path) -> None:
    """Some packages leave the file out; then `java -version` tells."""
    (fake_tools.parent / "release").unlink()
    _install(fake_tools.parent, "java", "#!/bin/sh\necho 'openjdk version \"11.0.2\"' >&2\n")

    with pytest.raises(MissingTool, match="is Java 11"):
        find_tool("java")


def test_java_home_goes_before_the_path(fake_tools: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """JAVA_HOME is how people choose among several."""
    home = tmp_path / "other"
    home.mkdir()
    _install(home, "java", "#!/bin/sh\n")
    (home / "release").write_text('JAVA_VERSION="21"\n')
    monkeypatch.setenv("JAVA_HOME", str(home))

    assert find_tool("java") == home / "bin" / "java"


def test_fingerprint_tells_java_builds_apart(fake_tools: Path) -> None:
    """An update in the same place gives another one; asking again does not."""
    first, again = java_fingerprint(), java_fingerprint()
    (fake_tools.parent / "release").write_text('JAVA_VERSION="17.0.2"\n')
    updated = java_fingerprint()
    (fake_tools.parent / "release").unlink()

    assert first == again
    assert len({first, updated, java_fingerprint()}) == 3


def test_cache_is_where_the_environment_says(monkeypatch: pytest.MonkeyPatch) -> None:
    """Our own variable wins, then the desktop standard's, then the home directory."""
    monkeypatch.setenv("SHAREPROXY_CACHE", "/a")
    monkeypatch.setenv("XDG_CACHE_HOME", "/b")
    first = cache_dir()
    monkeypatch.delenv("SHAREPROXY_CACHE")
    second = cache_dir()
    monkeypatch.delenv("XDG_CACHE_HOME")
    third = cache_dir()

    assert (first, second, third) == (Path("/a"), Path("/b/shareproxy"), Path.home() / ".cache" / "shareproxy")


def test_jars_are_fetched_once(fake_tools: Path) -> None:
    """The second call needs no Maven, and says nothing."""
    said: list[str] = []

    first = jars("4.4.0", said.append)
    (fake_tools.parent / "bin" / "mvn").unlink()
    second = jars("4.4.0", said.append)

    assert first == second
    assert [path.name for path in first.iterdir()] == ["kafka-clients-1.jar"]
    assert len(said) == 1
    assert "4.4.0" in said[0]


def test_versions_have_their_own_directories(fake_tools: Path) -> None:
    """Several versions can be fetched in turn."""
    assert jars("4.4.0") != jars("4.1.2")
    assert fake_tools.read_text().count("run") == 2


def test_concurrent_callers_fetch_once(fake_tools: Path) -> None:
    """Who comes second waits for the first and uses what it fetched."""
    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        found = set(pool.map(jars, ["4.4.0"] * 4))

    assert len(found) == 1
    assert fake_tools.read_text().count("run") == 1


def test_jars_of_another_recipe_are_replaced(fake_tools: Path) -> None:
    """When the list of jars changes in a later shareproxy, old directories are fetched anew."""
    home = jars("4.4.0").parent
    (home / "pom.xml").write_text("<project/>")
    (home / "left-over").touch()

    jars("4.4.0")

    assert fake_tools.read_text().count("run") == 2
    assert not (home / "left-over").exists()


def test_failed_fetch_leaves_nothing(fake_tools: Path) -> None:
    """The message has Maven's own words, and the next call tries again."""
    _install(fake_tools.parent, "mvn", FAKE_MVN.format(counter=fake_tools, last="echo Could not find artifact; exit 1"))

    with pytest.raises(KafkaFailed, match=r"Kafka 9\.9\.9 .*settings\.xml(?s:.*)Could not find artifact"):
        jars("9.9.9")

    assert [path.name for path in (cache_dir() / "kafka").iterdir()] == ["9.9.9.lock"]


def test_endless_fetch_is_given_up(fake_tools: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A mirror that never answers ends in a sentence, not in a hang."""
    _install(fake_tools.parent, "mvn", "#!/bin/sh\nexec sleep 600\n")
    monkeypatch.setattr(kafka_jars, "FETCH_TIMEOUT", 0.2)

    with pytest.raises(KafkaFailed, match="Try again"):
        jars("4.4.0")


@pytest.mark.parametrize("version", ["", "latest", "4", "../4.4.0", "4.4.0 "])
def test_version_must_look_like_one(version: str, fake_tools: Path) -> None:
    """It becomes part of a path and of an XML file."""
    with pytest.raises(KafkaFailed, match="Try one such as"):
        jars(version)

    assert not fake_tools.exists()


def test_class_path_is_sorted(tmp_path: Path) -> None:
    """The JVM's class archive fits only the same order; what is given besides goes first."""
    for name in ("b.jar", "a.jar", "c.txt"):
        (tmp_path / name).touch()

    assert classpath(tmp_path, Path("first.jar")) == os.pathsep.join(
        ["first.jar", str(tmp_path / "a.jar"), str(tmp_path / "b.jar")]
    )

"""A version of Kafka's Java clients and a directory come in; a program `run` in there goes out.

Compiles java/*.java with the jars of that version, the first time and after a change.
"""

from __future__ import annotations

import hashlib
import json
import shlex
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

from shareproxy.testing.java_process import QUICK_START
from shareproxy.testing.kafka_jars import (
    KafkaFailed,
    MissingTool,
    classpath,
    find_tool,
    jars,
    java_fingerprint,
    replacing,
)

SOURCES = Path(__file__).with_name("java")
# the first version with share consumers
SHARE_GROUPS = (4, 1)
NOBODY = "127.0.0.1:1"


def make(version: str, directory: Path) -> None:
    """Make the program `run` in a directory.

    Args:
        version: of kafka-clients.
        directory: where it goes.

    Raises:
        MissingTool: no JDK or Maven.
        KafkaFailed: the jars could not be fetched, or the sources not compiled.
    """
    names = ["InteropClient.java"]
    if tuple(map(int, version.split(".")[:2])) >= SHARE_GROUPS:
        names.append("ShareOperations.java")
    sources = [SOURCES / name for name in names]
    jar_dir = jars(version)
    digest = hashlib.sha256(b"".join(source.read_bytes() for source in sources) + str(jar_dir).encode()).hexdigest()
    made = directory / digest[:12]
    if not made.exists():
        with replacing(made) as fresh:
            _compile(sources, jar_dir, fresh)
    archive = made / f"client-{java_fingerprint()}.jsa"
    jar = made / "client.jar"
    if not archive.exists():
        arguments = json.dumps({"bootstrap": NOBODY, "group": "none"})
        command = _java([f"-XX:ArchiveClassesAtExit={archive}"], jar_dir, jar)
        subprocess.run([*command, "warm_up"], input=arguments, text=True, check=False, capture_output=True)
    run = directory / "run"
    run.write_text(f'#!/bin/sh\nexec {shlex.join(_java([f"-XX:SharedArchiveFile={archive}"], jar_dir, jar))} "$@"\n')
    run.chmod(0o755)


def _java(options: list[str], jar_dir: Path, jar: Path) -> list[str]:
    options = [*options, *QUICK_START, "-Xmx256m", "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn"]
    return [str(find_tool("java")), *options, "-cp", classpath(jar_dir, jar), "InteropClient"]


def _compile(sources: list[Path], jar_dir: Path, fresh: Path) -> None:
    classes = fresh / "classes"
    command = [str(find_tool("javac")), "-proc:none", "-nowarn", "-d", str(classes), "-cp", classpath(jar_dir)]
    done = subprocess.run([*command, *map(str, sources)], capture_output=True, text=True)
    if done.returncode != 0:
        raise KafkaFailed(f"the Java client does not compile with {jar_dir}:\n{done.stderr}")
    with zipfile.ZipFile(fresh / "client.jar", "w") as jar:
        for file in sorted(classes.glob("*.class")):
            jar.write(file, file.name)
    shutil.rmtree(classes)


if __name__ == "__main__":
    try:
        make(sys.argv[1], Path(sys.argv[2]))
    except (KafkaFailed, MissingTool) as failure:
        sys.exit(str(failure).replace("\n", " "))

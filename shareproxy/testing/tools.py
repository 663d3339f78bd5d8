"""Tell before anything long starts whether Java and Maven are here (`python -m shareproxy.testing.tools`)."""

from __future__ import annotations

import sys

from shareproxy.testing.kafka_jars import MissingTool, find_tool


def main() -> int:
    """Return 0 if a real Kafka can be started on this machine, else say what to install and return 2."""
    missing = []
    for name in ("java", "javac", "mvn"):
        try:
            find_tool(name)
        except MissingTool as error:
            missing.append(str(error))
    sys.stderr.writelines(f"{text}\n" for text in dict.fromkeys(missing))
    return 2 if missing else 0


if __name__ == "__main__":
    sys.exit(main())

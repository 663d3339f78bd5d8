"""Time `shareproxy lag GROUP` against Kafka's own command for the same question, whole commands."""

from __future__ import annotations

import subprocess
import sys

from benchmarks.rounds import interleaved, median_ratio, print_times
from benchmarks.serving import installed_environment
from benchmarks.share_groups import DRAINED_TOPIC, group_with_partitions
from shareproxy.testing.kafka import SHARE_GROUP_COMMAND, LocalKafka

ROUNDS = 9
TARGET = 0.25
GROUP = "bench-commands"
# what kafka-run-class.sh gives the JVM of a tool
SCRIPT_JVM_OPTIONS = ("-Xmx256M", "-server", "-XX:+UseG1GC", "-XX:MaxGCPauseMillis=20", "-Djava.awt.headless=true")


def main() -> int:
    """Print the ratio."""
    with LocalKafka("4.4.0", progress=print) as kafka:
        group_with_partitions(kafka, GROUP, 12)
        ours = [sys.executable, "-m", "shareproxy", "lag", GROUP, "--bootstrap-server", kafka.bootstrap_servers]

        def own_tool() -> None:
            arguments = ["--bootstrap-server", kafka.bootstrap_servers, "--describe", "--group", GROUP]
            done = kafka.java(SHARE_GROUP_COMMAND, *arguments, jvm_options=SCRIPT_JVM_OPTIONS)
            if DRAINED_TOPIC not in done.stdout:
                raise RuntimeError(f"Kafka's tool printed no row:\n{done.stdout}{done.stderr}")

        def our_command() -> None:
            done = subprocess.run(ours, capture_output=True, text=True, check=True, env=installed_environment())
            if DRAINED_TOPIC not in done.stdout:
                raise RuntimeError(f"shareproxy lag printed no row:\n{done.stdout}{done.stderr}")

        times = interleaved({"shareproxy lag": our_command, "ShareGroupCommand": own_tool}, ROUNDS, warm_up=1)
    ratio = median_ratio(times, "shareproxy lag", "ShareGroupCommand")
    print(f"shareproxy lag ÷ ShareGroupCommand --describe: {ratio:.2f} (at most {TARGET})")
    print_times(times)
    return 0


if __name__ == "__main__":
    sys.exit(main())

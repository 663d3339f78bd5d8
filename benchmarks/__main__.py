"""Run all benchmarks one after the other."""

from __future__ import annotations

import subprocess
import sys

NAMES = ("codec", "describe", "commands", "start", "exporter", "lag_scale", "lag_rows", "lag_admin", "lag_frozen")


def main() -> int:
    """Run each in a process of its own, so that none inherits another's heap."""
    codes = []
    for name in NAMES:
        print(f"== {name}", flush=True)
        codes.append(subprocess.run([sys.executable, "-m", f"benchmarks.{name}"], check=False).returncode)
    return max(codes)


if __name__ == "__main__":
    sys.exit(main())

"""Run the tests with a real Kafka and all others side by side: the former mostly wait.

In: nothing. Out: the output of the one as it comes, then that of the other; exit code 0 if both passed.
Must never: leave a process behind. `python -m tests.side_by_side`
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from typing import Final

# floods and faults come last, when most of the others are done
REAL: Final = (
    "tests/integration",
    "tests/contract",
    "tests/interop",
    "tests/container",
    "tests/testing",
    "tests/adversity",
)
PYTEST: Final = (sys.executable, "-m", "coverage", "run", "-m", "pytest", "--durations=20")


def main() -> int:
    """Run both and return the worse exit code."""
    others = [*PYTEST, "-p", "no:cacheprovider", "tests", *(f"--ignore={folder}" for folder in REAL)]
    with tempfile.TemporaryFile() as kept:
        beside = subprocess.Popen(others, stdout=kept, stderr=subprocess.STDOUT)
        try:
            code = subprocess.run([*PYTEST, *REAL], check=False).returncode
            beside.wait()
        finally:
            if beside.poll() is None:
                beside.terminate()
                beside.wait()
            kept.seek(0)
            print(kept.read().decode(errors="replace"), flush=True)  # noqa: T201 - the second half of the output
    return max(code, beside.returncode, key=abs)


if __name__ == "__main__":
    sys.exit(main())

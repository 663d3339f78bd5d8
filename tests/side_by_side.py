"""Run the tests with a real Kafka and all others side by side, as the former mostly wait; faults and floods at the end.

In: nothing. Out: the output of the first as it comes, then that of the others; exit code 0 if all passed.
Must never: leave a process behind. `python -m tests.side_by_side`
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from typing import Final

REAL: Final = ("tests/integration", "tests/contract", "tests/interop", "tests/container", "tests/testing")
# they count what their process holds, and take all that the machine has: alone, in a process of their own
FAULTS: Final = ("tests/adversity",)
PYTEST: Final = (sys.executable, "-m", "coverage", "run", "-m", "pytest", "--durations=20")


def main() -> int:
    """Run all and return the worst exit code."""
    others = [*PYTEST, "-p", "no:cacheprovider", "tests", *(f"--ignore={folder}" for folder in (*REAL, *FAULTS))]
    with tempfile.TemporaryFile() as kept:
        beside = subprocess.Popen(others, stdout=kept, stderr=subprocess.STDOUT)
        try:
            codes = [subprocess.run([*PYTEST, *REAL], check=False).returncode, beside.wait()]
        finally:
            if beside.poll() is None:
                beside.terminate()
                beside.wait()
            kept.seek(0)
            print(kept.read().decode(errors="replace"), flush=True)  # noqa: T201 - the second part of the output
    codes.append(subprocess.run([*PYTEST, *FAULTS], check=False).returncode)
    return max(codes, key=abs)


if __name__ == "__main__":
    sys.exit(main())

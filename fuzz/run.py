"""Run a target's fuzzer as a process of its own and read what it says.

In: a target's name, a time or a number of runs. Out: figures, and the file that shows a finding. Must never: leave a
process behind.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from functools import cache
from pathlib import Path
from typing import Final, NamedTuple

from fuzz.corpus import WORKING, kept_inputs, write_out
from fuzz.targets import load

_FIGURES: Final = re.compile(r"cov: (\d+) ft: (\d+) corp: (\d+)")
_RUNS: Final = re.compile(r"^#(\d+)", re.MULTILINE)
_ARTIFACT: Final = re.compile(r"Test unit written to (\S+)")
_INPUT_SECONDS: Final = 60
_MEMORY_MIB: Final = 2_048
_LAST_LINES: Final = 60


class Outcome(NamedTuple):
    """What came of fuzzing one target.

    Attributes:
        edges: branches of the product that were taken.
        features: the same with how often, as libFuzzer counts them.
        inputs: in the working corpus at the end.
        finding: file that shows what was found, None if nothing was.
        report: the end of the output.
    """

    name: str
    seconds: float
    runs: int
    edges: int
    features: int
    inputs: int
    finding: Path | None
    failed: bool
    report: str

    def __str__(self) -> str:
        text = (
            f"{self.name:12} {self.runs:>9} runs {self.seconds:>6.0f} s {self.edges:>6} edges {self.inputs:>5} inputs"
        )
        return f"{text}  FOUND {self.finding}" if self.finding else f"{text}  FAILED" if self.failed else text


@cache
def available() -> bool:
    """Tell whether Atheris can be imported; it has wheels for Linux on x86-64."""
    return subprocess.run([sys.executable, "-c", "import atheris"], capture_output=True, check=False).returncode == 0


def fuzz(
    name: str, *, seconds: float = 0, runs: int = -1, seed: int = 0, deep: bool = True, folder: Path = WORKING
) -> Outcome:
    """Fuzz one target.

    Args:
        name: of the target.
        seconds: at most; 0 is no limit.
        runs: at most; −1 is no limit.
        seed: 0 is a different one each time.
        deep: whether generated code counts, too; that takes minutes to begin.
        folder: gets the working corpus, which the next run goes on from, and findings.
    """
    target = load(name)
    working, seeds, findings = folder / "corpus" / name, folder / "seeds" / name, folder / "findings"
    for made in (working, findings):
        made.mkdir(parents=True, exist_ok=True)
    write_out(seeds, [*kept_inputs(name), *target.seeds()])
    flags = [
        f"-max_total_time={int(seconds)}",
        f"-runs={runs}",
        f"-seed={seed}",
        f"-max_len={target.max_length}",
        f"-timeout={_INPUT_SECONDS}",
        f"-rss_limit_mb={_MEMORY_MIB}",
        f"-artifact_prefix={findings}/{name}-",
        "-len_control=20",
        str(working),
        str(seeds),
    ]
    started = time.monotonic()
    process = subprocess.Popen(
        [sys.executable, "-m", "fuzz.worker", name, "deep" if deep else "shallow", *flags],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        env=_environment(),
    )
    try:
        output, _ = process.communicate()
    finally:
        if process.poll() is None:
            process.terminate()
            process.wait()
    return _outcome(name, time.monotonic() - started, output, process.returncode)


def _environment() -> dict[str, str]:
    """Return the environment without what would measure coverage a second time, and slowly."""
    return {name: value for name, value in os.environ.items() if not name.startswith("COVERAGE_")}


def _outcome(name: str, seconds: float, output: str, code: int) -> Outcome:
    figures = _FIGURES.findall(output) or [("0", "0", "0")]
    edges, features, inputs = map(int, figures[-1])
    written = _ARTIFACT.search(output)
    return Outcome(
        name=name,
        seconds=seconds,
        runs=max((int(count) for count in _RUNS.findall(output)), default=0),
        edges=edges,
        features=features,
        inputs=inputs,
        finding=Path(written[1]) if written else None,
        failed=code != 0,
        report="\n".join(output.splitlines()[-_LAST_LINES:]),
    )

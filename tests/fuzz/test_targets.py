"""The fuzz targets: what was found once stays fixed, and a short run finds nothing."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import pytest

from fuzz.corpus import kept_inputs
from fuzz.replay import plain_run, replay
from fuzz.run import available, fuzz
from fuzz.targets import NAMES, load

# about three seconds each; a number of runs and a seed make a run the same every time
RUNS: Final = {
    "framing": 2_000,
    "codec": 3_000,
    "addresses": 1_500,
    "api_versions": 4_000,
    "lag_answers": 1_500,
    "settings": 3_000,
    "records": 20_000,
    "session": 300,
}
MOST_SECONDS: Final = 15  # on a machine that is busy with other tests
SEED: Final = 1
each_target = pytest.mark.parametrize("name", NAMES)


@each_target
def test_known_inputs_show_nothing(name: str) -> None:
    """Inputs that once showed a defect or reach far, and frames of every API and version."""
    target = load(name)
    known = [*kept_inputs(name), *target.seeds()]

    assert replay(target, known) == len(known) > 0


@each_target
def test_short_run_finds_nothing(name: str, tmp_path: Path) -> None:
    """A bounded run with a fixed seed; without Atheris inputs are changed without looking at what they reach."""
    if not available():
        assert plain_run(load(name), RUNS[name] // 2, SEED) > 0
        return

    outcome = fuzz(name, seconds=MOST_SECONDS, runs=RUNS[name], seed=SEED, deep=False, folder=tmp_path)

    assert not outcome.failed, f"{outcome}\n{outcome.report}"
    assert outcome.edges > 0


def test_corpus_is_small() -> None:
    """What is kept does not weigh on the repository."""
    files = list((Path(__file__).parents[2] / "fuzz" / "corpus").glob("*.txt"))

    assert {file.stem for file in files} <= set(NAMES)
    assert sum(file.stat().st_size for file in files) < 300_000

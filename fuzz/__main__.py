"""Fuzz all targets in turn: `python -m fuzz [--seconds N] [TARGET …]`, or `make fuzz`.

In: how long, and which. Out: a line per target; exit code 1 and the path of an input if something was found.
"""

# ruff: noqa: T201 - to print is its purpose

from __future__ import annotations

import argparse
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from fuzz.corpus import WORKING, keep
from fuzz.replay import ReproducedError, plain_run, replay
from fuzz.run import Outcome, available, fuzz
from fuzz.smallest import smallest
from fuzz.targets import NAMES, load

_PLAIN_RUNS_PER_SECOND = 100
# below that looking into generated code would take up the time
_DEEP_SECONDS = 400


def main(arguments: list[str] | None = None) -> int:
    """Run the command line."""
    options = _parser().parse_args(arguments)
    if options.list:
        for name in NAMES:
            print(f"{name:12} {load(name).what}")
        return 0
    names = options.target or list(NAMES)
    if unknown := sorted(set(names) - set(NAMES)):
        print(f"no such target: {', '.join(unknown)}; choose from {', '.join(NAMES)}", file=sys.stderr)
        return 2
    if options.replay:
        return _replay(names, options.replay)
    if options.keep:
        for name in names:
            working = [file.read_bytes() for file in (options.folder / "corpus" / name).iterdir()]
            print(f"{name:12} {keep(name, smallest(load(name), working))} inputs added", flush=True)
        return 0
    seconds = options.seconds / len(names) * options.jobs
    if not available():
        print("Atheris is not installed here (it has wheels for Linux on x86-64): inputs are changed at random,")
        print("without looking at what they reach.")
        return _plain(names, int(seconds * _PLAIN_RUNS_PER_SECOND) if options.runs < 0 else options.runs, options.seed)
    return _fuzz(names, options, seconds)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m fuzz", description="Fuzz what reads bytes of other people.")
    parser.add_argument("target", nargs="*", help="default: all of them")
    parser.add_argument("--seconds", type=float, default=3_600, help="for all targets together (default: 3600)")
    parser.add_argument("--runs", type=int, default=-1, help="inputs per target, default: no limit")
    parser.add_argument("--jobs", type=int, default=1, help="targets side by side (default: 1)")
    parser.add_argument("--seed", type=int, default=0, help="0 (default) is another one each time")
    parser.add_argument("--folder", type=Path, default=WORKING, help=f"for corpus and findings (default: {WORKING})")
    parser.add_argument("--replay", type=Path, nargs="+", metavar="FILE", help="run these inputs only")
    parser.add_argument("--keep", action="store_true", help="add the shortest of the working corpus to fuzz/corpus")
    parser.add_argument("--list", action="store_true", help="say what there is")
    return parser


def _fuzz(names: list[str], options: argparse.Namespace, seconds: float) -> int:
    found = 0
    with ThreadPoolExecutor(options.jobs) as pool:

        def one(name: str) -> Outcome:
            deep = seconds >= _DEEP_SECONDS
            return fuzz(name, seconds=seconds, runs=options.runs, seed=options.seed, deep=deep, folder=options.folder)

        for outcome in pool.map(one, names):
            print(outcome, flush=True)
            if outcome.failed:
                found = 1
                print(outcome.report, flush=True)
                if outcome.finding:
                    print(f"again: python -m fuzz {outcome.name} --replay {outcome.finding}", flush=True)
    return found


def _plain(names: list[str], runs: int, seed: int) -> int:
    for name in names:
        try:
            print(f"{name:12} {plain_run(load(name), runs, seed)} runs", flush=True)
        except ReproducedError as shown:
            return _show(name, shown)
    return 0


def _replay(names: list[str], files: list[Path]) -> int:
    if len(names) != 1:
        print("name one target: python -m fuzz TARGET --replay FILE …", file=sys.stderr)
        return 2
    try:
        print(f"{replay(load(names[0]), (file.read_bytes() for file in files))} inputs, nothing found")
    except ReproducedError as shown:
        return _show(names[0], shown)
    return 0


def _show(name: str, shown: ReproducedError) -> int:
    import traceback

    traceback.print_exception(shown.__cause__)
    folder = WORKING / "findings"
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / f"{name}-plain"
    file.write_bytes(shown.data)
    print(f"again: python -m fuzz {name} --replay {file}", file=sys.stderr)
    return 1


if __name__ == "__main__":
    sys.exit(main())

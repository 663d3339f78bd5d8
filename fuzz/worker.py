"""Fuzz one target in this process with Atheris: `python -m fuzz.worker NAME DEPTH [libFuzzer flags] [folders]`.

In: a target's name; `deep` to count branches in generated code, too. Out: libFuzzer's output and exit code.
Must never: import the product before it is instrumented.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable
from random import Random
from typing import Any, Final

from fuzz.mutation import mutated
from fuzz.target import Target

DEEP: Final = "deep"


def main() -> None:
    """Fuzz until libFuzzer ends the process."""
    atheris: Any = importlib.import_module("atheris")
    name, depth, *flags = sys.argv[1:]
    # elsewhere the interpreter is what outputs are checked with: its branches would only take time
    exclude = [] if name == "codec" else ["shareproxy.protocol.interpreter"]
    with atheris.instrument_imports(include=["shareproxy"], exclude=exclude):
        from fuzz.targets import load

        target = load(name)
    if depth == DEEP:
        _instrument_generated(atheris)

    def mutate(data: bytes, limit: int, seed: int) -> bytes:
        return mutated(target, data, limit, Random(seed), atheris.Mutate)

    atheris.Setup([f"fuzz-{name}", *flags], _entry(target), custom_mutator=mutate)
    atheris.Fuzz()


def _entry(target: Target) -> Callable[[bytes], None]:
    return lambda data: target.run(data)


def _instrument_generated(atheris: Any) -> None:
    """Count branches in code that the codec writes at run time, too."""
    from shareproxy.protocol.source import Source

    compiled = Source.function

    def function(self: Source, name: str, title: str) -> Callable[..., Any]:
        instrumented: Callable[..., Any] = atheris.instrument_func(compiled(self, name, title))
        return instrumented

    Source.function = function  # type: ignore[method-assign]


if __name__ == "__main__":
    main()

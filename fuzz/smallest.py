"""Choose inputs that are worth keeping.

In: a target and inputs. Out: those that reach something that shorter ones do not. Must never: keep an input for how
often it goes somewhere: that would be most of them.
"""

from __future__ import annotations

from collections.abc import Iterable

import coverage

from fuzz.target import Target


def smallest(target: Target, inputs: Iterable[bytes]) -> list[bytes]:
    """Return the inputs that add branches of the product, the shortest first; those that are a finding are left out."""
    measured = coverage.Coverage(branch=True, source=["shareproxy"], data_file=None, config_file=False)
    kept, known = [], 0
    for item in sorted(inputs, key=lambda item: (len(item), item)):
        with measured.collect():
            try:
                target.run(item)
            except Exception:
                continue
        data = measured.get_data()
        reached = sum(len(data.arcs(file) or ()) for file in data.measured_files())
        if reached > known:
            kept.append(item)
            known = reached
    return kept

"""What is known of each release."""

from __future__ import annotations

import pytest

from shareproxy.testing.simulation.versions import release


@pytest.mark.parametrize(
    ("name", "apis", "quirks"),
    [
        ("4.1.2", {2: (1, 10), 87: (0, 0), 90: (0, 0)}, (False, False, False, True, False, -1)),
        ("4.2.0", {2: (1, 11), 87: (0, 1), 90: (0, 1)}, (True, False, False, True, False, -1)),
        ("4.2.1", {90: (0, 1), 42: (0, 2)}, (True, True, True, True, False, -1)),
        ("4.3.1", {35: (1, 5)}, (True, True, True, False, False, -1)),
        ("4.4.0", {18: (0, 5), 42: (0, 3), 94: (0, 0)}, (True, True, True, True, True, 0)),
    ],
)
def test_releases(name: str, apis: dict[int, tuple[int, int]], quirks: tuple[object, ...]) -> None:
    """Versions advertised, and the differences that matter for lag."""
    kafka = release(name)
    assert {key: kafka.apis[key] for key in apis} == apis
    assert quirks == (
        kafka.alters,
        kafka.alter_counts,
        kafka.colon_in_group,
        kafka.fences_no_epoch,
        kafka.refuses_negative_epoch,
        kafka.added_start,
    )


@pytest.mark.parametrize("name", ["4.0.0", "3.9.1", "4.4", "newest"])
def test_others_are_refused(name: str) -> None:
    """Their share groups are not known well enough."""
    with pytest.raises(ValueError, match=r"from 4\.1\.0"):
        release(name)

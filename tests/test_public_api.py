"""The public names are there, documented, and cost nothing until they are used."""

from __future__ import annotations

import inspect
import subprocess
import sys

import pytest

import shareproxy


@pytest.mark.parametrize("name", shareproxy.__all__)
def test_each_public_name_can_be_used(name: str) -> None:
    """It is what its module has, and it says what it is."""
    found = getattr(shareproxy, name)

    if inspect.isclass(found):
        assert found.__doc__
        assert found.__name__ == name


def test_the_names_are_written_once_more_for_type_checkers() -> None:
    """Both lists agree."""
    assert set(shareproxy.__all__) == {"__version__", *shareproxy._MODULE_OF}
    assert set(shareproxy.__all__) <= set(dir(shareproxy))


def test_an_unknown_name() -> None:
    """As any other module says it."""
    with pytest.raises(AttributeError, match="no attribute 'Nosuch'"):
        shareproxy.Nosuch  # type: ignore[attr-defined] # noqa: B018


def test_nothing_is_loaded_before_it_is_used() -> None:
    """The command line starts fast."""
    program = "import sys, shareproxy; print(sorted(m for m in sys.modules if m.startswith('shareproxy')))"

    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=True)

    assert done.stdout.strip() == "['shareproxy', 'shareproxy.version']"


@pytest.mark.parametrize("name", [name for name in shareproxy.__all__ if name.endswith(("Admin", "Result", "Plan"))])
def test_each_method_is_documented(name: str) -> None:
    """Public methods say what they do."""
    for attribute, member in inspect.getmembers(getattr(shareproxy, name), inspect.isfunction):
        assert attribute.startswith("_") or member.__doc__, attribute

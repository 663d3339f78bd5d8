"""Write label values as Prometheus reads them.

In: names of groups and topics. Out: escaped text, unique for each name. Must never: let a name break the page, or make
two names the same without saying so.
"""

from __future__ import annotations

from typing import Final

REPLACEMENT: Final = "\ufffd"


class Labels:
    """Escape label values, and count those that were not valid Unicode.

    Attributes:
        replaced: values in which something had to be replaced.
    """

    def __init__(self) -> None:
        self.replaced = 0
        self._known: dict[str, str] = {}

    def escape(self, value: str) -> str:
        """Return a label value without its quotes."""
        known = self._known.get(value)
        if known is None:
            known = self._known[value] = self._escape(value)
        return known

    def _escape(self, value: str) -> str:
        try:
            value.encode()
        except UnicodeEncodeError:
            self.replaced += 1
            value = "".join(REPLACEMENT if "\ud800" <= letter <= "\udfff" else letter for letter in value)
        return value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")

"""Write Python source line by line and turn it into a function whose tracebacks show it.

In: lines and the names they use. Out: a function. Must never: be fed with text from the wire; only plans write source.
"""

from __future__ import annotations

import linecache
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any


class Source:
    """Lines of one function and the objects they name."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self._shared: dict[str, str] = {}
        self.names: dict[str, object] = {}
        self._depth = 0
        self._counter = 0

    def line(self, text: str) -> None:
        """Add one line at the present depth."""
        self.lines.append("    " * self._depth + text)

    @contextmanager
    def block(self, head: str) -> Iterator[None]:
        """Add a line that ends in a colon; what follows is indented under it."""
        self.line(head)
        self._depth += 1
        yield
        self._depth -= 1

    def fresh(self, stem: str) -> str:
        """Return a variable name that is not used yet."""
        self._counter += 1
        return f"{stem}{self._counter}"

    def name(self, stem: str, value: object) -> str:
        """Return a name for an object; the same name for the same object."""
        for name, known in self.names.items():
            if known is value:
                return name
        name = stem if stem not in self.names else self.fresh(stem)
        self.names[name] = value
        return name

    def shared(self, key: str, stem: str, value: object) -> str:
        """Return a name for an object that is as good as an earlier one with the same key."""
        if key not in self._shared:
            self._shared[key] = self.name(stem, value)
        return self._shared[key]

    def function(self, name: str, title: str) -> Callable[..., Any]:
        """Compile the lines.

        Args:
            name: the function that they define.
            title: stands for the file's name in tracebacks.
        """
        text = "\n".join(self.lines) + "\n"
        file = f"<{title}>"
        linecache.cache[file] = (len(text), None, text.splitlines(keepends=True), file)
        scope: dict[str, Any] = dict(self.names)
        exec(compile(text, file, "exec"), scope)
        function: Callable[..., Any] = scope[name]
        return function

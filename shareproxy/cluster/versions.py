"""Know which versions of which API one broker speaks.

In: an ApiVersions answer. Out: the highest version both sides know. Must never: serve another connection than its own,
as the broker behind an address may change.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import TypeVar

from shareproxy.protocol.message import Request, Response
from shareproxy.protocol.messages import ApiVersionsResponse

Q = TypeVar("Q", bound=Response)


class ApiVersionTable(Mapping[int, tuple[int, int]]):
    """API key → first and last version the broker offers; never changes.

    Args:
        ranges: as above.
        features: name of a finalized feature → its level, `share.version` for instance.
    """

    __slots__ = ("_ranges", "features")

    def __init__(self, ranges: Mapping[int, tuple[int, int]], features: Mapping[str, int] | None = None) -> None:
        self._ranges = dict(ranges)
        self.features: Mapping[str, int] = MappingProxyType(dict(features or {}))

    @classmethod
    def of(cls, answer: ApiVersionsResponse) -> ApiVersionTable:
        """Take the table out of a broker's answer."""
        return cls(
            {key.api_key: (key.min_version, key.max_version) for key in answer.api_keys},
            {feature.name: feature.max_version_level for feature in answer.finalized_features},
        )

    def __getitem__(self, api_key: int) -> tuple[int, int]:
        return self._ranges[api_key]

    def __iter__(self) -> Iterator[int]:
        return iter(self._ranges)

    def __len__(self) -> int:
        return len(self._ranges)

    def __repr__(self) -> str:
        return f"ApiVersionTable({len(self)} APIs, features={dict(self.features)})"

    def highest(
        self, request: type[Request[Q]], max_version: int | None = None, min_version: int | None = None
    ) -> int | None:
        """Return the highest version of a request that both sides know, None if there is none.

        Args:
            request: class of the request.
            max_version: use no newer one.
            min_version: use no older one.
        """
        offered = self._ranges.get(request.api_key)
        if offered is None:
            return None
        high = min(offered[1], request.max_version, request.max_version if max_version is None else max_version)
        low = max(offered[0], request.min_version, request.min_version if min_version is None else min_version)
        return high if low <= high else None

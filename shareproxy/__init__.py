"""Share-group lag for every Kafka client."""

from shareproxy.version import __version__

__all__ = ["__version__"]

"""The share-group admin client: what it asks, what it answers, what can go wrong."""

from shareproxy.admin.share_admin import ShareAdmin

__all__ = ["ShareAdmin"]

"""The lag of share groups: what it is, where it is read from, and why it may be unknown."""

"""Decide which offsets a consumer group commits."""

"""Sinks that come with the package, each usable by its name in a sink file."""

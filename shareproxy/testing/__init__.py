"""Clusters to test against: a real Kafka from Maven (`kafka`), a driver for its Java clients (`driver`).

Import the submodules directly; this package itself imports nothing, so that it costs nothing.
"""

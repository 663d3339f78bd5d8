"""Compare what proxies cost in front of one broker: `python -m benchmarks.proxy`."""

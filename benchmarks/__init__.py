"""Benchmarks: each prints ratios measured in one run; see README.md beside this file."""

"""Drain a queue while workers, brokers and lines break, and account for every offset."""

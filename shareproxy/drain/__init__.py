"""Drain queues: the share consumer, workers for handlers and sinks, and commits of consumer groups that do not lie."""

"""What draining a queue costs, beside the share consumers that others make."""

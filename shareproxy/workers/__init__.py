"""Several processes that serve clients at the same ports, and the one that looks after them."""

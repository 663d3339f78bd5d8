"""Client connections on one side, broker connections on the other, and the few answers that are edited in between."""

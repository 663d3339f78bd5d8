"""Work on one proxy for a long time, and see whether it grows."""

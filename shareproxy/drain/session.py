"""Run one share session with one broker: epochs, fetches, acknowledgements."""

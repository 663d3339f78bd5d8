"""Keep the offsets that a member holds, and what became of each."""

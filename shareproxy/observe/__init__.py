"""What the service tells about itself and about the groups; for now its health only."""

"""The way to the brokers: connections, security, metadata, coordinators, retries."""

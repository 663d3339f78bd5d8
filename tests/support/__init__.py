"""What tests share: ways to bring a real Kafka into a wanted state."""

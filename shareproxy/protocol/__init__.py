"""Bytes and messages of the Kafka protocol: schemas, codecs, headers and framing, without I/O."""

"""Name Python classes and attributes after Kafka's structs and fields."""

from __future__ import annotations

import re


def snake_case(name: str) -> str:
    """Turn `ThrottleTimeMs` into `throttle_time_ms`."""
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "_", name).lower()


def class_name(message: str, struct: str) -> str:
    """Return the Python class of a struct: its own name, led by the message's where that is missing.

    Struct names are unique in their message only; those that start with the API's name are unique in all.
    """
    if struct == message:
        return message
    stem = re.sub(r"(Request|Response)$", "", message)
    return struct if struct.startswith(stem) else message + struct

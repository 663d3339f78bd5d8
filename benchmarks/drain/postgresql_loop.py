"""The table that records go to, the statement of a loop written by hand, and the same as settings of our sink.

In: records. Out: rows. Must never: do less than our sink does.
"""

from __future__ import annotations

from shareproxy import ShareRecord

TABLE = "drained"
CREATE = f"""
CREATE TABLE IF NOT EXISTS {TABLE} (
    topic text, partition integer, "offset" bigint, value bytea, PRIMARY KEY (topic, partition, "offset")
)
"""
INSERT = f"""
INSERT INTO {TABLE} (topic, partition, "offset", value) VALUES ($1, $2, $3, $4)
ON CONFLICT (topic, partition, "offset") DO UPDATE SET value = EXCLUDED.value
"""


def row(record: ShareRecord) -> tuple[str, int, int, bytes | None]:
    """Return a record as the statement's values."""
    return record.topic, record.partition, record.offset, record.value


def table_settings(url: str) -> str:
    """Return the settings of our sink for the same table."""
    columns = ", ".join(f'{name} = "{name}"' for name in ("topic", "partition", "offset", "value"))
    return f'dsn = "{url}"\ntable = "{TABLE}"\ncolumns = {{ {columns} }}\n'

"""Know a table of PostgreSQL: its columns, the key that makes rows unique, and the statement that writes to it.

In: a connection, names. Out: a `Table`, or one sentence on what does not fit. Must never: write anything.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, Literal

import msgspec

from shareproxy.drain.errors import DrainError

OnConflict = Literal["update", "ignore"]

_TABLE: Final = """
SELECT c.oid, c.relkind::text AS kind, c.relpersistence::text AS persistence, current_user::text AS user,
       has_table_privilege(c.oid, 'INSERT') OR has_any_column_privilege(c.oid, 'INSERT') AS insert,
       has_table_privilege(c.oid, 'SELECT') OR has_any_column_privilege(c.oid, 'SELECT') AS select,
       has_table_privilege(c.oid, 'UPDATE') OR has_any_column_privilege(c.oid, 'UPDATE') AS update
FROM pg_class c WHERE c.oid = to_regclass($1)
"""
# -1 leaves lengths out: a cast to varchar(10) would cut a longer text without a word
_COLUMNS: Final = """
SELECT a.attname::text AS name, format_type(a.atttypid, -1) AS type, coalesce(b.typname, t.typname)::text AS base,
       coalesce(b.typcategory, t.typcategory) = 'A' AS is_array,
       a.attnotnull AND NOT a.atthasdef AND a.attidentity = '' AS needed,
       a.attgenerated <> '' OR a.attidentity = 'a' AS made
FROM pg_attribute a JOIN pg_type t ON t.oid = a.atttypid
LEFT JOIN pg_type b ON b.oid = t.typbasetype
WHERE a.attrelid = $1 AND a.attnum > 0 AND NOT a.attisdropped ORDER BY a.attnum
"""
_UNIQUE: Final = """
SELECT array(
    SELECT a.attname::text FROM unnest((i.indkey::int2[])[0:i.indnkeyatts - 1]) AS k(attnum)
    JOIN pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = k.attnum
) AS names
FROM pg_index i
WHERE i.indrelid = $1 AND i.indisunique AND i.indimmediate AND i.indisvalid
  AND i.indpred IS NULL AND i.indexprs IS NULL
"""
# what a column may be for a source whose type is known, for the sentence that shows a CREATE TABLE
_SUGGESTED: Final[Mapping[str, str]] = {
    "topic": "text",
    "partition": "int",
    "offset": "bigint",
    "timestamp": "timestamptz",
    "delivery_count": "int",
    "headers": "jsonb",
    "value": "jsonb",
}


class TableUnfit(DrainError):  # noqa: N818 - it says what is wrong
    """The table cannot be written to as the settings say."""


class Column(msgspec.Struct, frozen=True):
    """A column that is written.

    Attributes:
        name: the column's.
        source: what of a record goes into it.
        type: PostgreSQL's name of the type, without a length.
        base: short name of the type beneath, such as `int4`.
        is_array: whether it holds arrays, which cannot be sent as an array of values.
    """

    name: str
    source: str
    type: str
    base: str
    is_array: bool = False


class Table(msgspec.Struct, frozen=True):
    """A table that records can be written to.

    Attributes:
        name: as it is set, for sentences.
        columns: those that are written.
        keys: places in `columns` of those that make a row unique.
        newest: place of the column that tells which of two rows is newer; `None` without one.
        by_row: whether it takes values row by row, since a column holds arrays.
        sql: the statement; its parameters are one array for each column, or with `by_row` one value for each.
    """

    name: str
    columns: tuple[Column, ...]
    keys: tuple[int, ...]
    newest: int | None
    by_row: bool
    sql: str


async def look_at_table(
    connection: Any,
    name: str,
    sources: Mapping[str, str],
    keys: Sequence[str],
    *,
    on_conflict: OnConflict,
    newest: str,
) -> Table:
    """Return the table if it can be written to.

    Args:
        connection: asyncpg's.
        name: of the table, with its schema or without.
        sources: column → what of a record goes into it.
        keys: columns that make a row unique.
        on_conflict: what becomes of a row that is there already.
        newest: column that tells which of two rows is newer, empty for none.

    Raises:
        TableUnfit: says in one sentence why it does not fit.
    """
    found = await connection.fetchrow(_TABLE, quoted(name))
    if found is None:
        raise TableUnfit(f"there is no table {name!r}; create it: {suggestion(name, sources, keys)}")
    if found["persistence"] != "p":
        raise TableUnfit(f"table {name!r} is unlogged or temporary: it loses rows that were taken; SET LOGGED")
    wanted = ["insert", "select", *(["update"] if on_conflict == "update" else [])]
    if denied := [word.upper() for word in wanted if not found[word]]:
        raise TableUnfit(
            f"user {found['user']!r} may not {' and not '.join(denied)} on table {name!r}; "
            f"GRANT {', '.join(word.upper() for word in wanted)} ON {quoted(name)} TO {quoted(found['user'])}"
        )
    there = {row["name"]: row for row in await connection.fetch(_COLUMNS, found["oid"])}
    if missing := [column for column in sources if column not in there]:
        raise TableUnfit(
            f"table {name!r} has no column {', '.join(map(repr, missing))} (it has {', '.join(there)}); add it, or "
            'name its columns in "columns"'
        )
    if made := [column for column in sources if there[column]["made"]]:
        raise TableUnfit(f"column {made[0]!r} of table {name!r} is made by the server; leave it out of columns")
    if needed := [column for column, row in there.items() if row["needed"] and column not in sources]:
        raise TableUnfit(
            f"column {needed[0]!r} of table {name!r} is NOT NULL and has no default; say in columns what goes into it"
        )
    unique = [row["names"] for row in await connection.fetch(_UNIQUE, found["oid"])]
    if not any(set(names) == set(keys) for names in unique):
        listed = ", ".join(quoted_part(key) for key in keys)
        raise TableUnfit(
            f"table {name!r} has no primary key or unique index of exactly {', '.join(keys)}, so a record that comes "
            f"twice would be there twice; CREATE UNIQUE INDEX ON {quoted(name)} ({listed})"
        )
    columns = tuple(
        Column(column, source, there[column]["type"], there[column]["base"], there[column]["is_array"])
        for column, source in sources.items()
    )
    names = list(sources)
    by_row = any(column.is_array for column in columns)
    return Table(
        name,
        columns,
        tuple(names.index(key) for key in keys),
        names.index(newest) if newest else None,
        by_row,
        _statement(name, columns, keys, on_conflict, newest, by_row),
    )


def _statement(
    name: str, columns: Sequence[Column], keys: Sequence[str], on_conflict: OnConflict, newest: str, by_row: bool
) -> str:
    listed = ", ".join(quoted_part(column.name) for column in columns)
    if by_row:
        values = f"VALUES ({', '.join(f'${n}::{column.type}' for n, column in enumerate(columns, 1))})"
    else:
        # one array for each column: one statement and one answer, whatever the number of records
        values = f"SELECT * FROM unnest({', '.join(f'${n}::{column.type}[]' for n, column in enumerate(columns, 1))})"
    rest = [quoted_part(column.name) for column in columns if column.name not in keys]
    action = "DO NOTHING"
    if on_conflict == "update" and rest:
        action = f"DO UPDATE SET {', '.join(f'{column} = EXCLUDED.{column}' for column in rest)}"
        if newest:
            column = quoted_part(newest)
            action += f" WHERE t.{column} IS NULL OR t.{column} <= EXCLUDED.{column}"
    conflict = ", ".join(quoted_part(key) for key in keys)
    return f"INSERT INTO {quoted(name)} AS t ({listed}) {values} ON CONFLICT ({conflict}) {action}"


def suggestion(name: str, sources: Mapping[str, str], keys: Sequence[str]) -> str:
    """Return a statement that creates a table that fits."""
    columns = [f"{quoted_part(column)} {_SUGGESTED.get(source, 'text')}" for column, source in sources.items()]
    key = ", ".join(quoted_part(column) for column in keys)
    return f"CREATE TABLE {quoted(name)} ({', '.join(columns)}, PRIMARY KEY ({key}))"


def quoted(name: str) -> str:
    """Return the name of a table, quoted; a point stands between schema and table."""
    return ".".join(quoted_part(part) for part in name.split("."))


def quoted_part(name: str) -> str:
    """Return one name, quoted."""
    return '"' + name.replace('"', '""') + '"'

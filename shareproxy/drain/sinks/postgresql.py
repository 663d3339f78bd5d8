"""Bring records into a table of PostgreSQL, each row once however often its record comes.

In: batches. Out: rows, committed before `put` returns. Must never: let one record that the table does not take cost the
others of its batch, or two deliveries of a record make two rows.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from typing import Annotated, Any, Final
from urllib.parse import urlsplit

import msgspec
import structlog
from msgspec import Meta

from shareproxy.drain.errors import DrainError
from shareproxy.drain.sink import Outcome, Outcomes, Retriable, SinkRecord, TaskContext
from shareproxy.drain.sinks.postgresql_table import OnConflict, Table, TableUnfit, look_at_table
from shareproxy.drain.sinks.postgresql_values import PLAIN_SOURCES, CannotEncode, DoesNotFit, is_source, value_of
from shareproxy.drain.sinks.settings import Seconds, SettingsError, read_settings

try:
    import asyncpg

    from shareproxy.drain.sinks.postgresql_errors import Fault, fault_of, sentence_of
except ModuleNotFoundError as missing:
    if missing.name != "asyncpg":
        raise
    raise ImportError("asyncpg is not installed; pip install 'shareproxy[postgresql]'") from None

_DEFAULT_COLUMNS: Final[Mapping[str, str]] = {
    source: source for source in ("topic", "partition", "offset", "timestamp", "key", "value", "headers")
}


class PostgresqlSettings(msgspec.Struct, frozen=True, kw_only=True):
    """The settings of a `postgresql` sink."""

    dsn: Annotated[
        str, Meta(description="where the database is and how to log in, `postgresql://USER:PASSWORD@HOST/DATABASE`")
    ]
    table: Annotated[str, Meta(description="the table, `NAME` or `SCHEMA.NAME`; it has to exist")]
    columns: Annotated[
        dict[str, str],
        Meta(description="column = what goes into it, see below; without it one column for each part of a record"),
    ] = msgspec.field(default_factory=lambda: dict(_DEFAULT_COLUMNS))
    key_columns: Annotated[
        list[str], Meta(description="columns that make a row unique; without it those of topic, partition and offset")
    ] = msgspec.field(default_factory=list)
    on_conflict: Annotated[
        OnConflict, Meta(description="what becomes of a row that is there already: `update` or `ignore`")
    ] = "update"
    newest_column: Annotated[
        str,
        Meta(description="a row is updated only if its value of this column is not higher, such as a version or time"),
    ] = ""
    timeout: Annotated[Seconds, Meta(description="seconds for connecting and for each statement")] = 30.0

    def keys(self) -> list[str]:
        """Return the columns that make a row unique."""
        if self.key_columns:
            return self.key_columns
        places = {source: column for column, source in self.columns.items()}
        return [places[source] for source in ("topic", "partition", "offset")]


class PostgresqlSink:
    """Write records to a table with INSERT … ON CONFLICT."""

    def __init__(self) -> None:
        self._settings: PostgresqlSettings
        self._table: Table
        self._values: list[Callable[[SinkRecord], Any]] = []
        self._connection: Any = None
        self._name = "shareproxy"
        self._log = structlog.get_logger()

    @staticmethod
    def check(config: Mapping[str, Any]) -> None:
        """Check the settings.

        Raises:
            SettingsError: names the key and what to write.
        """
        _settings(config)

    async def start(self, context: TaskContext) -> None:
        """Connect, and look whether the table fits.

        Raises:
            DrainError: the database cannot be reached, or the table does not fit.
        """
        self._settings = _settings(context.config)
        self._name = f"shareproxy-{context.connector}-{context.task_id}"
        self._log = structlog.get_logger().bind(connector=context.connector, task=context.task_id)
        try:
            await self._connect()
        except (OSError, asyncpg.PostgresError, asyncpg.InterfaceError, TimeoutError) as error:
            raise DrainError(f"{self._where()} cannot be reached: {sentence_of(error)}; check dsn") from error

    async def put(self, batch: Sequence[SinkRecord]) -> Outcomes | None:
        """Write a batch; each statement is a transaction of its own.

        Raises:
            Retriable: the database cannot be reached, or asks to try again.
            DrainError: it does not let us write at all.
        """
        try:
            if self._connection is None or self._connection.is_closed():
                await self._connect()
            return await self._write_batch(batch)
        except TableUnfit:
            self._drop()
            raise
        except (
            OSError,
            TimeoutError,
            asyncpg.PostgresError,
            asyncpg.InterfaceError,
            asyncpg.InternalClientError,
        ) as error:
            self._drop()
            if fault_of(error) is Fault.SETUP:
                raise DrainError(f"{self._where()}: {sentence_of(error)}") from error
            raise Retriable(f"{self._where()}: {sentence_of(error)}") from error
        except asyncio.CancelledError:
            self._drop()  # a statement may still be under way on it
            raise

    async def stop(self) -> None:
        """Close the connection."""
        connection, self._connection = self._connection, None
        if connection is not None and not connection.is_closed():
            try:
                await connection.close(timeout=2.0)
            except (OSError, TimeoutError, asyncpg.PostgresError, asyncpg.InterfaceError):
                connection.terminate()

    async def _connect(self) -> None:
        self._drop()
        settings = self._settings
        connection = await asyncpg.connect(
            settings.dsn,
            timeout=settings.timeout,
            command_timeout=settings.timeout,
            server_settings={"application_name": self._name},
        )
        try:
            # what is not on disk at the commit is not safe, whatever the server's default; stricter ones stay
            await connection.execute(
                "SELECT set_config('synchronous_commit', 'on', false) "
                "WHERE current_setting('synchronous_commit') = 'off'"
            )
            self._table = await look_at_table(
                connection,
                settings.table,
                settings.columns,
                settings.keys(),
                on_conflict=settings.on_conflict,
                newest=settings.newest_column,
            )
        except BaseException:
            connection.terminate()
            raise
        self._values = [
            value_of(column, key=index in self._table.keys) for index, column in enumerate(self._table.columns)
        ]
        self._connection = connection

    def _drop(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.terminate()

    def _where(self) -> str:
        parts = urlsplit(self._settings.dsn)  # the password stays out
        return f"PostgreSQL at {parts.hostname or 'localhost'}{parts.path}, table {self._settings.table!r}"

    async def _write_batch(self, batch: Sequence[SinkRecord]) -> Outcomes | None:
        outcomes: list[Outcome] = [Outcome.ACCEPT] * len(batch)
        try:
            columns = [[value(record) for record in batch] for value in self._values]
        except (DoesNotFit, CannotEncode, UnicodeDecodeError):
            rows: list[list[Any]] = []
            places: list[int] = []
            for index, record in enumerate(batch):
                try:
                    rows.append([value(record) for value in self._values])
                    places.append(index)
                except (DoesNotFit, CannotEncode, UnicodeDecodeError) as error:
                    self._refused(record, str(error))
                    outcomes[index] = Outcome.REJECT
            columns = [list(column) for column in zip(*rows, strict=True)]
        else:
            places = list(range(len(batch)))
        if places:
            await self._write(_Rows(columns, places), batch, outcomes)
        return outcomes if any(outcome is not Outcome.ACCEPT for outcome in outcomes) else None

    async def _write(self, rows: _Rows, batch: Sequence[SinkRecord], outcomes: list[Outcome]) -> None:
        """Write rows of which several may have one key: only the newest of those, unless the table refuses it."""
        if self._settings.on_conflict == "ignore" or self._table.by_row:
            await self._write_parts(rows, batch, outcomes)
            return
        newest, older = rows.newest(self._table, batch)
        await self._write_parts(newest, batch, outcomes)
        if older is None:
            return
        there = {key for key, place in newest.by_key(self._table) if outcomes[place] is Outcome.ACCEPT}
        left = older.without(there, self._table)
        if left:
            await self._write(left, batch, outcomes)

    async def _write_parts(self, rows: _Rows, batch: Sequence[SinkRecord], outcomes: list[Outcome]) -> None:
        """Write rows in one statement; where the table does not take one of them, look for it by halves."""
        try:
            if self._table.by_row:
                await self._connection.executemany(self._table.sql, list(zip(*rows.columns, strict=True)))
            else:
                await self._connection.execute(self._table.sql, *rows.columns)
        except (asyncpg.PostgresError, ValueError) as error:
            fault = fault_of(error)
            if fault not in (Fault.RECORD, Fault.PARENT):
                raise
            if len(rows) > 1:
                for half in rows.halves():
                    await self._write_parts(half, batch, outcomes)
                return
            place = rows.places[0]
            outcomes[place] = Outcome.REJECT if fault is Fault.RECORD else Outcome.RELEASE
            self._refused(batch[place], sentence_of(error))

    def _refused(self, record: SinkRecord, why: str) -> None:
        self._log.warning(
            "the table does not take a record", record=f"{record.topic}-{record.partition}@{record.offset}", why=why
        )


class _Rows:
    """Values by column, with the place in the batch of each row."""

    def __init__(self, columns: list[list[Any]], places: list[int]) -> None:
        self.columns, self.places = columns, places

    def __len__(self) -> int:
        return len(self.places)

    def halves(self) -> tuple[_Rows, _Rows]:
        """Return the first and the second half."""
        middle = len(self) // 2
        return (
            _Rows([column[:middle] for column in self.columns], self.places[:middle]),
            _Rows([column[middle:] for column in self.columns], self.places[middle:]),
        )

    def by_key(self, table: Table) -> Iterable[tuple[Any, int]]:
        """Return each row's key and place in the batch."""
        return zip(self._keys(table), self.places, strict=True)

    def without(self, keys: Set[Any], table: Table) -> _Rows:
        """Return the rows that have none of these keys."""
        return self._only([row for row, key in enumerate(self._keys(table)) if key not in keys])

    def newest(self, table: Table, batch: Sequence[SinkRecord]) -> tuple[_Rows, _Rows | None]:
        """Return one row for each key, and the others; PostgreSQL updates no row twice in a statement."""
        keys = self._keys(table)
        if len(set(keys)) == len(keys):
            return self._ordered(keys), None
        ranks = [batch[place].offset for place in self.places]
        if table.newest is not None:
            values = self.columns[table.newest]
            order = sorted(range(len(keys)), key=lambda row: (values[row] is not None, values[row], ranks[row]))
        else:
            order = sorted(range(len(keys)), key=ranks.__getitem__)
        chosen = {keys[row]: row for row in order}
        rows = set(chosen.values())
        newest = self._only([row for row in range(len(keys)) if row in rows])
        older = self._only([row for row in range(len(keys)) if row not in rows])
        return newest._ordered([keys[row] for row in sorted(rows)]), older

    def _keys(self, table: Table) -> list[Any]:
        return list(zip(*(self.columns[index] for index in table.keys), strict=True))

    def _ordered(self, keys: list[Any]) -> _Rows:
        """Return rows by key: two tasks that lock the same rows in one order cannot block each other."""
        try:
            order = sorted(range(len(keys)), key=keys.__getitem__)
        except TypeError:  # a key with a null
            return self
        return self if order == list(range(len(keys))) else self._only(order)

    def _only(self, rows: list[int]) -> _Rows:
        return _Rows([[column[row] for row in rows] for column in self.columns], [self.places[row] for row in rows])


def _settings(config: Mapping[str, Any]) -> PostgresqlSettings:
    settings = read_settings(PostgresqlSettings, config)
    try:
        parts = urlsplit(settings.dsn)
        scheme, rest = parts.scheme, parts.path + parts.fragment
    except ValueError:
        scheme = rest = ""
    if scheme not in ("postgresql", "postgres"):
        raise SettingsError("dsn: must be an address such as postgresql://USER:PASSWORD@HOST:5432/DATABASE")
    if "@" in rest:  # what ends the address too early would be shown as the database's name
        raise SettingsError("dsn: a / or # of the password is written %2F or %23")
    if not all(settings.table.split(".")) or settings.table.count(".") > 1:
        raise SettingsError("table: must be NAME or SCHEMA.NAME")
    if not settings.columns:
        raise SettingsError('columns: is empty; write such as { id = "value.id", body = "value" }, or leave it out')
    for column, source in settings.columns.items():
        if not is_source(source):
            known = ", ".join(PLAIN_SOURCES)
            raise SettingsError(
                f"columns.{column}: must be one of {known}, or key.FIELD, value.FIELD or header.NAME, not {source!r}"
            )
    missing = [part for part in ("topic", "partition", "offset") if part not in settings.columns.values()]
    if missing and not settings.key_columns:
        raise SettingsError(
            f"key_columns: is missing, and no column holds {' and '.join(missing)}; name the columns that make a row "
            "unique"
        )
    for key, names in (("key_columns", settings.key_columns), ("newest_column", [settings.newest_column])):
        for name in names:
            if name and name not in settings.columns:
                raise SettingsError(f"{key}: {name!r} is none of the columns {', '.join(settings.columns)}")
    return settings

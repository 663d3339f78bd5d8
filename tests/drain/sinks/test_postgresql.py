"""The PostgreSQL sink against a real server."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import pytest

from shareproxy.drain.errors import DrainError
from shareproxy.drain.sink import Outcome, Retriable
from shareproxy.drain.sinks.postgresql import PostgresqlSink
from shareproxy.drain.sinks.settings import SettingsError
from tests.drain.sinks.records import Context, Record, records
from tests.support.postgresql import RealPostgresql, require_postgresql

asyncpg = pytest.importorskip("asyncpg")

ACCEPT, RELEASE, REJECT = Outcome.ACCEPT, Outcome.RELEASE, Outcome.REJECT
BY_ID = {"columns": {"id": "value.id", "name": "value.name"}, "key_columns": ["id"]}


@pytest.fixture(scope="module")
def server() -> Iterator[RealPostgresql]:
    """One server for all tests here."""
    server = RealPostgresql(require_postgresql())
    yield server
    server.close()


class Database:
    """A connection, and sinks that are stopped at the end."""

    def __init__(self, server: RealPostgresql, connection: Any) -> None:
        self.server, self.connection = server, connection
        self.sinks: list[PostgresqlSink] = []

    async def sink(self, **settings: Any) -> PostgresqlSink:
        """Start a sink that writes to table t."""
        sink = PostgresqlSink()
        self.sinks.append(sink)
        await sink.start(Context(config={"dsn": self.server.dsn, "table": "t", **settings}))
        return sink

    async def table(self, columns: str) -> None:
        """Make table t anew."""
        await self.connection.execute(f"DROP TABLE IF EXISTS t CASCADE; CREATE TABLE t ({columns})")

    async def rows(self, query: str = "SELECT * FROM t ORDER BY 1") -> list[tuple[Any, ...]]:
        """Return what is there."""
        return [tuple(row) for row in await self.connection.fetch(query)]


@pytest.fixture
async def database(server: RealPostgresql) -> AsyncIterator[Database]:
    """A connection to the server, without table t."""
    connection = await asyncpg.connect(server.dsn)
    await connection.execute("DROP TABLE IF EXISTS t CASCADE")
    database = Database(server, connection)
    yield database
    for sink in database.sinks:
        await sink.stop()
    connection.terminate()


async def test_a_missing_table_is_told_with_a_statement_that_creates_one_that_fits(database: Database) -> None:
    """The statement works as it is shown, and the default columns hold all of a record, once."""
    with pytest.raises(DrainError, match="there is no table 't'; create it: CREATE TABLE") as raised:
        await database.sink()
    await database.connection.execute(str(raised.value).partition("create it: ")[2])
    sink = await database.sink()
    record = Record(offset=7, key="k", value={"id": 1}, headers=(("h", b"v"), ("none", None)))

    for _ in range(2):
        assert await sink.put([record]) is None

    moment = datetime.fromtimestamp(record.timestamp / 1000, UTC)
    assert await database.rows() == [("orders", 0, 7, moment, "k", '{"id": 1}', '[["h", "v"], ["none", null]]')]


@pytest.mark.parametrize(
    ("columns", "settings", "said"),
    [
        ("id int", BY_ID, "has no column 'name'"),
        ("id int, name text", BY_ID, "no primary key or unique index of exactly id"),
        ("id int primary key, name text, age int not null", BY_ID, "column 'age' of table 't' is NOT NULL"),
        ("id int primary key, name text generated always as ('x') stored", BY_ID, "'name' of table 't' is made by"),
    ],
)
async def test_a_table_that_does_not_fit_is_told_in_one_sentence(
    database: Database, columns: str, settings: dict[str, Any], said: str
) -> None:
    """Before any record is taken."""
    await database.table(columns)

    with pytest.raises(DrainError, match=said):
        await database.sink(**settings)


async def test_an_unlogged_table_is_refused(database: Database) -> None:
    """A crash of the server would empty it."""
    await database.connection.execute("CREATE UNLOGGED TABLE t (id int primary key, name text)")

    with pytest.raises(DrainError, match="unlogged"):
        await database.sink(**BY_ID)


async def test_missing_rights_are_told_with_the_grant(database: Database) -> None:
    """Which works as it is shown."""
    await database.table("id int primary key, name text")
    await database.connection.execute("DROP ROLE IF EXISTS weak; CREATE ROLE weak LOGIN")
    dsn = database.server.dsn.replace("tester", "weak")

    with pytest.raises(DrainError, match="user 'weak' may not INSERT and not SELECT and not UPDATE") as raised:
        await database.sink(dsn=dsn, **BY_ID)
    await database.connection.execute(str(raised.value).partition("; ")[2])
    sink = await database.sink(dsn=dsn, **BY_ID)

    assert await sink.put([Record(value={"id": 1})]) is None


async def test_rows_by_a_key_of_the_value_are_updated(database: Database) -> None:
    """Also when a batch holds a key twice: the higher offset stays, whatever the order."""
    await database.table("id int primary key, name text")
    sink = await database.sink(**BY_ID)

    await sink.put([Record(offset=0, value={"id": 1, "name": "old"})])
    await sink.put(
        [
            Record(offset=2, value={"id": 1, "name": "newest"}),
            Record(offset=1, value={"id": 1, "name": "between"}),
            Record(offset=3, value={"id": 2}),
        ]
    )

    assert await database.rows() == [(1, "newest"), (2, None)]


async def test_newest_column_keeps_an_older_record_from_a_newer_row(database: Database) -> None:
    """Order is gone in a share group."""
    await database.table("id int primary key, at int")
    sink = await database.sink(columns={"id": "value.id", "at": "value.at"}, key_columns=["id"], newest_column="at")

    await sink.put([Record(offset=5, value={"id": 1, "at": 5}), Record(offset=6, value={"id": 1, "at": 4})])
    await sink.put([Record(offset=1, value={"id": 1, "at": 1})])

    assert await database.rows() == [(1, 5)]


async def test_ignore_leaves_a_row_that_is_there(database: Database) -> None:
    """Also within a batch."""
    await database.table("id int primary key, name text")
    sink = await database.sink(**BY_ID, on_conflict="ignore")

    assert await sink.put([Record(value={"id": 1, "name": "first"}), Record(value={"id": 1, "name": "second"})]) is None

    assert await database.rows() == [(1, "first")]


async def test_one_record_that_violates_a_constraint_does_not_cost_the_others(database: Database) -> None:
    """It is rejected, as is one whose value no column of the type can hold."""
    await database.table("id int primary key, name varchar(5) check (name <> 'bad')")
    sink = await database.sink(**BY_ID)
    names = ["a", "bad", "c", "longer than five", "e", "nul \0", "g"]
    batch = [Record(offset=n, value={"id": n, "name": name}) for n, name in enumerate(names)]
    batch += [Record(offset=7, value={"id": "x"}), Record(offset=8, value={"id": None}), Record(offset=9, value=3)]
    batch += [Record(offset=10, value={"id": 2**40})]

    outcomes = await sink.put(batch)

    assert outcomes == [ACCEPT, REJECT, ACCEPT, REJECT, ACCEPT, REJECT, ACCEPT, REJECT, REJECT, REJECT, REJECT]
    assert await database.rows("SELECT id FROM t ORDER BY 1") == [(0,), (2,), (4,), (6,)]


async def test_an_older_record_is_written_over_no_newer_one_because_another_key_s_was_rejected(
    database: Database,
) -> None:
    """Each key by itself: of the one whose newest record is there, the older ones are done with."""
    await database.table("id int PRIMARY KEY, name varchar(5)")
    sink = await database.sink(**BY_ID)
    batch = [
        Record(offset=0, value={"id": 1, "name": "old"}),
        Record(offset=1, value={"id": 1, "name": "new"}),
        Record(offset=2, value={"id": 2, "name": "first"}),
        Record(offset=3, value={"id": 2, "name": "too long"}),
    ]

    assert await sink.put(batch) == [ACCEPT, ACCEPT, ACCEPT, REJECT]

    assert await database.rows() == [(1, "new"), (2, "first")]


async def test_an_older_record_of_a_rejected_newest_one_is_written(database: Database) -> None:
    """It is not accepted without being there."""
    await database.table("id int primary key, name varchar(5)")
    sink = await database.sink(**BY_ID)

    outcomes = await sink.put(
        [Record(offset=1, value={"id": 1, "name": "fits"}), Record(offset=2, value={"id": 1, "name": "does not fit"})]
    )

    assert outcomes == [ACCEPT, REJECT]
    assert await database.rows() == [(1, "fits")]


async def test_a_row_whose_parent_is_not_there_yet_is_released(database: Database) -> None:
    """In a share group the parent may come later."""
    await database.connection.execute(
        "DROP TABLE IF EXISTS parent CASCADE; CREATE TABLE parent (name text primary key)"
    )
    await database.table("id int primary key, name text references parent")
    sink = await database.sink(**BY_ID)

    assert await sink.put([Record(value={"id": 1, "name": "p"}), Record(value={"id": 2})]) == [RELEASE, ACCEPT]


async def test_each_type_takes_what_fits(database: Database) -> None:
    """Numbers as text, times in milliseconds or ISO 8601, bytes, arrays."""
    await database.table(
        "id bigint primary key, n numeric, f float8, b bool, raw bytea, at timestamptz, local timestamp, day date, "
        "doc jsonb, uid uuid, words text[]"
    )
    names = ["n", "f", "b", "at", "local", "day", "doc", "uid", "words"]
    columns = {"id": "key", "raw": "header.raw", **{name: f"value.{name}" for name in names}}
    sink = await database.sink(columns=columns, key_columns=["id"])
    uid = "12345678-1234-5678-1234-567812345678"
    value = {
        "n": "1.50", "f": 2, "b": "true", "at": "2026-01-02T03:04:05Z", "local": 1000, "day": "2026-01-02",
        "doc": ["x"], "uid": uid, "words": ["a", "b"],
    }  # fmt: skip

    outcomes = await sink.put(
        [Record(key=b"42", value=value, headers=(("raw", b"\xff"),)), Record(key="1", value={"words": 3})]
    )

    assert outcomes == [ACCEPT, REJECT]
    ((number, n, f, b, raw, at, local, day, doc, found, words),) = await database.rows()
    assert (number, n, f, b, raw) == (42, Decimal("1.50"), 2.0, True, b"\xff")
    assert at == datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
    assert (str(local), str(day), doc, str(found), words) == (
        "1970-01-01 00:00:01", "2026-01-02", '["x"]', uid, ["a", "b"],
    )  # fmt: skip


async def test_a_lost_connection_is_retriable_and_made_anew(database: Database) -> None:
    """The batch after it is written."""
    await database.table("id int primary key, name text")
    sink = await database.sink(**BY_ID)
    await database.connection.execute(
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'shareproxy-orders-0'"
    )

    try:
        await sink.put([Record(value={"id": 1})])
    except Retriable:  # where the loss was not seen before the put, which then connected anew
        await sink.put([Record(value={"id": 1})])

    assert await database.rows() == [(1, None)]


async def test_a_server_that_is_away_is_retriable(server: RealPostgresql) -> None:
    """And works when it is back."""
    connection = await asyncpg.connect(server.dsn)
    await connection.execute("DROP TABLE IF EXISTS t CASCADE; CREATE TABLE t (id int primary key, name text)")
    await connection.execute("CHECKPOINT")  # the server runs without fsync
    sink = PostgresqlSink()
    await sink.start(Context(config={"dsn": server.dsn, "table": "t", **BY_ID}))
    server.stop()
    connection.terminate()
    try:
        for _ in range(2):
            with pytest.raises(Retriable, match=r"PostgreSQL at 127\.0\.0\.1/postgres, table 't'"):
                await sink.put([Record(value={"id": 1})])
    finally:
        server.start()

    assert await sink.put([Record(value={"id": 1})]) is None
    await sink.stop()


async def test_a_table_that_was_changed_meanwhile_is_looked_at_again(database: Database) -> None:
    """A dropped one fails the task with a sentence; one with another type goes on."""
    await database.table("id int primary key, name text")
    sink = await database.sink(**BY_ID)
    await sink.put([Record(value={"id": 1})])
    await database.table("id bigint primary key, name varchar(9)")
    await sink.put([Record(value={"id": 1, "name": "x"})])
    await database.connection.execute("DROP TABLE t")

    with pytest.raises(DrainError, match="does not exist"):
        await sink.put([Record(value={"id": 1})])
    with pytest.raises(DrainError, match="there is no table"):
        await sink.put([Record(value={"id": 1})])


async def test_a_commit_is_on_disk_whatever_the_default_of_the_server(database: Database) -> None:
    """`put` returns when records are durable."""
    await database.table("id int primary key, name text")
    await database.connection.execute("ALTER ROLE tester SET synchronous_commit = off")
    await database.connection.execute(
        "CREATE OR REPLACE FUNCTION tell() RETURNS trigger LANGUAGE plpgsql AS "
        "$$BEGIN NEW.name = current_setting('synchronous_commit'); RETURN NEW; END$$;"
        "CREATE TRIGGER tell BEFORE INSERT ON t FOR EACH ROW EXECUTE FUNCTION tell()"
    )
    try:
        sink = await database.sink(**BY_ID)
        await sink.put([Record(value={"id": 1})])
    finally:
        await database.connection.execute("ALTER ROLE tester RESET synchronous_commit")

    assert await database.rows() == [(1, "on")]


async def test_what_a_trigger_raises_rejects_its_record(database: Database) -> None:
    """It is a rule about the row."""
    await database.table("id int primary key, name text")
    await database.connection.execute(
        "CREATE OR REPLACE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS "
        "$$BEGIN IF NEW.id = 1 THEN RAISE 'no'; END IF; RETURN NEW; END$$;"
        "CREATE TRIGGER refuse BEFORE INSERT ON t FOR EACH ROW EXECUTE FUNCTION refuse()"
    )
    sink = await database.sink(**BY_ID)

    assert await sink.put([Record(value={"id": n}) for n in range(3)]) == [ACCEPT, REJECT, ACCEPT]


async def test_many_records_are_written_once_each(database: Database) -> None:
    """Twice the same batches, one row for each record."""
    await database.table('topic text, partition int, "offset" bigint, primary key (topic, partition, "offset")')
    sink = await database.sink(columns={name: name for name in ("topic", "partition", "offset")})

    for first in (0, 0, 500):
        assert await sink.put(records(1000, first=first)) is None

    assert await database.rows("SELECT count(*) FROM t") == [(1500,)]


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({}, "dsn: is missing; write where the database is"),
        ({"dsn": "localhost", "table": "t"}, "dsn: must be an address such as postgresql://"),
        ({"dsn": "postgresql://u:pa/ss@h/d", "table": "t"}, "dsn: a / or # of the password is written %2F or %23"),
        ({"dsn": "postgresql://u:pa#ss@h/d", "table": "t"}, "dsn: a / or # of the password is written %2F or %23"),
        ({"dsn": "postgresql://h/d", "table": "a.b.c"}, "table: must be NAME or SCHEMA.NAME"),
        (
            {"dsn": "postgresql://h/d", "table": "t", "tabel": 1},
            "tabel: there is no such setting; did you mean 'table'",
        ),
        ({"dsn": "postgresql://h/d", "table": "t", "timeout": "1"}, "timeout: must be a number above 0"),
        ({"dsn": "postgresql://h/d", "table": "t", "on_conflict": "die"}, "on_conflict: choose one of update, ignore"),
        ({"dsn": "postgresql://h/d", "table": "t", "columns": {"a": "valeu"}}, "columns.a: must be one of topic,"),
        ({"dsn": "postgresql://h/d", "table": "t", "columns": {"a": "value.a"}}, "key_columns: is missing, and no"),
        ({"dsn": "postgresql://h/d", "table": "t", "columns": {}}, "columns: is empty"),
        ({"dsn": "postgresql://h/d", "table": "t", "key_columns": ["id"]}, "key_columns: 'id' is none of the columns"),
    ],
)
def test_wrong_settings_are_told_by_key(settings: dict[str, Any], said: str) -> None:
    """Each with what to write instead."""
    with pytest.raises(SettingsError, match=said.replace("(", r"\(")):
        PostgresqlSink.check(settings)


async def test_a_password_is_never_shown() -> None:
    """Not when the server is away either."""
    sink = PostgresqlSink()
    config = {"dsn": "postgresql://me:secret@127.0.0.1:1/d", "table": "t"}

    with pytest.raises(DrainError, match=r"PostgreSQL at 127\.0\.0\.1/d, table 't' cannot be reached") as raised:
        await sink.start(Context(config=config))
    await sink.stop()

    assert "secret" not in str(raised.value)

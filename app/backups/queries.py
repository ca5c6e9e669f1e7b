"""What a database holds, and its rows by COPY.

The tables are those of the database, not those that this version's code knows: no backup forgets a table, and an
earlier schema is read as it is.

Small numbers stand in place of a cluster's transaction numbers. Another cluster counts transactions anew. There a row's
`recorded_in` could lie in the future, and would be new to every vote set. What matters of a transaction is only which
vote sets saw it. A vote set `xmin:xmax:xip` draws lines on the axis of transactions: at xmin, at xmax, and on both
sides of each transaction in xip. All transactions between two lines are seen by the same sets. So a transaction is
numbered by the lines at or below it, and a vote set by those of its own parts. Every vote set then sees exactly the
rows that it saw before, and the numbers are few and small.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from psycopg import sql
from sqlalchemy import Connection, inspect, text

from app.database.engine import driver_of

VERSION_TABLE = "alembic_version"

_TABLES = text(
    """
    SELECT c.relname AS name, a.attname AS column, format_type(a.atttypid, NULL) AS type
    FROM pg_class AS c JOIN pg_attribute AS a ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped
    WHERE c.relnamespace = current_schema()::regnamespace AND c.relkind = 'r' AND a.attgenerated = ''
    ORDER BY c.relname, a.attnum
    """
)
_SEQUENCES = text(
    """
    SELECT t.relname AS name, s.oid::regclass::text AS sequence, coalesce(pg_sequence_last_value(s.oid), 0) AS last
    FROM pg_depend AS d JOIN pg_class AS s ON s.oid = d.objid AND s.relkind = 'S'
        JOIN pg_class AS t ON t.oid = d.refobjid
    WHERE d.deptype = 'i' AND t.relnamespace = current_schema()::regnamespace ORDER BY 1
    """
)
# Indexes that only make reading fast, or hold a rule that the rows keep already: rows load faster without them.
_INDEXES = text(
    """
    SELECT i.indexrelid::regclass::text AS name, pg_get_indexdef(i.indexrelid) AS definition
    FROM pg_index AS i JOIN pg_class AS c ON c.oid = i.indrelid
    WHERE c.relnamespace = current_schema()::regnamespace AND c.relkind = 'r'
        AND NOT EXISTS (SELECT FROM pg_constraint AS k WHERE k.conindid = i.indexrelid)
    ORDER BY 1
    """
)


@dataclass(frozen=True)
class StoredTable:
    """A table of the database: column → type."""

    name: str
    columns: dict[str, str]


def list_tables(conn: Connection) -> list[StoredTable]:
    """Return all tables but that of the schema's revision, each after those that its foreign keys name."""
    tables: dict[str, dict[str, str]] = {}
    for row in conn.execute(_TABLES):
        tables.setdefault(row.name, {})[row.column] = row.type
    in_order = (name for name, _ in inspect(conn).get_sorted_table_and_fkc_names())
    return [StoredTable(name, tables[name]) for name in in_order if name and name != VERSION_TABLE]


def last_numbers(conn: Connection) -> dict[str, int]:
    """Return, by table, the last number that its sequence gave; 0 for none."""
    return {row.name: row.last for row in conn.execute(_SEQUENCES)}


def set_last_numbers(conn: Connection, last: dict[str, int]) -> None:
    """Let every sequence go on after the last number that it gave."""
    for row in conn.execute(_SEQUENCES).all():
        number = last.get(row.name, 0)
        conn.execute(
            text("SELECT setval(CAST(:sequence AS regclass), :number, :given)"),
            {"sequence": row.sequence, "number": max(number, 1), "given": number > 0},
        )


def read_vote_sets(conn: Connection, tables: Iterable[StoredTable]) -> list[str]:
    """Return every vote set on record."""
    stored = [
        f"SELECT {expression} FROM {name} WHERE {expression} IS NOT NULL"  # noqa: S608  the two below
        for name, expression in (("snapshots", "vote_set"), ("exports", "options ->> 'vote_set'"))
        if any(table.name == name for table in tables)
    ]
    return [row[0] for row in conn.execute(text(" UNION ".join(stored)))] if stored else []


def copy_out(conn: Connection, table: StoredTable, lines: list[int]) -> Iterator[bytes | bytearray | memoryview]:
    """Yield a table's rows, one a line, with numbers in place of transactions."""
    literal = f"'{{{','.join(map(str, lines))}}}'::xid8[]"
    columns = ", ".join(_portable(table.name, name, kind, literal) for name, kind in table.columns.items())
    statement = f"COPY (SELECT {columns} FROM {_quoted(table.name)}) TO STDOUT"  # noqa: S608  names of the catalogue
    with driver_of(conn).cursor() as cursor, cursor.copy(statement.encode()) as copy:
        yield from copy


def copy_in(conn: Connection, name: str, columns: list[str], pieces: Iterable[bytes]) -> int:
    """Add the rows to a table and return their number."""
    listed = ", ".join(map(_quoted, columns))
    with driver_of(conn).cursor() as cursor:
        with cursor.copy(f"COPY {_quoted(name)} ({listed}) FROM STDIN".encode()) as copy:
            for piece in pieces:
                copy.write(piece)
        return cursor.rowcount


def drop_indexes(conn: Connection) -> list[str]:
    """Drop the indexes that rows load faster without, and return the statements that make them again."""
    found = conn.execute(_INDEXES).all()
    for row in found:
        conn.execute(text(f"DROP INDEX {row.name}"))
    return [row.definition for row in found]


def make_indexes(conn: Connection, definitions: Iterable[str]) -> None:
    """Make indexes again."""
    for definition in definitions:
        conn.exec_driver_sql(definition)


def analyse(conn: Connection) -> None:
    """Let the planner know what the tables hold."""
    conn.execute(text("ANALYZE"))


def empty_tables(conn: Connection) -> None:
    """Delete what the migrations themselves have written."""
    for table in reversed(list_tables(conn)):
        conn.execute(text(f"DELETE FROM {_quoted(table.name)}"))  # noqa: S608  a name of the catalogue


def holds_rows(conn: Connection, name: str, condition: str = "TRUE") -> bool:
    """Whether a table has a row on which the condition holds."""
    found = conn.execute(text(f"SELECT EXISTS (SELECT FROM {_quoted(name)} WHERE {condition})"))  # noqa: S608  as above
    return bool(found.scalar_one())


def settle_formats(conn: Connection) -> None:
    """Let values be written and read the same way whatever the server's defaults are, and indexes be made quickly."""
    for name, value in (
        ("DateStyle", "ISO"),
        ("TimeZone", "UTC"),
        ("bytea_output", "hex"),
        ("extra_float_digits", "1"),
        ("maintenance_work_mem", "128MB"),
    ):
        conn.execute(text("SELECT set_config(:name, :value, true)"), {"name": name, "value": value})


def oldest_transaction(conn: Connection) -> int:
    """Return the number below which this cluster has no transaction that still runs."""
    return int(conn.execute(text("SELECT pg_snapshot_xmin(pg_current_snapshot())::text")).scalar_one())


def use_up_transactions(conn: Connection, number: int) -> None:
    """Use up so many transaction numbers; `conn` commits each statement by itself."""
    conn.execute(
        text(
            f"""
            DO $$ BEGIN
                FOR i IN 1..{int(number)} LOOP PERFORM pg_current_xact_id(); COMMIT; END LOOP;
            END $$
            """
        )
    )


def _portable(table: str, column: str, kind: str, lines: str) -> str:
    """Return the column in SQL, in words that mean the same in every cluster; `lines` as in `_numbered`."""
    name = _quoted(column)
    if kind == "xid8":
        return _numbered(name, lines)
    if (table, column) == ("snapshots", "vote_set"):
        return _renamed(f"{name}::pg_snapshot", lines)
    if (table, column) == ("exports", "options"):
        new = _renamed(f"({name} ->> 'vote_set')::pg_snapshot", lines)
        return f"CASE WHEN {name} ? 'vote_set' THEN jsonb_set({name}, '{{vote_set}}', to_jsonb({new})) ELSE {name} END"
    return name


def _quoted(name: str) -> str:
    return sql.Identifier(name).as_string()


FIRST = 3
"""PostgreSQL's first ordinary transaction number: 0 to 2 have meanings of their own."""


def dividing_lines(vote_sets: Iterable[str]) -> list[int]:
    """Return the lines of these vote sets (`pg_snapshot` text), in order.

    >>> dividing_lines(["10:12:10", "15:15:"])
    [10, 11, 12, 15]
    """
    lines: set[int] = set()
    for vote_set in set(vote_sets):
        first, end, running = vote_set.split(":")
        lines |= {int(first), int(end)}
        for transaction in filter(None, running.split(",")):
            lines |= {int(transaction), int(transaction) + 1}
    return sorted(lines)


def highest_number(lines: list[int]) -> int:
    """Return the highest number that a transaction gets. The vote sets of a new cluster must lie above it."""
    return FIRST + len(lines)


def _numbered(transaction: str, lines: str) -> str:
    """Return in SQL the number of a transaction, as text; `lines` is an expression of type xid8[]."""
    return f"({FIRST} + width_bucket({transaction}, {lines}))::text"


def _renamed(vote_set: str, lines: str) -> str:
    """Return in SQL a vote set in the new numbers; `vote_set` is an expression of type pg_snapshot."""
    first, end = (_numbered(f"pg_snapshot_{part}({vote_set})", lines) for part in ("xmin", "xmax"))
    number = _numbered("x", lines)
    running = f"SELECT string_agg({number}, ',' ORDER BY x) FROM pg_snapshot_xip({vote_set}) AS x"  # noqa: S608  columns
    return f"({first} || ':' || {end} || ':' || coalesce(({running}), ''))"

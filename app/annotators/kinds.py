"""Who is a person and who a judge, an LLM: said by a vote, a file or an admin. Others count as people."""

from collections.abc import Mapping
from typing import Literal

from sqlalchemy import Connection, select, text

from app.database.tables import annotators

Kind = Literal["human", "judge"]

_SAY = text(
    """
    UPDATE annotators AS a SET kind = said.kind
    FROM unnest(CAST(:ids AS integer[]), CAST(:kinds AS text[])) AS said (id, kind)
    WHERE a.id = said.id AND a.kind IS NULL
    """
)


def record_kinds(conn: Connection, said: Mapping[int, Kind]) -> dict[int, Kind]:
    """Note the kinds of annotators whose kind was not said before; return those that were said to be of another kind.

    `said`: kind by the annotator's number.
    """
    known = _read(conn, said)
    if new := sorted(said.keys() - known.keys()):  # in order: writers wait for each other instead of deadlocking
        conn.execute(_SAY, {"ids": new, "kinds": [said[number] for number in new]})
        known = _read(conn, said)
    return {number: kind for number, kind in known.items() if kind != said[number]}


def _read(conn: Connection, numbers: Mapping[int, object]) -> dict[int, Kind]:
    c = annotators.c
    return dict(conn.execute(select(c.id, c.kind).where(c.id.in_(numbers), c.kind.is_not(None))).all())


def read_judges(conn: Connection) -> list[int]:
    """Return the numbers of the judges, in order."""
    c = annotators.c
    return list(conn.execute(select(c.id).where(c.kind == "judge").order_by(c.id)).scalars())

"""Votes as arrays: PostgreSQL's binary copy, taken apart piece by piece as it arrives."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Any, cast

import numpy as np
import psycopg
from numpy.typing import NDArray
from sqlalchemy import Connection
from sqlalchemy.exc import OperationalError

Message = bytes | bytearray | memoryview

NO_DAY = np.iinfo(np.int32).max
"""The day of a vote of which nobody knows when it was cast."""

_COPY_VOTES = """
COPY (
    SELECT v.annotator_id, v.model_a_id, v.model_b_id, v.outcome {dates}
    FROM votes AS v
    WHERE NOT EXISTS (SELECT FROM retracted_votes AS r WHERE r.vote_id = v.id {and_retraction_named}) {and_vote_named}
) TO STDOUT (FORMAT BINARY)
"""
# A live vote's own date is its client's word; an imported one's arrival says nothing about when it was cast.
_DATES = """
    , CASE WHEN v.import_id IS NULL THEN v.received_at ELSE coalesce(v.voted_at, 'infinity') END, v.id
"""
_NAMED = "AND pg_visible_in_snapshot({table}.recorded_in, CAST(%(vote_set)s AS pg_snapshot))"

# PostgreSQL's binary copy: a header, then for each row the number of fields and for each field its length and
# value, everything big-endian. None of the columns can be null, so every row is equally long.
_HEADER = 19
_TRAILER = b"\xff\xff"
_COLUMNS = (("annotator_id", ">i4"), ("model_a_id", ">i4"), ("model_b_id", ">i4"), ("outcome", ">i2"))
_DATE_COLUMNS = (("moment", ">i8"), ("id", [("high", ">u8"), ("low", ">u8")]))
_MESSAGES = 50_000  # that are taken apart at once: a row each, so that a piece is a few megabytes
_DAY = 86_400_000_000  # microseconds, PostgreSQL's unit of time
_INFINITY = np.iinfo(np.int64).max


@dataclass(frozen=True)
class VoteDates:
    """When votes were cast, as far as that can be believed, and their order.

    Attributes
    ----------
    day : int32 array, shape (n_votes,); days (UTC) since 2000-01-01, `NO_DAY` where not known
    id_high, id_low : uint64 arrays, shape (n_votes,); the votes' ids, which grow in the order of recording
    """

    day: NDArray[np.int32]
    id_high: NDArray[np.uint64]
    id_low: NDArray[np.uint64]


@dataclass(frozen=True)
class VoteArrays:
    """The votes of a set that are not retracted, in no particular order.

    Attributes
    ----------
    annotator_id, model_a_id, model_b_id : int32 arrays, shape (n_votes,)
    outcome : int16 array, shape (n_votes,), as stored
    dates : None unless they were asked for
    """

    annotator_id: NDArray[np.int32]
    model_a_id: NDArray[np.int32]
    model_b_id: NDArray[np.int32]
    outcome: NDArray[np.int16]
    dates: VoteDates | None = None


def read_votes(conn: Connection, *, dated: bool = False, vote_set: str | None = None) -> VoteArrays:
    """Read the votes that `conn` sees, those retracted left out, at about the speed of the wire.

    Parameters
    ----------
    conn : in a REPEATABLE READ transaction, so that votes and retractions are of one moment
    dated : read the dates too, which doubles what is sent
    vote_set : what `read_vote_set` said at some time; then exactly the votes of that time are read, without the
        retractions of that time and with those that were retracted later
    """
    named = {"and_retraction_named": "", "and_vote_named": ""}
    if vote_set is not None:
        named = {"and_retraction_named": _NAMED.format(table="r"), "and_vote_named": _NAMED.format(table="v")}
    statement = _COPY_VOTES.format(dates=_DATES if dated else "", **named)
    driver = cast("psycopg.Connection", conn.connection.driver_connection)
    try:
        with driver.cursor() as cursor, cursor.copy(statement, vote_set and {"vote_set": vote_set}) as copy:
            return parse_copied_votes(copy, dated=dated)
    except psycopg.OperationalError as error:
        # As SQLAlchemy would have said it, so that a lost server is told apart from a wrong statement.
        raise OperationalError(statement, None, error, connection_invalidated=driver.closed) from error


def parse_copied_votes(messages: Iterable[Message], *, dated: bool = False) -> VoteArrays:
    """Take apart what `COPY … (FORMAT BINARY)` sends, holding no more of it than a few megabytes at a time.

    Raises
    ------
    ValueError
        The bytes are not rows of non-null columns of the expected widths.
    """
    columns = _COLUMNS + _DATE_COLUMNS if dated else _COLUMNS
    pieces = [_columns(rows, dated=dated) for rows in _rows(iter(messages), columns)]
    annotator, model_a, model_b, outcome, *dates = (np.concatenate(column) for column in zip(*pieces, strict=True))
    return VoteArrays(annotator, model_a, model_b, outcome, VoteDates(*dates) if dated else None)


def _rows(messages: Iterator[Message], columns: tuple[tuple[str, Any], ...]) -> Iterator[NDArray[Any]]:
    """Yield the rows in pieces; how the bytes were cut into messages makes no difference."""
    row = _row_type(columns)
    held = bytearray()
    while len(held) < _HEADER and (message := next(messages, None)) is not None:
        held += message
    held = held[_HEADER:]
    more = True
    while more:
        before = len(held)
        for message in islice(messages, _MESSAGES):  # joining them at once takes twice as long: they are views
            held += message
        more = len(held) > before
        # The last bytes may be the trailer, which is shorter than a row.
        n_rows = max(0, len(held) - len(_TRAILER)) // row.itemsize
        yield _checked(np.frombuffer(held, row, n_rows), columns)
        held = held[n_rows * row.itemsize :]
    if held != _TRAILER:
        raise ValueError(f"the binary copy of votes is not made of whole rows of {row.itemsize} bytes")


def _row_type(columns: tuple[tuple[str, Any], ...]) -> np.dtype[Any]:
    fields: list[tuple[str, Any]] = [("fields", ">i2")]
    for name, kind in columns:
        fields += [(f"{name}_length", ">i4"), (name, kind)]
    return np.dtype(fields)


def _checked(rows: NDArray[Any], columns: tuple[tuple[str, Any], ...]) -> NDArray[Any]:
    expected = all(np.all(rows[f"{name}_length"] == np.dtype(kind).itemsize) for name, kind in columns)
    if not (expected and np.all(rows["fields"] == len(columns))):
        raise ValueError("the binary copy of votes has other columns than expected")
    return rows


def _columns(rows: NDArray[Any], *, dated: bool) -> list[NDArray[Any]]:
    """Return the columns in this machine's byte order, in the order of the dataclasses' fields."""
    columns = [rows[name].astype(np.dtype(kind).newbyteorder("=")) for name, kind in _COLUMNS]
    if dated:
        moment = rows["moment"].astype(np.int64)
        day = np.where(moment == _INFINITY, NO_DAY, moment // _DAY).astype(np.int32)
        columns += [day, rows["id"]["high"].astype(np.uint64), rows["id"]["low"].astype(np.uint64)]
    return columns

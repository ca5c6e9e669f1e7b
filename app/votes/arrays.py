"""Votes as numpy arrays, read by PostgreSQL's binary COPY and parsed in pieces as they arrive."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any, cast

import numpy as np
import psycopg
from numpy.typing import NDArray
from psycopg.pq.abc import PGconn
from sqlalchemy import Connection

from app.models.contestants import AS_RECORDED, Contestants
from app.policy.schemas import MOST_TAGS
from app.snapshots.vote_sets import is_retracted_sql

Message = bytes | bytearray | memoryview

NO_DAY = np.iinfo(np.int32).max
"""The day of a vote whose date is not known."""

_COPY_VOTES = """
COPY (
    SELECT v.annotator_id, {model_a}, {model_b}, v.outcome {sealed} {tags} {dates}
    FROM votes AS v
    WHERE {conditions}
) TO STDOUT (FORMAT BINARY)
"""
# The date of a live vote is when it was received: its client could state any other. The date of an imported vote is the
# one in its file: when it was received says nothing about when it was cast.
_DATES = """
    , CASE WHEN v.import_id IS NULL THEN v.received_at ELSE coalesce(v.voted_at, 'infinity') END, v.id
"""
_SEALED = ", v.sealed_battle_id IS NOT NULL"
_TAGS = ", CASE WHEN cardinality(v.tags) = 0 THEN 0 ELSE {bits} END"
_TAG_BIT = "CASE WHEN %(tag_{bit})s = ANY (v.tags) THEN {worth} ELSE 0 END"
_NAMED = "pg_visible_in_snapshot(v.recorded_in, CAST(%(vote_set)s AS pg_snapshot))"

# PostgreSQL's binary COPY: a header, then for each row the number of fields, then for each field its length and its
# value, all big-endian. No column here can be null, so all rows are equally long.
_HEADER = 19
_TRAILER = b"\xff\xff"
_COLUMNS = (("annotator_id", ">i4"), ("model_a_id", ">i4"), ("model_b_id", ">i4"), ("outcome", ">i2"))
_SEALED_COLUMNS = (("sealed", "?"),)
_TAG_COLUMNS = (("tags", ">i4"),)
_DATE_COLUMNS = (("timestamp", ">i8"), ("id", [("high", ">u8"), ("low", ">u8")]))
_MESSAGES = 50_000  # parsed at once: a row each, so that a piece is a few megabytes
_DAY = 86_400_000_000  # microseconds, PostgreSQL's unit of time
_INFINITY = np.iinfo(np.int64).max


@dataclass(frozen=True)
class VoteDates:
    """When votes were cast, and the order in which they were recorded.

    Attributes
    ----------
    day : int32 array, shape (n_votes,); days (UTC) since 2000-01-01, `NO_DAY` if not known
    id_high, id_low : uint64 arrays, shape (n_votes,); the votes' ids, which grow in the order of recording
    """

    day: NDArray[np.int32]
    id_high: NDArray[np.uint64]
    id_low: NDArray[np.uint64]

    def take(self, picked: NDArray[np.bool_]) -> "VoteDates":
        """Return the dates of the votes that a mask of shape (n_votes,) picks."""
        return VoteDates(self.day[picked], self.id_high[picked], self.id_low[picked])


@dataclass(frozen=True)
class VoteArrays:
    """The votes of a set that are not retracted, in no particular order.

    Attributes
    ----------
    annotator_id, model_a_id, model_b_id : int32 arrays, shape (n_votes,)
    outcome : int16 array, shape (n_votes,), as stored
    sealed : bool array, shape (n_votes,); whether a battle's token cast the vote; None unless requested
    tags : int32 array, shape (n_votes,); bit i is set on votes with the i-th requested tag; None without tags
    dates : None unless requested
    """

    annotator_id: NDArray[np.int32]
    model_a_id: NDArray[np.int32]
    model_b_id: NDArray[np.int32]
    outcome: NDArray[np.int16]
    sealed: NDArray[np.bool_] | None = None
    tags: NDArray[np.int32] | None = None
    dates: VoteDates | None = None

    def take(self, picked: NDArray[np.bool_]) -> "VoteArrays":
        """Return the votes that a mask of shape (n_votes,) picks."""
        return VoteArrays(
            self.annotator_id[picked],
            self.model_a_id[picked],
            self.model_b_id[picked],
            self.outcome[picked],
            None if self.sealed is None else self.sealed[picked],
            None if self.tags is None else self.tags[picked],
            None if self.dates is None else self.dates.take(picked),
        )


def read_votes(
    conn: Connection,
    *,
    dated: bool = False,
    sealed: bool = False,
    tags: Sequence[str] = (),
    vote_set: str | None = None,
    any_retracted: bool = True,
    contestants: Contestants = AS_RECORDED,
) -> VoteArrays:
    """Read the votes that `conn` sees and that are not retracted.

    Parameters
    ----------
    conn : in a REPEATABLE READ transaction, so that votes and retractions are of the same time
    dated : read the dates too, which doubles the bytes that are sent
    sealed : read too which votes are sealed
    tags : read which of these tags the votes have; at most `MOST_TAGS`
    vote_set : an earlier result of `read_vote_set`. Then the votes of that time are read: votes that were retracted
        later are included
    any_retracted : False where no vote of the set is retracted: looking each up takes as long as sending it
    contestants : for which models the votes count. Both models of a vote may then be one
    """
    if len(tags) > MOST_TAGS:
        raise ValueError(f"at most {MOST_TAGS} tags can be read, not {len(tags)}")
    values = {f"tag_{bit}": tag for bit, tag in enumerate(tags)}
    conditions = "TRUE"
    if vote_set is not None:
        conditions = _NAMED
        values["vote_set"] = vote_set
    if any_retracted:
        conditions += f" AND NOT ({is_retracted_sql('v.id', vote_set)})"
    bits = " + ".join(_TAG_BIT.format(bit=bit, worth=1 << bit) for bit in range(len(tags)))
    tagged = _TAGS.format(bits=bits) if tags else ""
    model_a, model_b = contestants.sides_sql("v")
    statement = _COPY_VOTES.format(
        model_a=model_a, model_b=model_b,
        sealed=_SEALED if sealed else "", tags=tagged, dates=_DATES if dated else "", conditions=conditions,
    )  # fmt: skip
    driver = cast("psycopg.Connection", conn.connection.driver_connection)
    with driver.cursor() as cursor, cursor.copy(statement, values or None) as copy:
        return parse_copied_votes(_received(copy, driver.pgconn), sealed=sealed, tagged=bool(tags), dated=dated)


def _received(copy: psycopg.Copy, pgconn: PGconn) -> Iterator[Message]:
    """Yield the messages of a copy, each a row, and the trailer.

    The driver waits for a message, and ends the copy. What has arrived with it is asked for without the driver's
    machinery for waiting, which takes longer for a row than everything else.
    """
    while message := copy.read():
        yield message
        while message[-2:] != _TRAILER:  # or of a row that looks like it: then the driver is asked in vain
            length, message = pgconn.get_copy_data(1)
            if length <= 0:
                break
            yield message


def parse_copied_votes(
    messages: Iterable[Message], *, sealed: bool = False, tagged: bool = False, dated: bool = False
) -> VoteArrays:
    """Parse the bytes of `COPY … (FORMAT BINARY)`, a few megabytes at a time.

    Raises
    ------
    ValueError
        The bytes are not rows of non-null columns of the expected widths.
    """
    optional = (_SEALED_COLUMNS if sealed else ()) + (_TAG_COLUMNS if tagged else ())
    columns = _COLUMNS + optional + (_DATE_COLUMNS if dated else ())
    pieces = [_columns(rows, _COLUMNS + optional, dated=dated) for rows in _rows(iter(messages), columns)]
    annotator, model_a, model_b, outcome, *rest = (np.concatenate(column) for column in zip(*pieces, strict=True))
    is_sealed, tags = rest.pop(0) if sealed else None, rest.pop(0) if tagged else None
    return VoteArrays(annotator, model_a, model_b, outcome, is_sealed, tags, VoteDates(*rest) if dated else None)


def _rows(messages: Iterator[Message], columns: tuple[tuple[str, Any], ...]) -> Iterator[NDArray[Any]]:
    """Yield the rows in pieces. A message may end anywhere in a row."""
    row = _row_type(columns)
    held = bytearray()
    while len(held) < _HEADER and (message := next(messages, None)) is not None:
        held += message
    held = held[_HEADER:]
    more = True
    while more:
        before = len(held)
        for message in islice(messages, _MESSAGES):  # one join takes twice as long: the messages are views
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


def _columns(rows: NDArray[Any], plain: tuple[tuple[str, Any], ...], *, dated: bool) -> list[NDArray[Any]]:
    """Return the columns in this machine's byte order, in the order of the dataclasses' fields."""
    columns = [rows[name].astype(np.dtype(kind).newbyteorder("=")) for name, kind in plain]
    if dated:
        timestamp = rows["timestamp"].astype(np.int64)
        day = np.where(timestamp == _INFINITY, NO_DAY, timestamp // _DAY).astype(np.int32)
        columns += [day, rows["id"]["high"].astype(np.uint64), rows["id"]["low"].astype(np.uint64)]
    return columns

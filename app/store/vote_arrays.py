from dataclasses import dataclass
from typing import cast

import numpy as np
import psycopg
from numpy.typing import NDArray
from sqlalchemy import Connection
from sqlalchemy.exc import OperationalError

_COPY_VOTES = """
COPY (SELECT annotator_id, model_a_id, model_b_id, outcome FROM votes) TO STDOUT (FORMAT BINARY)
"""
# PostgreSQL's binary copy: a header, then for each row the number of fields and for each field its length and
# value, everything big-endian. None of the four columns can be null, so every row is equally long.
_HEADER = 19
_TRAILER = b"\xff\xff"
_ROW = np.dtype(
    [
        ("fields", ">i2"),
        ("annotator_length", ">i4"), ("annotator_id", ">i4"),
        ("model_a_length", ">i4"), ("model_a_id", ">i4"),
        ("model_b_length", ">i4"), ("model_b_id", ">i4"),
        ("outcome_length", ">i4"), ("outcome", ">i2"),
    ]
)  # fmt: skip


@dataclass(frozen=True)
class VoteArrays:
    """Every vote that one transaction saw, in no particular order.

    Attributes
    ----------
    annotator_id, model_a_id, model_b_id : int32 arrays, shape (n_votes,)
    outcome : int16 array, shape (n_votes,), as stored
    """

    annotator_id: NDArray[np.int32]
    model_a_id: NDArray[np.int32]
    model_b_id: NDArray[np.int32]
    outcome: NDArray[np.int16]


def read_votes(conn: Connection) -> VoteArrays:
    """Read all votes at about the speed of the wire; row by row this would be the slowest part of a refit."""
    driver = cast("psycopg.Connection", conn.connection.driver_connection)
    try:
        with driver.cursor() as cursor, cursor.copy(_COPY_VOTES) as copy:
            data = b"".join(copy)
    except psycopg.OperationalError as error:
        # As SQLAlchemy would have said it, so that a lost server is told apart from a wrong statement.
        raise OperationalError(_COPY_VOTES, None, error, connection_invalidated=driver.closed) from error
    return parse_copied_votes(data)


def parse_copied_votes(data: bytes) -> VoteArrays:
    """Take apart what `COPY … (FORMAT BINARY)` sent.

    Raises
    ------
    ValueError
        The bytes are not rows of four non-null columns of the expected widths.
    """
    body = len(data) - _HEADER - len(_TRAILER)
    if body < 0 or body % _ROW.itemsize or not data.endswith(_TRAILER):
        raise ValueError(f"{len(data)} bytes of binary copy are not whole rows of {_ROW.itemsize}")
    rows = np.frombuffer(data, _ROW, count=body // _ROW.itemsize, offset=_HEADER)
    if not (np.all(rows["fields"] == 4) and np.all(rows["outcome_length"] == 2)):  # noqa: PLR2004  as in _ROW
        raise ValueError("the binary copy of votes has other columns than expected")
    return VoteArrays(
        rows["annotator_id"].astype(np.int32),
        rows["model_a_id"].astype(np.int32),
        rows["model_b_id"].astype(np.int32),
        rows["outcome"].astype(np.int16),
    )

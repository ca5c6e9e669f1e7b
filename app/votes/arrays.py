"""Votes as numpy arrays. PostgreSQL joins them to a few long strings of bytes: one row each would take far longer."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise, product
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from sqlalchemy import Connection

from app.database.engine import driver_of
from app.database.parallel import Cursor, read_parts
from app.models.contestants import AS_RECORDED, Contestants
from app.policy.schemas import MOST_TAGS
from app.snapshots.vote_sets import is_retracted_sql

NO_DAY = np.iinfo(np.int32).max
"""The day of a vote whose date is not known."""

_JOIN_VOTES = """
SELECT count(*), string_agg({columns}, '')
FROM votes AS v {pairs}
WHERE v.ctid >= CAST(%(since)s AS tid) AND v.ctid < CAST(%(until)s AS tid) {conditions}
"""
# A ranking's row is its first pair, as every vote's is one pair. These are the others, in a statement of their own.
_RANKED = """(
    SELECT model::int4, place FROM jsonb_array_elements(v.ranking) WITH ORDINALITY AS g(members, place),
        jsonb_array_elements_text(members) AS model
)"""
_OTHER_PAIRS = f"""
CROSS JOIN LATERAL (
    SELECT a.model AS model_a_id, b.model AS model_b_id, v.voted_at, v.received_at,
        (CASE WHEN a.place = b.place THEN 2 WHEN a.place < b.place THEN 0 ELSE 1 END)::int2 AS outcome
    FROM {_RANKED} AS a JOIN {_RANKED} AS b ON a.model < b.model
    WHERE (a.model, b.model) <> (v.model_a_id, v.model_b_id)
) AS pair
"""  # noqa: S608  only this module's own words
_ANY_RANKING = "SELECT 1 FROM votes WHERE ranking IS NOT NULL ORDER BY id LIMIT 1"  # see `_ANY_CRITERION`
# What is read of a vote. PostgreSQL's functions whose names end in `send` return it big-endian and without gaps.
_COLUMNS: dict[str, tuple[str, str]] = {
    "annotator_id": ("int4send(v.annotator_id)", ">i4"),
    "model_a_id": ("int4send({model_a})", ">i4"),
    "model_b_id": ("int4send({model_b})", ">i4"),
    "outcome": ("int2send({row}.outcome)", ">i2"),
    "sealed": ("boolsend(v.sealed_battle_id IS NOT NULL)", "?"),
    "tags": ("int4send(CASE WHEN cardinality(v.tags) = 0 THEN 0 ELSE {bits} END)", ">i4"),
    "tag_hash": ("int8send(CASE WHEN cardinality(v.tags) = 0 THEN 0 ELSE hash_array_extended(v.tags, 0) END)", ">i8"),
    "measures": ("{measures}", ">f8"),
    "prompt": ("int8send(coalesce(v.prompt, 0))", ">i8"),
    "battle": (
        """int8send(coalesce(hashtextextended(coalesce(v.metadata ->> 'question', (
            SELECT string_agg(part, '/' ORDER BY part COLLATE "C")
            FROM string_to_table(coalesce(v.battle_id, v.criterion_battle_id), '/') AS part
        )), 0), 0))""",
        ">i8",
    ),
    # The date of a live vote is when it was received: its client could state any other. The date of an imported vote is
    # the one in its file: when it was received says nothing about when it was cast.
    "day": (
        "timestamptz_send(CASE WHEN v.import_id IS NULL THEN v.received_at ELSE coalesce(v.voted_at, 'infinity') END)",
        ">i8",
    ),
    "id_high": ("uuid_send(v.id)", ">u8"),
    "id_low": ("", ">u8"),  # the other half of what is sent for id_high
}
_ALWAYS = ("annotator_id", "model_a_id", "model_b_id", "outcome")
_DATES = ("day", "id_high", "id_low")
_TAG_BIT = "CASE WHEN %(tag_{bit})s = ANY (v.tags) THEN {worth} ELSE 0 END"
_MEASURE = "float8send(coalesce((v.features -> CAST(%({name})s AS text) ->> {side})::float8, 'NaN'))"
_NAMED = "pg_visible_in_snapshot(v.recorded_in, CAST(%(vote_set)s AS pg_snapshot))"
_FIRST_BLOCK = f"""
SELECT (min(v.ctid)::text::point)[0]::bigint FROM votes AS v
WHERE v.recorded_in >= pg_snapshot_xmin(CAST(%(vote_set)s AS pg_snapshot)) AND NOT {_NAMED}
"""  # noqa: S608  only this module's own words

_OVERALL = "AND v.criterion IS NULL"
# The order makes PostgreSQL take the partial index: without statistics it expects a row at once, and reads all votes.
_ANY_CRITERION = "SELECT 1 FROM votes WHERE criterion IS NOT NULL ORDER BY criterion LIMIT 1"
_CRITERIA = """
SELECT v.criterion FROM votes AS v WHERE v.criterion IS NOT NULL {conditions}
GROUP BY v.criterion ORDER BY count(*) DESC, v.criterion COLLATE "C" LIMIT %(most)s
"""
MOST_CRITERIA = 20
"""That have a leaderboard: those with the most votes."""

BLOCKS = 4096
"""Of the table, read by one statement: 32 MiB, with at most about 300,000 votes."""
_NO_BLOCK = 2**32 - 1  # a table's blocks have lower numbers
_DAY = 86_400_000_000  # microseconds, PostgreSQL's unit of time
_INFINITY = np.iinfo(np.int64).max


class VoteDates(NamedTuple):
    """When votes were cast, and the order in which they were recorded.

    Attributes
    ----------
    day : int32 array, shape (n_votes,); days (UTC) since 2000-01-01, `NO_DAY` if not known
    id_high, id_low : uint64 arrays, shape (n_votes,); the votes' ids, which grow in the order of recording. The pairs
        of a ranking share it
    """

    day: NDArray[np.int32]
    id_high: NDArray[np.uint64]
    id_low: NDArray[np.uint64]


@dataclass(frozen=True)
class VoteArrays:
    """The votes of a set that are not retracted, in no particular order. A ranking has a vote for each of its pairs.

    Attributes
    ----------
    annotator_id, model_a_id, model_b_id : int32 arrays, shape (n_votes,)
    outcome : int16 array, shape (n_votes,), as stored
    sealed : bool array, shape (n_votes,); whether a battle's token cast the vote; None unless requested
    tags : int32 array, shape (n_votes,); bit i is set on votes with the i-th requested tag; None without tags
    dates : None unless requested
    measures : float64 array, shape (n_votes, 2 n_features): of the answers of model_a and model_b by each requested
        feature, NaN where not given; None without features
    battle : int64 array, shape (n_votes,); a number of the question in the vote's metadata, or else of the battle,
        whatever the order of its id's parts between slashes, so that q1/x/y and q1/y/x, its copy with the sides
        exchanged, share it; 0 without either. None unless requested
    prompt : int64 array, shape (n_votes,); the key of what the models were asked, 0 where it is not known. None unless
        requested
    """

    annotator_id: NDArray[np.int32]
    model_a_id: NDArray[np.int32]
    model_b_id: NDArray[np.int32]
    outcome: NDArray[np.int16]
    sealed: NDArray[np.bool_] | None = None
    tags: NDArray[np.int32] | None = None
    dates: VoteDates | None = None
    measures: NDArray[np.float64] | None = None
    battle: NDArray[np.int64] | None = None
    prompt: NDArray[np.int64] | None = None

    def take(self, picked: NDArray[np.bool_]) -> "VoteArrays":
        """Return the votes that a mask of shape (n_votes,) picks."""

        def some(column: Any) -> Any:
            if isinstance(column, VoteDates):
                return VoteDates(column.day[picked], column.id_high[picked], column.id_low[picked])
            return None if column is None else column[picked]

        return VoteArrays(*map(some, vars(self).values()))


def read_votes(
    conn: Connection,
    *,
    dated: bool = False,
    sealed: bool = False,
    tags: Sequence[str] = (),
    vote_set: str | None = None,
    any_retracted: bool = True,
    contestants: Contestants = AS_RECORDED,
    criterion: str | None = None,
    features: Sequence[str] = (),
    battles: bool = False,
    prompts: bool = False,
) -> VoteArrays:
    """Read the votes by one criterion, None for overall, that `conn` sees and that are not retracted.

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
    features : read what both answers measure in these
    battles : read which battle each vote answers too
    prompts : read the keys of the prompts too
    """
    if len(tags) > MOST_TAGS:
        raise ValueError(f"at most {MOST_TAGS} tags can be read, not {len(tags)}")
    values = dict[str, str]()
    conditions = ""
    if criterion is not None:
        conditions, values["criterion"] = "AND v.criterion = %(criterion)s", criterion
    elif conn.exec_driver_sql(_ANY_CRITERION).first():  # looking at the last column of each row takes a fifth more
        conditions = _OVERALL
    if vote_set is not None:
        conditions += f" AND {_NAMED}"
        values["vote_set"] = vote_set
    if any_retracted:
        conditions += f" AND NOT ({is_retracted_sql('v.id', vote_set)})"
    wanted = {"sealed": sealed, "tags": tags, "measures": features, "battle": battles, "prompt": prompts}
    names = [*_ALWAYS, *(name for name, asked in wanted.items() if asked), *(_DATES if dated else ())]
    read = _read_columns(conn, contestants, names, conditions, values, tags=tags, features=features)
    dates = VoteDates(*(read.pop(name) for name in _DATES)) if dated else None
    return VoteArrays(**read, dates=dates)


def read_criteria(
    conn: Connection,
    *,
    dated: bool,
    vote_set: str | None = None,
    contestants: Contestants = AS_RECORDED,
    prompts: bool = False,
) -> dict[str, VoteArrays]:
    """Read the votes by each criterion but overall, as `read_votes` does; the one with the most votes first."""
    values, conditions = {"most": MOST_CRITERIA, "vote_set": vote_set}, "" if vote_set is None else f"AND {_NAMED}"
    names = conn.exec_driver_sql(_CRITERIA.format(conditions=conditions), values).scalars().all()
    return {
        name: read_votes(conn, dated=dated, vote_set=vote_set, contestants=contestants, criterion=name, prompts=prompts)
        for name in names
    }


def read_recorded(
    conn: Connection,
    contestants: Contestants,
    unseen_by: str | None,
    features: Sequence[str] = (),
    *,
    battles: bool = False,
) -> dict[str, NDArray[Any]]:
    """Read all columns of the votes that a vote set did not see, or of all; those by other criteria are not read.

    Retracted votes are among them.

    Returns
    -------
    The arrays of `VoteArrays` and `VoteDates` by name. In place of `tags` there is `tag_hash`, a number of the vote's
    tags, in the order in which it has them; 0 without tags.
    """
    since, values, conditions = 0, dict[str, str](), _OVERALL
    if unseen_by is not None:
        # By the table's blocks, not by the index of `recorded_in`: each part would go through it from the start.
        values["vote_set"], conditions = unseen_by, f"{_OVERALL} AND NOT {_NAMED}"
        with driver_of(conn).cursor() as cursor:
            found = cursor.execute(_FIRST_BLOCK, values, prepare=False).fetchone()
        since = _NO_BLOCK if found is None or found[0] is None else int(found[0])
    more = [name for name, asked in (("measures", features), ("battle", battles)) if asked]
    names = [*_ALWAYS, "sealed", "tag_hash", "prompt", *more, *_DATES]
    return _read_columns(conn, contestants, names, conditions, values, features=features, since=since)


def any_ranking(conn: Connection) -> bool:
    """Whether there is a ranking on record."""
    return conn.exec_driver_sql(_ANY_RANKING).first() is not None


def _read_columns(
    conn: Connection,
    contestants: Contestants,
    names: Sequence[str],
    conditions: str,
    values: Mapping[str, str],
    *,
    tags: Sequence[str] = (),
    features: Sequence[str] = (),
    since: int = 0,
) -> dict[str, NDArray[Any]]:
    """Return columns by name, of the votes in the table's blocks from `since` on, and of the other pairs of rankings.

    `tags`, `features`: what the columns of these names are about.
    """
    tag_of = {f"tag_{bit}": tag for bit, tag in enumerate(tags)}
    feature_of = {f"feature_{place}": feature for place, feature in enumerate(features)}
    about = {
        "bits": " + ".join(_TAG_BIT.format(bit=bit, worth=1 << bit) for bit in range(len(tags))),
        "measures": " || ".join(_MEASURE.format(name=name, side=side) for name in feature_of for side in (0, 1)),
    }
    joined = " || ".join(filter(None, (_COLUMNS[name][0] for name in names)))
    row = np.dtype([(name, _COLUMNS[name][1], (2 * len(features),) * (name == "measures")) for name in names])
    rows = [("v", "", conditions), ("pair", _OTHER_PAIRS, f"{conditions} AND v.ranking IS NOT NULL")]
    statements = []
    for source, pairs, condition in rows if any_ranking(conn) else rows[:1]:
        model_a, model_b = contestants.sides_sql(source)
        columns = joined.format(row=source, model_a=model_a, model_b=model_b, **about)
        statements.append(_JOIN_VOTES.format(columns=columns, pairs=pairs, conditions=condition))

    def read(cursor: Cursor, part: tuple[str, tuple[int, int]]) -> list[NDArray[Any]]:
        statement, (since, until) = part
        place = {"since": f"({since},0)", "until": f"({until},0)"}
        number, sent = cursor.execute(
            statement, {**values, **tag_of, **feature_of, **place}, prepare=False
        ).fetchone() or (0, None)
        votes = parse_joined_votes(sent or b"", row, number)
        return [_native(name, votes[name]) for name in names]

    pieces = read_parts(conn, [*product(statements, _blocks(conn, since))], read)
    return {name: np.concatenate(column) for name, column in zip(names, zip(*pieces, strict=True), strict=True)}


def _blocks(conn: Connection, first: int) -> list[tuple[int, int]]:
    """Return parts of the table as (first block, last + 1), from a block on."""
    blocks = conn.exec_driver_sql("SELECT pg_relation_size('votes') / current_setting('block_size')::int").scalar_one()
    # The last part has no end: the table could have been rewritten since the line before.
    return list(pairwise([*range(first, max(blocks, first + 1), BLOCKS), _NO_BLOCK]))


def parse_joined_votes(joined: bytes, row: np.dtype[Any], number: int) -> NDArray[Any]:
    """Return the rows in the bytes of a number of votes.

    Raises ValueError: there are more or fewer bytes: a column is wider than expected, or null, and PostgreSQL left out
    the vote.
    """
    if len(joined) != number * row.itemsize:
        raise ValueError(f"{number} votes have {len(joined)} bytes, not {row.itemsize} each")
    return np.frombuffer(joined, row)


def _native(name: str, column: NDArray[Any]) -> NDArray[Any]:
    """Return a column in this machine's byte order, times as days."""
    if name == "day":
        return np.where(column == _INFINITY, NO_DAY, column // _DAY).astype(np.int32)
    return column.astype(column.dtype.newbyteorder("="))

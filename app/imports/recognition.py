"""Recognises the votes of a file that are on record already, so that no vote counts twice by accident."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC
from uuid import UUID

import polars as pl
from sqlalchemy import Connection, RowMapping, true

from app.database.engine import Database
from app.errors import BadInputError
from app.imports import queries as store
from app.imports.formats.reading import VoteReader
from app.imports.matching import match_votes, vote_keys, what_votes_say
from app.imports.names import check_models, number_known_annotators
from app.votes.content import votes_by_id, votes_that_say
from app.votes.queries import any_vote

SAMPLED = 16
"""Of a large file one in so many different votes is compared first."""

LEAST_SAMPLED, LEAST_CELLS = 5_000, 200
"""The fewest votes, and the fewest different ones, that speak for the whole file."""

SUSPECT = 0.5
"""All votes are compared if the sample has this part of what it takes to refuse the file."""

_ON_RECORD = pl.Schema({"number": pl.Int64(), "retracted": pl.Boolean(), "detail": pl.String()})
_FOUND = pl.Schema({"number": pl.Int64(), "import_id": pl.String()})

MOST_OF_A_FILE = 0.5
MOST_OF_AN_IMPORT = 0.9
LEAST_IMPORT = 20
"""A smaller import may be contained in another file by chance."""


class AlreadyRecordedError(BadInputError):
    """Most of a file, or of an earlier import, would count twice."""

    code = "already-recorded"
    title = "The votes are on record already"


@dataclass(frozen=True)
class Recognised:
    """The votes of a file that are on record already.

    Attributes
    ----------
    votes : number of votes in the file, without those recognised by their `vote_id`.
    by_id : votes whose `vote_id` is on record, or earlier in the file. Columns: `number`, of the vote in the file, from
        0; `retracted`, whether the vote on record is; `detail`, how the two differ, null where they agree.
    by_content : votes that say the same as one on record; columns as `by_id`.
    of_imports : how many of `by_content` are votes of each earlier import.
    """

    votes: int
    by_id: pl.DataFrame
    by_content: pl.DataFrame
    of_imports: Mapping[UUID, int]

    def left_out(self, *, new_rows_only: bool) -> pl.DataFrame:
        """Return the votes that are not recorded; columns as `by_id`."""
        return self.by_id.vstack(self.by_content) if new_rows_only else self.by_id


class Recogniser:
    """Compares the votes of a file with those on record, batch by batch; `finish` has the result.

    It keeps about 50 bytes for each vote. Votes of imports that were undone are not compared, nor those of the import
    itself.

    `import_id`: the import that goes on; None before it began.
    `content`: whether to compare what votes say, or their `vote_id` alone.
    `exact`: find every such vote, also where they are too few to refuse the file.
    """

    def __init__(
        self, database: Database, import_id: UUID | None = None, *, content: bool = True, exact: bool = False
    ) -> None:
        self._database = database
        self._compares_content = content
        self._exact = exact
        with database.read() as conn:
            self._any = any_vote(conn, true())
            self._without = [*store.undone_imports(conn), *([import_id] if import_id else [])]
        self._seen = 0
        self._annotators: dict[str, int | None] = {}
        self._ids: list[pl.DataFrame] = []
        self._known: list[pl.DataFrame] = [_ON_RECORD.to_frame()]
        self._content: list[pl.DataFrame] = []

    def add(self, conn: Connection, votes: pl.DataFrame) -> None:
        """Compare the next batch of the file by `vote_id`, and keep the content of the others; see `check_models`."""
        votes = number_votes_of_file(votes, self._seen)
        self._seen += votes.height
        named = pl.col("vote_id").is_not_null()
        self._ids.append(votes.filter(named).select("number", name=pl.col("vote_id").hash(seed=0)))
        if not self._any:
            return
        votes = number_known_annotators(conn, votes, self._annotators)
        if self._ids[-1].height:
            found = _compared(conn, votes.filter(named))
            self._known.append(found)
            votes = votes.join(found, on="number", how="anti", maintain_order="left")
        if not self._compares_content:
            return
        votes = votes.drop_nulls(["annotator_id", "model_a_id", "model_b_id"])
        has_battle = pl.col("battle_id").is_not_null().alias("has_battle")
        said = votes.select("number", "voted_at", has_battle, vote_keys().alias("key"), *what_votes_say())
        self._content.append(said.drop(name for name in ("criterion", "ranking") if not said[name].count()))

    def finish(self) -> Recognised:
        """Return what was recognised in the whole file."""
        ids = pl.concat(self._ids) if self._ids else pl.DataFrame(schema={"number": pl.Int64, "name": pl.UInt64})
        on_record = pl.concat(self._known)
        again = ids.filter(~pl.col("name").is_first_distinct()).join(on_record, on="number", how="anti")
        by_id = on_record.vstack(_agreeing(again["number"])).sort("number")
        found = self._find(by_id.select("number"), ids.select("name")) if self._content else _FOUND.to_frame()
        return Recognised(
            votes=self._seen - by_id.height,
            by_id=by_id,
            by_content=_agreeing(found["number"]).sort("number"),
            of_imports=_of_imports(found),
        )

    def _find(self, without: pl.DataFrame, named: pl.DataFrame) -> pl.DataFrame:
        """Return the votes of the file that say the same as one on record: `number`, `import_id`.

        Leaves out these votes of the file, and those on record that the file names by id: they are accounted for.
        """
        given = pl.concat(self._content, how="diagonal").join(without, on="number", how="anti", maintain_order="left")
        if not self._exact:
            sample = given.filter(pl.col("key") % SAMPLED == 0)
            if sample.height >= LEAST_SAMPLED and sample["key"].n_unique() >= LEAST_CELLS:
                found = self._match(sample, named)
                of_imports = {name: SAMPLED * count for name, count in _of_imports(found).items()}
                with self._database.read() as conn:
                    if not mostly_recorded(conn, found.height, sample.height, of_imports, share=SUSPECT):
                        return _FOUND.to_frame()
        return self._match(given, named)

    def _match(self, given: pl.DataFrame, named: pl.DataFrame) -> pl.DataFrame:
        with self._database.begin() as conn:
            said = given.unique("key").drop("number", "voted_at", "has_battle")
            of_no_battle = bool(given["has_battle"].all())  # two battles tell votes apart: see `match_votes`
            recorded = votes_that_say(conn, said, without_imports=self._without, of_no_battle=of_no_battle)
        name = pl.col("vote_id").hash(seed=0)
        recorded = recorded.join(named, left_on=name, right_on="name", how="anti") if named.height else recorded
        recorded = recorded.with_row_index("vote").with_columns(pl.col("vote").cast(pl.Int64))
        given = given.join(recorded, on="key", how="semi", maintain_order="left")
        return match_votes(given, recorded).join(recorded, on="vote").select("number", "import_id")


def _of_imports(found: pl.DataFrame) -> dict[UUID, int]:
    return {UUID(name): count for name, count in found["import_id"].drop_nulls().value_counts().iter_rows()}


def number_votes_of_file(votes: pl.DataFrame, first: int) -> pl.DataFrame:
    """Return the votes with their `number` in the file; a record may make several votes."""
    return votes.with_columns(number=pl.int_range(first, first + pl.len(), dtype=pl.Int64))


def recognise_again(
    database: Database,
    reader: VoteReader,
    import_id: UUID,
    *,
    new_rows_only: bool,
) -> pl.DataFrame:
    """Return the votes that an import which goes on leaves out, as `Recognised.left_out`."""
    recogniser = Recogniser(database, import_id, content=new_rows_only, exact=True)
    if new_rows_only or reader.names_votes:
        for batch in reader.batches(max_faults=0):
            with database.read() as conn:
                recogniser.add(conn, check_models(conn, batch.votes)[0])
    return recogniser.finish().left_out(new_rows_only=new_rows_only)


def _compared(conn: Connection, named: pl.DataFrame) -> pl.DataFrame:
    """Return the votes whose `vote_id` is on record; they differ if models or verdict do.

    Annotators are not compared: erasure gives them other keys.
    """
    there = votes_by_id(conn, named["vote_id"].to_list())
    if there.is_empty():
        return _ON_RECORD.to_frame()
    same = there.with_columns(key=vote_keys(annotator=False))
    here = named.with_columns(key=vote_keys(annotator=False))
    both = here.join(same, on="vote_id", suffix="_there")
    differ = (pl.col("key") != pl.col("key_there")) | pl.any_horizontal(pl.col("model_a_id", "model_b_id").is_null())
    said = pl.concat_str(pl.lit("the vote is on record with other models or another verdict: vote "), "vote_id")
    return both.select("number", "retracted", detail=pl.when(differ).then(said)).cast(_ON_RECORD)


def _agreeing(numbers: pl.Series) -> pl.DataFrame:
    return pl.DataFrame({"number": numbers}).with_columns(retracted=pl.lit(value=False), detail=pl.lit(None, pl.String))


def mostly_recorded(
    conn: Connection, repeated: int, votes: int, of_imports: Mapping[UUID, int], *, share: float = 1.0
) -> bool:
    """Whether so many repeated votes are most of a file, or contain most of an earlier import.

    `share` is the part of the limits that is enough, where the figures come from a sample.
    """
    if repeated > share * MOST_OF_A_FILE * votes:
        return True
    return any(
        of_imports[one["id"]] >= share * max(LEAST_IMPORT, MOST_OF_AN_IMPORT * one["counts"].get("created", 0))
        for one in store.read_imports(conn, list(of_imports))
    )


def refuse_recorded(database: Database, called: str, found: Recognised) -> None:
    """Refuse a file if most of it, or most of an earlier import, would count twice. Raises AlreadyRecordedError."""
    repeated = found.by_content.height
    with database.read() as conn:
        if not repeated or not mostly_recorded(conn, repeated, found.votes, found.of_imports):
            return
        earlier = store.read_imports(conn, list(found.of_imports))
    most = max(earlier, key=lambda one: found.of_imports[one["id"]], default=None)
    raise AlreadyRecordedError(
        f"{called}: {repeated:,} of its {found.votes:,} votes are on record already, with the same annotator, models, "
        f"verdict and time{_origin(most, found) if most else ''}. Record only the other {found.votes - repeated:,} "
        "(--new-rows-only; over HTTP new_rows_only=true), or all of them as further votes (--allow-repeats; "
        "allow_repeats=true)"
    )


def _origin(one: RowMapping, found: Recognised) -> str:
    imported = f"{one['created_at'].astimezone(UTC):%Y-%m-%d %H:%M} UTC"
    return f", {found.of_imports[one['id']]:,} of them from {one['file_name']} (imported {imported})"

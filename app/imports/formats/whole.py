"""Vote files as a whole, for `rate` and for notebooks."""

import json
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

import polars as pl

from app.errors import BadInputError
from app.imports.formats.errors import NoVotesError
from app.imports.formats.measures import read_measures
from app.imports.formats.options import ReadOptions
from app.imports.formats.reading import VoteReader
from app.imports.formats.report import FileReport
from app.rating.arrays import OUTCOME_VALUES, Floats
from app.votes.rules import OVERALL, pairs_of, stated_criterion

MAX_FAULTS = 1_000
_MOST_NAMED = 50


@dataclass(frozen=True, kw_only=True)
class VoteFile(FileReport):
    """The votes of a file, and the report on its other records.

    An annotator votes on a battle once by a criterion: of several such votes the first counts, as in the service.
    Where judges are compared all count, together as one.

    Attributes
    ----------
    path : the file.
    schema : name of its format.
    annotator_column : the column with the annotator; None for pooled votes.
    prompt_column : the column with what the models were asked; None without one.
    records : one row for each vote, a ranking or one on a pair, in file order: annotator, model_a, model_b (text),
        outcome (0 model_a, 1 model_b, 2 tie, 3 tie (bothbad)), battle_id, voted_at (UTC), tags (list of text),
        metadata (JSON text), criterion, prompt (`app.votes.prompts.prompt_key`), each of these six null where not
        given, weight, how many votes the row stands for (null: one), share, the probability of model_a in a soft
        verdict (null: the outcome says all), row, the record's number in the file from 0, and ranked_names.
    duplicates : votes left out because their annotator has an earlier vote on the battle, or because their `vote_id`
        was read before.
    options : how it was read. If `judged`, all votes on a battle are here, and frame has annotator_kind, question and
        cost, null where not given.
    """

    path: Path
    schema: str
    annotator_column: str | None
    prompt_column: str | None
    records: pl.DataFrame
    duplicates: int
    options: ReadOptions

    @cached_property
    def frame(self) -> pl.DataFrame:
        """The records, with a row for each pair of a ranking, and `of_ranking`, the number of these pairs or null."""
        if not self.records["ranked_names"].count():
            return self.records.with_columns(of_ranking=pl.lit(None, pl.UInt32))
        rankings = [[] if text is None else pairs_of(json.loads(text)) for text in self.records["ranked_names"]]
        names = ("model_a", "model_b", "outcome")
        columns = self.records.select(names).schema
        pairs = pl.Series("pair", [[dict(zip(names, pair, strict=True)) for pair in pairs] for pairs in rankings],
                          pl.List(pl.Struct(columns)))  # fmt: skip
        own = pl.concat_list(pl.struct(names))
        length = pl.col("pair").list.len()
        frame = self.records.with_columns(pairs).with_columns(of_ranking=pl.when(length > 0).then(length))
        frame = frame.with_columns(pair=pl.when(length > 0).then("pair").otherwise(own)).drop(names)
        frame = frame.explode("pair").unnest("pair")
        apart = pl.concat_str("battle_id", "model_a", "model_b", separator="/")
        ranked = pl.col("of_ranking").is_not_null()
        return frame.with_columns(battle_id=pl.when(ranked).then(apart).otherwise("battle_id"))

    def table(self, features: Sequence[str] = (), *, halves: bool = True) -> pl.DataFrame:
        """Return the votes as `read_table` takes them, with their times and the measures of these features.

        `halves`: two rows for each soft verdict; else one, of its outcome, as in `frame`.

        Raises
        ------
        BadInputError
            A measure of a vote is no number.
        """
        frame = _halves(self.frame) if halves else self.frame
        columns = {"winner": pl.Series(OUTCOME_VALUES[frame["outcome"].to_numpy()])}
        if frame["weight"].count():
            columns["weight"] = frame["weight"].cast(pl.Float64).fill_null(1.0)
        if frame["voted_at"].count():
            columns["timestamp"] = frame["voted_at"]
        if frame["propensity"].count():
            columns["propensity"] = frame["propensity"].cast(pl.Float64, strict=False)
        if frame["of_ranking"].count():
            columns["of_ranking"] = frame["of_ranking"].fill_null(1)
        if frame["prompt"].count():
            columns["prompt"] = frame["prompt"]
        if features or frame["share"].count():
            row = pl.concat_str(pl.lit("row "), "row")
            named = [pl.col(name) for name in ("cluster", "battle_id") if name in frame.columns]
            columns["cluster"] = frame.select(pl.coalesce(*named, row)).to_series()
        return frame.select("annotator", "model_a", "model_b", **columns, **read_measures(frame, features))

    def by_criterion(self, criterion: str) -> "VoteFile":
        """Return the votes by one criterion; raises NoVotesError: there are votes, and none of them is by it."""
        criterion = stated_criterion(criterion) or OVERALL
        options = replace(self.options, criterion=criterion)
        if criterion == OVERALL and not self.records["criterion"].count():
            return replace(self, options=options)
        said = self.records["criterion"].fill_null(OVERALL)
        chosen = self.records.filter(said == criterion)
        if chosen.is_empty() and not self.records.is_empty():
            criteria = ", ".join(said.unique().sort()[:_MOST_NAMED])
            raise NoVotesError(
                f"{self.path} has no vote by the criterion {criterion!r}; --criterion may name {criteria}"
            )
        return replace(self, records=chosen, options=options)

    def verdicts(self) -> Floats:
        """Return W of each vote of `frame`: of a soft verdict its probability."""
        whole = pl.Series(OUTCOME_VALUES[self.frame["outcome"].to_numpy()], dtype=pl.Float64)
        return self.frame["share"].zip_with(self.frame["share"].is_not_null(), whole).to_numpy()

    def with_first_votes(self, annotators: Collection[str]) -> "VoteFile":
        """Return the file with the first vote of each of these annotators on a battle, and on either order of sides."""
        votes = self.records
        sides = [pl.when(pl.col("ranked_names").is_null()).then(side).alias(side) for side in ("model_a", "model_b")]
        first = _is_first(votes, votes.select("battle_id", "annotator", "criterion", *sides))
        theirs = votes["annotator"].is_in(list(annotators)) & votes["battle_id"].is_not_null()
        return replace(self, records=votes.filter(first | ~theirs))

    def require_category(self, by: str) -> None:
        """Refuse the file if it has no column of categories with this name.

        Raises
        ------
        BadInputError
        """
        if by and "category" not in self.frame.columns:
            raise BadInputError(f"--by names no column: {by}")


def read_vote_file(
    path: Path, options: ReadOptions | None = None, *, progress: Callable[[float], None] | None = None
) -> VoteFile:
    """Read a whole file of votes, and keep the columns of a vote.

    `progress`: called with the share of the file that has been read, 0 to 1.
    Raises BadInputError: see `VoteReader`. Invalid records are listed in the result.
    """
    options = options or ReadOptions()
    reader = VoteReader(path, options)
    batches = list[pl.DataFrame]()
    report = reader.read(lambda batch: batches.append(batch.votes), max_faults=MAX_FAULTS, progress=progress)
    votes = pl.concat(batches)
    frame = _without_repeats(votes, judged=options.judged)
    duplicates = votes.height - frame.height
    file = VoteFile(
        **vars(report),
        path=path,
        schema=reader.form.schema.name,
        annotator_column=reader.form.annotator,
        prompt_column=reader.form.columns.get("asked"),
        records=frame,
        duplicates=duplicates,
        options=options,
    )
    return file.by_criterion(options.criterion) if options.criterion else file


def join_vote_files(files: Sequence[VoteFile]) -> VoteFile:
    """Return the votes of several files as those of one; the places in messages name their file."""
    first = files[0]
    if len(files) == 1:
        return first
    votes = pl.concat([file.records for file in files], how="diagonal")
    frame = _without_repeats(votes, judged=first.options.judged)
    faults = [replace(one, pointer=f"{file.path.name}, {one.pointer}") for file in files for one in file.faults]
    return replace(
        first,
        path=Path(", ".join(file.path.name for file in files)),
        schema=", ".join(dict.fromkeys(file.schema for file in files)),
        records=frame,
        rows_read=sum(file.rows_read for file in files),
        skipped=sum(file.skipped for file in files),
        rejected=sum(file.rejected for file in files),
        duplicates=sum(file.duplicates for file in files) + votes.height - frame.height,
        faults=faults[:MAX_FAULTS],
        notes=[f"{file.path.name}: {note}" for file in files for note in file.notes],
        unknown_words="".join(dict.fromkeys(file.unknown_words for file in files)),
    )


def _halves(frame: pl.DataFrame) -> pl.DataFrame:
    """Return the votes with two rows for each soft verdict: a win of either side, of its probability as weight."""
    if not frame["share"].count():
        return frame
    whole, share = pl.col("weight").fill_null(1.0), pl.col("share")
    sides = [
        frame.with_columns(outcome=pl.when(share.is_null()).then("outcome").otherwise(pl.lit(side, pl.Int8)),
                           weight=pl.when(share.is_null()).then(whole).otherwise(whole * part))
        for side, part in ((0, share), (1, 1.0 - share))
    ]  # fmt: skip
    numbered = [side.with_row_index("place") for side in sides]
    numbered[1] = numbered[1].filter(share.is_not_null())
    return pl.concat(numbered).sort("place", maintain_order=True).drop("place")


def _without_repeats(votes: pl.DataFrame, *, judged: bool) -> pl.DataFrame:
    key = votes.select("battle_id", "annotator", "criterion")
    if not judged and key["battle_id"].count():
        votes = votes.filter(key["battle_id"].is_null() | _is_first(votes, key))
    named = votes["vote_id"]
    return votes.filter(named.is_null() | named.is_first_distinct()) if named.count() else votes


def _is_first(votes: pl.DataFrame, key: pl.DataFrame) -> pl.Series:
    """Mark the votes of the first record with their key: the votes of one record are no repeats of each other."""
    if not (votes["row"].diff() == 0).any():
        return key.to_struct().is_first_distinct()
    return key.with_columns(votes["row"]).select(pl.col("row") == pl.col("row").first().over(key.columns)).to_series()

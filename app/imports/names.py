"""Replaces the names of models and annotators by their numbers, for a column of votes at a time."""

import json
from datetime import datetime
from itertools import pairwise
from typing import cast

import polars as pl
from sqlalchemy import Connection

from app.annotators.kinds import record_kinds
from app.naming.aliases import ModelNames, Named, read_names
from app.naming.service import find_annotators, naming_of, resolve_annotators, resolve_models
from app.votes.rules import model_errors, pairs_of, places_of

_NUMBERED = ("model_a_id", "model_b_id", "outcome", "ranking")

RecordFault = tuple[int, str]
"""A record's number and the error in its models, or in what its annotator is."""


def check_models(conn: Connection, votes: pl.DataFrame) -> tuple[pl.DataFrame, list[RecordFault]]:
    """Return the votes with the numbers of models, null for unknown ones; and the records that could not be stored now.

    Adds nothing.
    """
    names = read_names(conn, _names_in(votes))
    numbered = _with_models(votes, names)
    return numbered, _faulty(numbered, names, refuse=naming_of(conn).unknown_models == "refuse")


def number_votes(conn: Connection, votes: pl.DataFrame) -> tuple[pl.DataFrame, list[RecordFault]]:
    """Return the votes with `annotator_id`, `model_a_id`, `model_b_id` and `ranking` by number; adds new names.

    Votes on models that cannot be stored, and by annotators of another kind on record, are left out and returned as
    faults.
    """
    models = resolve_models(conn, _named_in(votes, read_names(conn, _names_in(votes))))
    votes = _with_models(votes, models)
    faults = _faulty(votes, models, refuse=True)
    if faults:
        votes = votes.filter(~pl.col("row").is_in([row for row, _ in faults]))
    annotators = resolve_annotators(conn, votes["annotator"].unique().to_list())
    number = pl.col("annotator").replace_strict(annotators, return_dtype=pl.Int32)
    votes = votes.with_columns(annotator_id=number)
    if of_other_kind := _list_other_kinds(conn, votes):
        votes = votes.filter(~pl.col("row").is_in([row for row, _ in of_other_kind]))
    return votes, [*faults, *of_other_kind]


def _list_other_kinds(conn: Connection, votes: pl.DataFrame) -> list[RecordFault]:
    """Note the kinds of annotators that votes say; return the records that say another kind than before."""
    said = votes.select("row", "annotator_id", "annotator_kind").drop_nulls()
    if said.is_empty():
        return []
    first = dict(said.unique("annotator_id", keep="first").select("annotator_id", "annotator_kind").iter_rows())
    kinds = first | record_kinds(conn, first)
    return [
        (row, f"annotator_kind the annotator is on record as {kinds[number]}")
        for row, number, kind in said.iter_rows()
        if kind != kinds[number]
    ]


def number_known_annotators(conn: Connection, votes: pl.DataFrame, known: dict[str, int | None]) -> pl.DataFrame:
    """Return the votes with the numbers of annotators, null for unknown ones; adds nothing.

    `known`: those looked up so far; new ones are added.
    """
    given = votes["annotator"].unique().to_list()
    if new := [name for name in given if name not in known]:
        known |= dict.fromkeys(new) | find_annotators(conn, new)
    numbers = {name: known[name] for name in given}
    return votes.with_columns(annotator_id=pl.col("annotator").replace_strict(numbers, return_dtype=pl.Int32))


def count_models(votes: pl.DataFrame) -> dict[str, int]:
    """Return the number of votes on each model, by its name in the file."""
    return dict(_mentions(votes)["name"].value_counts().iter_rows())


def _mentions(votes: pl.DataFrame) -> pl.DataFrame:
    """Return the names of models, those of each pair or else ranking, with the times of the votes."""
    is_pair = pl.col("ranked_names").is_null()
    pairs = votes.filter(is_pair)
    ranked = votes.filter(~is_pair).select(
        "voted_at", name=pl.col("ranked_names").str.json_decode(pl.List(pl.List(pl.String)))
    )
    sides = [pairs.select("voted_at", name=side) for side in ("model_a", "model_b")]
    return pl.concat([*sides, ranked.explode("name").explode("name")])


def _names_in(votes: pl.DataFrame) -> list[str]:
    return _mentions(votes)["name"].unique().to_list()


def _named_in(votes: pl.DataFrame, known: ModelNames) -> set[Named]:
    """Return the names in the votes, with the time of the vote where the name is an alias at some times."""
    aliased = _mentions(votes).filter(pl.col("name").is_in(list(known.aliases)))
    at_times: set[Named] = set(aliased.select("name", "voted_at").unique().iter_rows())
    return at_times | {(name, None) for name in _names_in(votes) if name not in known.aliases}


def _with_models(votes: pl.DataFrame, names: ModelNames) -> pl.DataFrame:
    votes = votes.with_columns(_numbers(votes, side, names) for side in ("model_a", "model_b"))
    votes = votes.with_columns(ranking=pl.lit(None, pl.String))
    ranked = votes["ranked_names"].is_not_null().arg_true()
    if ranked.is_empty():
        return votes
    rows = votes[ranked].select("ranked_names", "voted_at").iter_rows()
    found = pl.DataFrame([_numbered(names, *row) for row in rows], votes.select(_NUMBERED).schema, orient="row")
    return votes.with_columns(votes[name].scatter(ranked, found[name]) for name in _NUMBERED)


def _numbered(
    names: ModelNames, ranking: str, cast_at: datetime | None
) -> tuple[int | None, int | None, int, str | None]:
    """Return the first pair of a ranking and the ranking, by number.

    Without an unknown model's number the pair has none, and where two names mean one model, it is that model twice.
    """
    groups = [[names.number(name, cast_at) for name in group] for group in json.loads(ranking)]
    numbers = sorted(number for group in groups for number in group if number is not None)
    if twice := next((a for a, b in pairwise(numbers) if a == b), None):
        return twice, twice, 0, None
    if any(None in group for group in groups):
        return None, None, 0, None
    return *pairs_of(cast("list[list[int]]", groups))[0], json.dumps(groups)


def _numbers(votes: pl.DataFrame, side: str, names: ModelNames) -> pl.Series:
    numbers = votes[side].replace_strict(dict(names.own), default=None, return_dtype=pl.Int32).alias(f"{side}_id")
    if not names.aliases:
        return numbers
    aliased = votes[side].is_in(list(names.aliases)).arg_true()
    pairs: list[tuple[str, datetime | None]] = votes[aliased].select(side, "voted_at").rows()
    return numbers.scatter(aliased, [names.number(name, timestamp) for name, timestamp in pairs])


def _faulty(votes: pl.DataFrame, names: ModelNames, *, refuse: bool) -> list[RecordFault]:
    a, b = votes["model_a_id"], votes["model_b_id"]
    bad = (a == b).fill_null(value=False)
    if refuse:
        bad = bad | a.is_null() | b.is_null()
    faults = dict[int, str]()
    columns = ("row", "model_a", "model_b", "ranked_names", "voted_at")
    for row, model_a, model_b, ranked, timestamp in votes.filter(bad).select(columns).iter_rows():
        models = places_of(json.loads(ranked)) if ranked else {"/model_a": model_a, "/model_b": model_b}
        fault = model_errors(names, models, timestamp)[0]
        faults.setdefault(row, f"{fault.pointer[1:]} {fault.detail}")
    return list(faults.items())

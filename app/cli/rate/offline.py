"""A leaderboard from a vote file, without a database: votes in, the JSON document of `rate` out."""

import math
import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, fields
from functools import partial
from typing import Any

import numpy as np

from app.cli.rate.options import FitOptions
from app.errors import BadInputError
from app.imports.formats.joining import equal_row_warnings, look_alike_warnings
from app.imports.formats.whole import VoteFile
from app.rating.arrays import Floats
from app.rating.cluster import fitting_on_cluster
from app.rating.errors import RatingWarning, VotesError, counted
from app.rating.estimators.am_elo import AmElo, BradleyTerry
from app.rating.estimators.elo import Elo
from app.rating.estimators.tables import VoteTable, read_table
from app.rating.verdict.rows import annotator_rows, count, model_rows
from app.rating.verdict.style import lean_rows, style_rows
from app.rating.votes.cells import aggregate
from app.rating.votes.graph import spread_votes, summarise

_NOT_OF_ELO = ("min_ability", "min_probability", "flag_rule", "prior_sd", "influence_limit", "interval", "confidence")


def load_kernels() -> None:
    """Read the first compiled loops from the disk, and with them what numba needs for any."""
    none = np.zeros(0, dtype=np.int64)
    aggregate(none, none, none, np.zeros(0), n_annotators=0, n_models=0)


def rate_votes(
    file: VoteFile, options: FitOptions, *, every: VoteFile, read_seconds: float, stage: Callable[[str], None]
) -> dict[str, Any]:
    """Rate the votes of a file with the estimator of the method; its invalid records count as rejected.

    Returns what `rate --format json` prints. `style` has the leaderboard with style control: its models, the features,
    and the annotators' leans; `categories` the scores by the column of categories. Without them there is no such key.

    `every`: with --by criterion, the votes by all criteria.
    `read_seconds`: how long reading took, for the diagnostics.
    `stage`: called with the name of each stage at its start.
    Raises BadInputError: the file has no model with the anchor's name.
    Raises app.rating.errors.RatingError: no vote is left after min_votes, or they have no answer (see `run_round`).
    """
    started = time.perf_counter()
    stage("aggregating")
    if file.frame.is_empty():
        records = counted(file.rows_read, "record")
        raise VotesError(
            f"no vote is left: {file.path} has {records} and no valid vote{file.unknown_words}", "no-votes"
        )
    estimator: AmElo | BradleyTerry | Elo = _estimator(options)
    table = read_table(file.table(options.features), options.features, in_time=options.method == "elo")
    votes = table.votes
    if options.anchored is not None and options.anchored[0] not in votes.models:
        raise BadInputError(f"the file has no model {options.anchored[0]!r}, which --anchor names")
    by_annotator = votes.rankings_by_annotator()
    _require_voters(table.cells.votes_by_annotator() if by_annotator is None else by_annotator, options.min_votes)
    seconds = {"read": read_seconds, "aggregate": time.perf_counter() - started}
    started = time.perf_counter()
    stage("rating")
    with fitting_on_cluster(options.scheduler), warnings.catch_warnings():
        warnings.simplefilter("ignore", RatingWarning)  # the diagnostics have them
        estimator.fit(table)
        if isinstance(estimator, Elo):
            found = _by_order(estimator, started)
        else:
            found = _jointly(file, every, table, estimator, options)
    diagnostics = found["diagnostics"]
    number = np.bincount(np.concatenate([votes.model_a, votes.model_b]), minlength=len(votes.models))
    look_alikes = look_alike_warnings(dict(zip(votes.models, number.tolist(), strict=True)))
    diagnostics["seconds"] = {**seconds, **diagnostics["seconds"]}
    diagnostics["warnings"] = [*(notice.named(votes.models) for notice in diagnostics["warnings"]), *look_alikes]
    if not file.options.pool_annotators:  # whose votes are equal by nature
        diagnostics["warnings"] += equal_row_warnings(file.records)
    document = {
        "method": options.method,
        "settings": {
            **echo_fit(options),
            "pool_annotators": file.options.pool_annotators,
            "criterion": file.options.criterion,
            "schema": file.schema,
            "annotator_column": file.annotator_column,
            "prompt_column": file.prompt_column,
            **found.pop("settings"),
        },
        "votes": _counts(file, table, found.pop("used"), found["annotators"]),
        **found,
    }
    return {name: part for name, part in document.items() if part is not None}


def _estimator(options: FitOptions) -> Any:
    if options.method == "elo":
        return Elo(
            min_votes=options.min_votes, base=options.base, anchor=options.anchored, shuffles=options.shuffles,
            random_state=options.seed,
        )  # fmt: skip
    kind: type[Any] = AmElo if options.method == "am-elo" else BradleyTerry
    own = {"anchor": options.anchored, "inverse_propensity": options.inverse_propensity, "features": options.features}
    given = {one.name: own.get(one.name, getattr(options.loop, one.name, None)) for one in fields(kind)}
    return kind(**given)


def _require_voters(votes: Floats, min_votes: int) -> None:
    """Refuse a file in which no annotator has enough votes, and say what to type."""
    most = votes.max()
    if most <= min_votes:
        raise VotesError(
            f"no vote is left: no annotator has more than {min_votes} votes; the most that one of "
            f"{counted(len(votes), 'annotator')} has is {most:g}. δ is the number of votes that an annotator must "
            f"exceed to count: --min-votes {math.ceil(most) - 1} counts at least one annotator, --min-votes 0 all"
        )


def _jointly(
    file: VoteFile, every: VoteFile, table: VoteTable, fitted: AmElo | BradleyTerry, options: FitOptions
) -> dict[str, Any]:
    """Return the parts of the document that the method decides, with the votes used."""
    rating, style, categories = fitted.plain_ or fitted.result_, None, None
    if fitted.style_ is not None:
        style = {
            "features": style_rows(fitted.style_),
            "models": model_rows(fitted.result_, fitted.votes_.models),
            "annotators": lean_rows(fitted.style_, fitted.votes_.annotators, fitted.confidence),
        }
    if options.by:
        from app.cli.rate import categories as by  # noqa: PLC0415  imports what refits need

        again = partial(_estimator, options)
        if options.by_criterion:
            rated = by.rate_by_criterion(every, file.options.criterion, again, options.weights)
        else:
            rated = by.rate_by_category(file.frame["category"], table, rating, options, again)
        categories = {"by": options.by, **rated}
    diagnostics = {each.name: getattr(rating.diagnostics, each.name) for each in fields(rating.diagnostics)}
    return {
        "settings": {"interval": diagnostics.pop("interval")},
        "used": rating.votes_used,
        "models": model_rows(rating, fitted.votes_.models),
        "annotators": annotator_rows(rating, fitted.votes_.annotators),
        "diagnostics": diagnostics,
        "style": style,
        "categories": categories,
    }


def _by_order(fitted: Elo, started: float) -> dict[str, Any]:
    """Return the same of Elo, which has no abilities, prior or interval."""
    found = fitted.result_
    return {
        "settings": {**dict.fromkeys(_NOT_OF_ELO), "k": found.k},
        "used": found.votes_used,
        "models": found.models,
        "annotators": found.annotators,
        "diagnostics": {
            **dict.fromkeys(("log_likelihood", "iterations", "converged")),
            "components": found.components,
            "seconds": {"fit": time.perf_counter() - started, "intervals": 0.0},
            "warnings": found.warnings,
        },
    }


def echo_fit(options: FitOptions) -> dict[str, Any]:
    """Return the options of a fit as the document has them."""
    anchor = options.anchored and {"model": options.anchored[0], "score": options.anchored[1]}
    settings = asdict(options.loop)
    del settings["unranked"]  # of a file every model is ranked
    return {
        **settings,
        "method": options.method,
        "anchor": anchor,
        "shuffles": options.shuffles,
        "seed": options.seed,
        "inverse_propensity": options.inverse_propensity,
    }


def _counts(file: VoteFile, table: VoteTable, used: float, annotators: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Count records read, and pairs used, of which a ranking of n models has n(n-1)/2; and votes, a ranking as one.

    `used` and `per` count pairs; `votes_used`, `rankings` and `votes_per_annotator` votes.
    """
    left_out = {"rejected": file.rejected, "skipped": file.skipped, "duplicates": file.duplicates}
    per = {name: asdict(each) for name, each in spread_votes(table.cells).items()}
    by_annotator = table.votes.rankings_by_annotator()
    return {
        "read": file.rows_read,
        "used": count(used),
        **left_out,
        "per": per,
        "rankings": int(file.records["ranked_names"].count()),
        "votes_used": sum(row["votes"] for row in annotators if row["standing"] not in ("pending", "excluded")),
        "pairs_read": len(table.votes.outcome),
        "votes_per_annotator": per["annotator"] if by_annotator is None else asdict(summarise(by_annotator)),
    }

"""A leaderboard from a vote file, without a database: votes in, rows out."""

import math
import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from typing import Any

import numpy as np

from app.errors import BadInputError
from app.imports.formats.indexing import encode
from app.imports.formats.joining import look_alike_warnings
from app.imports.formats.measures import read_features
from app.imports.formats.whole import VoteFile
from app.rating.arrays import Floats
from app.rating.cluster import fitting_on_cluster
from app.rating.errors import RatingWarning, VotesError, counted
from app.rating.estimators.am_elo import AmElo, BradleyTerry
from app.rating.estimators.elo import Elo
from app.rating.estimators.tables import VoteTable
from app.rating.settings import LoopSettings
from app.rating.verdict.rows import annotator_rows, count, model_rows
from app.rating.verdict.style import lean_rows, style_rows
from app.rating.votes.spread import spread_votes, summarise


@dataclass(frozen=True)
class OfflineSettings:
    """How to rate a file.

    Attributes
    ----------
    method : "am-elo", "m-elo" or "elo", which depends on the order of votes and is averaged over shuffles.
    loop : all other settings; "elo" uses only min_votes and base, which is its start.
    anchor : (model, Elo points): the scores are shifted so that this model has this score. It replaces `loop.anchor`,
        which is an index.
    shuffles, seed : for "elo" alone.
    inverse_propensity : weigh each vote by the inverse of its propensity; not for "elo".
    scheduler : address of the Dask scheduler whose workers fit, for "am-elo"; None: this process fits.
    features : for a second leaderboard, with style control; for "am-elo".
    by : the column of the votes' categories; empty for none. Not for "elo".
    """

    method: str
    loop: LoopSettings
    anchor: tuple[str, float] | None = None
    shuffles: int = 1000
    seed: int = 0
    inverse_propensity: bool = False
    scheduler: str | None = None
    features: tuple[str, ...] = ()
    by: str = ""

    def __post_init__(self) -> None:
        """Refuse what the method does not have. Raises BadInputError."""
        method, interval = self.method, self.loop.interval
        if self.scheduler is not None and method != "am-elo":
            raise BadInputError(f"--scheduler is for am-elo; {method} needs one machine whatever the number of votes")
        if self.by and (method == "elo" or self.inverse_propensity):
            raise BadInputError("--by is for am-elo and m-elo, without --inverse-propensity")
        if self.inverse_propensity and method == "elo":
            raise BadInputError("--inverse-propensity is for am-elo and m-elo; elo has no weights")
        if self.inverse_propensity and interval not in ("clustered", "none"):
            raise BadInputError(f"--inverse-propensity needs --interval clustered or none, not {interval}")
        if self.features:
            if method != "am-elo" or self.loop.prior_sd is None or self.inverse_propensity:
                raise BadInputError("--style is for am-elo with a prior, without --inverse-propensity")
            if interval not in ("clustered", "none"):
                raise BadInputError(f"--style needs --interval clustered or none, not {interval}")

    def estimator(self) -> AmElo | BradleyTerry | Elo:
        """Return the estimator with these settings."""
        if self.method == "elo":
            return Elo(
                min_votes=self.loop.min_votes, base=self.loop.base, anchor=self.anchor, shuffles=self.shuffles,
                random_state=self.seed,
            )  # fmt: skip
        kind: type[Any] = AmElo if self.method == "am-elo" else BradleyTerry
        own: dict[str, Any] = {
            "anchor": self.anchor,
            "inverse_propensity": self.inverse_propensity,
            "features": self.features,
        }
        fitted: AmElo | BradleyTerry = kind(
            **{one.name: own.get(one.name, getattr(self.loop, one.name, None)) for one in fields(kind)}
        )
        return fitted


@dataclass(frozen=True)
class OfflineRating:
    """A leaderboard as plain rows, fields in the order in which `rate --format json` prints them.

    `style` has the leaderboard with style control: its models, the features, and the annotators' leans; `categories`
    the scores by the column of categories.
    """

    method: str
    settings: dict[str, Any]
    votes: dict[str, Any]
    models: Sequence[Mapping[str, Any]]
    annotators: Sequence[Mapping[str, Any]]
    diagnostics: dict[str, Any]
    style: dict[str, Any] | None = None
    categories: dict[str, Any] | None = None


def rate_votes(
    file: VoteFile, settings: OfflineSettings, *, read_seconds: float, stage: Callable[[str], None]
) -> OfflineRating:
    """Rate the votes of a file with the estimator of the method; its invalid records count as rejected.

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
    votes, estimator = encode(file.frame), settings.estimator()
    if settings.anchor is not None and settings.anchor[0] not in votes.models:
        raise BadInputError(f"the file has no model {settings.anchor[0]!r}, which --anchor names")
    table = VoteTable(votes, features=read_features(file.frame, settings.features))
    by_annotator = votes.rankings_by_annotator()
    _require_voters(table.cells.votes_by_annotator() if by_annotator is None else by_annotator, settings.loop.min_votes)
    aggregated = time.perf_counter()
    stage("rating")
    with fitting_on_cluster(settings.scheduler), warnings.catch_warnings():
        warnings.simplefilter("ignore", RatingWarning)  # the diagnostics have them
        estimator.fit(table)
        found = _by_order(estimator) if isinstance(estimator, Elo) else _jointly(file, estimator, settings)
    of_fit, used = found["diagnostics"]["seconds"], found.pop("used")
    seconds = {"read": read_seconds, "aggregate": aggregated - started, **of_fit}
    if isinstance(estimator, Elo):
        seconds |= {"fit": time.perf_counter() - aggregated, "intervals": 0.0}
    number = np.bincount(np.concatenate([votes.model_a, votes.model_b]), minlength=len(votes.models))
    look_alikes = look_alike_warnings(dict(zip(votes.models, number.tolist(), strict=True)))
    notices = [notice.named(votes.models) for notice in found["diagnostics"]["warnings"]]
    return OfflineRating(
        method=settings.method,
        **{
            **found,
            "settings": {**_echo(settings, file), **found["settings"]},
            "diagnostics": {**found["diagnostics"], "seconds": seconds, "warnings": [*notices, *look_alikes]},
        },
        votes=_counts(file, table, used, found["annotators"]),
    )


def _require_voters(votes: Floats, min_votes: int) -> None:
    """Refuse a file in which no annotator has enough votes, and say what to type."""
    most = votes.max()
    if most <= min_votes:
        raise VotesError(
            f"no vote is left: no annotator has more than {min_votes} votes; the most that one of "
            f"{counted(len(votes), 'annotator')} has is {most:g}. δ is the number of votes that an annotator must "
            f"exceed to count: --min-votes {math.ceil(most) - 1} counts at least one annotator, --min-votes 0 all"
        )


def _jointly(file: VoteFile, fitted: AmElo | BradleyTerry, settings: OfflineSettings) -> dict[str, Any]:
    """Return the parts of the report that the method decides, with the votes used."""
    rating, style, categories = fitted.plain_ or fitted.result_, None, None
    if isinstance(fitted, AmElo) and fitted.style_ is not None:
        style = {
            "features": style_rows(fitted.style_),
            "models": model_rows(fitted.result_, fitted.votes_.models),
            "annotators": lean_rows(fitted.style_, fitted.votes_.annotators, fitted.confidence),
        }
    if settings.by:
        from app.cli.rate.categories import rate_by_category  # noqa: PLC0415  imports what refits need

        categories = {"by": settings.by, **rate_by_category(file.frame["category"], fitted.votes_, rating)}
    diagnostics = {each.name: getattr(rating.diagnostics, each.name) for each in fields(rating.diagnostics)}
    return {
        "settings": {"interval": diagnostics.pop("interval")},
        "models": model_rows(rating, fitted.votes_.models),
        "annotators": annotator_rows(rating, fitted.votes_.annotators),
        "diagnostics": diagnostics,
        "style": style,
        "categories": categories,
        "used": rating.votes_used,
    }


def _by_order(fitted: Elo) -> dict[str, Any]:
    """Return the same of Elo, which has no abilities, prior or interval."""
    found = fitted.result_
    none = ("min_ability", "min_probability", "flag_rule", "prior_sd", "influence_limit", "interval", "confidence")
    return {
        "settings": {**dict.fromkeys(none), "k": found.k},
        "models": found.models,
        "annotators": found.annotators,
        "diagnostics": {
            **dict.fromkeys(("log_likelihood", "iterations", "converged")),
            "components": found.components,
            "seconds": {},
            "warnings": found.warnings,
        },
        "used": found.votes_used,
    }


def _echo(settings: OfflineSettings, file: VoteFile) -> dict[str, Any]:
    anchor = settings.anchor and {"model": settings.anchor[0], "score": settings.anchor[1]}
    return {
        **asdict(settings.loop),
        "method": settings.method,
        "anchor": anchor,
        "shuffles": settings.shuffles,
        "seed": settings.seed,
        "inverse_propensity": settings.inverse_propensity,
        "pool_annotators": file.pooled,
        "criterion": file.criterion,
        "schema": file.schema,
        "annotator_column": file.annotator_column,
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

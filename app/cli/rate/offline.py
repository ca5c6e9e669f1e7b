"""A leaderboard from a vote file, without a database: votes in, rows out."""

import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np

from app.errors import BadInputError
from app.imports.formats import VoteFile
from app.imports.formats.indexing import encode
from app.imports.formats.joining import look_alike_warnings
from app.imports.formats.measures import read_features
from app.rating.arrays import Floats
from app.rating.cluster import fitting_on_cluster
from app.rating.errors import NoFiniteMaximumError, VotesError, counted
from app.rating.settings import LoopSettings
from app.rating.verdict.rating import Rating
from app.rating.verdict.round import rate_indexed
from app.rating.verdict.rows import annotator_rows, count, model_rows, rate_by_order
from app.rating.verdict.style import control_style, lean_rows, style_rows
from app.rating.votes.cells import Cells
from app.rating.votes.indexed import IndexedVotes
from app.rating.votes.spread import spread_votes, summarise

NAMED = 10
"""Annotators that an error names; there may be thousands."""


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
        if self.scheduler is not None and interval == "profile":
            raise BadInputError("--scheduler has no --interval profile, whose hundreds of refits are of one machine")
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
    """Rate the votes of a file; its invalid records count as rejected.

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
    votes = encode(file.frame)
    settings = _anchored(settings, votes)
    cells = votes.aggregate()
    by_annotator = votes.rankings_by_annotator()
    _require_voters(cells.votes_by_annotator() if by_annotator is None else by_annotator, settings.loop.min_votes)
    seconds = {"read": read_seconds, "aggregate": time.perf_counter() - started}
    stage("rating")
    if settings.method == "elo":
        return _by_order(file, votes, cells, settings, seconds)
    return _jointly(file, votes, cells, settings, seconds)


def _require_voters(votes: Floats, min_votes: int) -> None:
    """Refuse a file in which no annotator has enough votes, and say what to type."""
    most = votes.max()
    if most <= min_votes:
        raise VotesError(
            f"no vote is left: no annotator has more than {min_votes} votes; the most that one of "
            f"{counted(len(votes), 'annotator')} has is {most:g}. δ is the number of votes that an annotator must "
            f"exceed to count: --min-votes {math.ceil(most) - 1} counts at least one annotator, --min-votes 0 all"
        )


def _anchored(settings: OfflineSettings, votes: IndexedVotes) -> OfflineSettings:
    if settings.anchor is None:
        return settings
    name, points = settings.anchor
    if name not in votes.models:
        raise BadInputError(f"the file has no model {name!r}, which --anchor names")
    return replace(settings, loop=replace(settings.loop, anchor=(votes.models.index(name), points)))


def _jointly(
    file: VoteFile, votes: IndexedVotes, cells: Cells, settings: OfflineSettings, seconds: dict[str, float]
) -> OfflineRating:
    try:
        with fitting_on_cluster(settings.scheduler):
            rating = rate_indexed(votes, cells, settings.loop, inverse_propensity=settings.inverse_propensity)
            style = _with_style(file, votes, rating, settings)
            categories = _with_categories(file, votes, rating, settings)
    except NoFiniteMaximumError as error:
        raise _with_names(error, votes) from error
    diagnostics = asdict(rating.diagnostics)
    used_interval = diagnostics.pop("interval")
    diagnostics["seconds"] = {**seconds, **rating.diagnostics.seconds}
    diagnostics["warnings"] = [
        *(notice.named(votes.models) for notice in rating.diagnostics.warnings),
        *_look_alikes(votes),
    ]
    rating_rows = annotator_rows(rating, votes.annotators)
    return OfflineRating(
        method=settings.method,
        settings={**_echo(settings, file), "interval": used_interval},
        votes=_counts(file, votes, cells, rating.votes_used, rating_rows),
        models=model_rows(rating, votes.models),
        annotators=rating_rows,
        diagnostics=diagnostics,
        style=style,
        categories=categories,
    )


def _with_style(
    file: VoteFile, votes: IndexedVotes, rating: Rating, settings: OfflineSettings
) -> dict[str, Any] | None:
    """Return the leaderboard with style control, where features are given."""
    features = read_features(file.frame, settings.features)
    if features is None:
        return None
    found = control_style(rating, votes, features)
    return {
        "features": style_rows(found.style),
        "models": model_rows(found.rating, votes.models),
        "annotators": lean_rows(found.style, votes.annotators, settings.loop.confidence),
    }


def _with_categories(
    file: VoteFile, votes: IndexedVotes, rating: Rating, settings: OfflineSettings
) -> dict[str, Any] | None:
    """Return the scores by category, where a column of them is named."""
    if not settings.by:
        return None
    from app.cli.rate.categories import rate_by_category  # noqa: PLC0415  imports what refits need

    return {"by": settings.by, **rate_by_category(file.frame["category"], votes, rating)}


def _with_names(error: NoFiniteMaximumError, votes: IndexedVotes) -> BadInputError:
    names = [votes.annotators[i] for i in error.annotators]
    rest = f" and {len(names) - NAMED:,} more" if len(names) > NAMED else ""
    return BadInputError(f"{error}: {', '.join(names[:NAMED])}{rest}")


def _by_order(
    file: VoteFile, votes: IndexedVotes, cells: Cells, settings: OfflineSettings, seconds: dict[str, float]
) -> OfflineRating:
    started = time.perf_counter()
    by_order = rate_by_order(
        votes, cells,
        min_votes=settings.loop.min_votes, base=settings.loop.base, anchor=settings.loop.anchor,
        shuffles=settings.shuffles, seed=settings.seed,
    )  # fmt: skip
    not_of_elo = dict.fromkeys(
        (
            "min_ability",
            "flag_rule",
            "prior_sd",
            "influence_limit",
            "interval",
            "confidence",
        )
    )
    return OfflineRating(
        method="elo",
        settings={**_echo(settings, file), **not_of_elo, "k": by_order.k},
        votes=_counts(file, votes, cells, by_order.votes_used, by_order.annotators),
        models=by_order.models,
        annotators=by_order.annotators,
        diagnostics={
            "log_likelihood": None,
            "iterations": None,
            "converged": None,
            "components": by_order.components,
            "seconds": {**seconds, "fit": time.perf_counter() - started, "intervals": 0.0},
            "warnings": [*(notice.named(votes.models) for notice in by_order.warnings), *_look_alikes(votes)],
        },
    )


def _look_alikes(votes: IndexedVotes) -> list[dict[str, Any]]:
    number = np.bincount(np.concatenate([votes.model_a, votes.model_b]), minlength=len(votes.models))
    return look_alike_warnings(dict(zip(votes.models, number.tolist(), strict=True)))


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


def _counts(
    file: VoteFile, votes: IndexedVotes, cells: Cells, used: float, annotators: Sequence[Mapping[str, Any]]
) -> dict[str, Any]:
    """Count records read, and pairs used, of which a ranking of n models has n(n-1)/2; and votes, a ranking as one.

    `used` and `per` count pairs; `votes_used`, `rankings` and `votes_per_annotator` votes.
    """
    left_out = {"rejected": file.rejected, "skipped": file.skipped, "duplicates": file.duplicates}
    per = {name: asdict(each) for name, each in spread_votes(cells).items()}
    by_annotator = votes.rankings_by_annotator()
    return {
        "read": file.rows_read,
        "used": count(used),
        **left_out,
        "per": per,
        "rankings": int(file.records["ranked_names"].count()),
        "votes_used": sum(row["votes"] for row in annotators if row["standing"] not in ("pending", "excluded")),
        "pairs_read": len(votes.outcome),
        "votes_per_annotator": per["annotator"] if by_annotator is None else asdict(summarise(by_annotator)),
    }

from typing import Any

import numpy as np

from app.rating.arrays import Floats, Indices, Mask, sum_by, sum_by_key
from app.rating.errors import VotesError
from app.rating.settings import LoopSettings
from app.rating.uncertainty.bounds import unscored_bounds
from app.rating.uncertainty.centre import centred_errors, centred_scores
from app.rating.uncertainty.places import find_places
from app.rating.uncertainty.results import Estimate, ModelEstimates
from app.rating.votes.cells import Cells


def make_model_estimates(rating: Estimate) -> ModelEstimates:
    """Convert a rating to what is published: Elo points, intervals, ranks within each component.

    Raises
    ------
    VotesError
        The anchor model has no score.
    """
    settings, identified, label = rating.settings, rating.identified, rating.components.label
    centred = centred_scores(rating)
    centre = np.full(len(centred), settings.base)
    if settings.anchor is not None:
        model, points = settings.anchor
        if not identified[model]:
            raise VotesError("the anchor model has no score: it has no counted votes, or only won, or only lost")
        centre[label == label[model]] = points - centred[model]
    score = centre + centred
    se, half = centred_errors(rating, settings.confidence)
    lower, upper = score - half, score + half
    low, high = unscored_bounds(rating, settings.confidence)
    rest = ~identified & (label >= 0)
    lower[rest], upper[rest] = (centre + low)[rest], (centre + high)[rest]
    columns: dict[str, Any] = _counts(rating.pairs)
    provisional = find_provisional(rating.cells, settings, votes=columns["votes"], width=upper - lower)
    columns |= find_places(rating, (label >= 0) & ~provisional)
    return ModelEstimates(
        score, se, lower, upper, **columns, component=label, identified=identified, provisional=provisional
    )


def find_provisional(cells: Cells, settings: LoopSettings, *, votes: Floats, width: Floats) -> Mask:
    """Return which models have too few votes or annotators, or too wide an interval, to be ranked, shape (n_models,).

    Parameters
    ----------
    votes : counted votes of each model
    width : of its interval; NaN without one, infinite for a bound on one side
    """
    few = votes < settings.min_model_votes
    if settings.min_model_annotators > 0:
        few |= _count_annotators(cells) < settings.min_model_annotators
    if settings.max_interval_width is not None:
        few |= np.isfinite(width) & (width > settings.max_interval_width)
    return few & (votes > 0)


def _count_annotators(cells: Cells) -> Indices:
    """Return how many annotators have a counted vote on each model."""
    size = cells.n_models
    pair = np.concatenate([cells.annotator.astype(np.int64) * size + model for model in (cells.model_a, cells.model_b)])
    return np.bincount(sum_by_key(pair, cells.n_annotators * size)[0] % size, minlength=size)


def _counts(cells: Cells) -> dict[str, Floats]:
    """Return votes, wins, ties and losses of each model, shape (n_models,) each."""
    size, won, lost = cells.n_models, cells.wins_a, cells.wins_b
    sides = {"votes": (cells.n, cells.n), "wins": (won, lost), "ties": (cells.ties, cells.ties), "losses": (lost, won)}
    return {name: sum_by(cells.model_a, a, size) + sum_by(cells.model_b, b, size) for name, (a, b) in sides.items()}

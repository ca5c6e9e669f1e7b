"""Leaderboards by criteria together: each has its own votes and abilities, and their errors hang together."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce

import numpy as np

from app.rating.arrays import Floats, Indices
from app.rating.errors import VotesError
from app.rating.fitted import FitResult
from app.rating.plain.m_elo import shift_projector
from app.rating.uncertainty.joint import join_covariances
from app.rating.units import ELO_PER_NATURAL
from app.rating.verdict.rating import Rating, compose
from app.rating.votes.cells import Cells, compact, stack_cells
from app.rating.votes.graph import Components


@dataclass(frozen=True)
class Criteria:
    """The scores of models by each criterion, beside those of the main leaderboard.

    Attributes
    ----------
    whole : the main leaderboard
    ratings : by the votes of each criterion alone; annotators, models and prompts have the same indices in all
    """

    whole: Rating
    ratings: Sequence[Rating]

    tau = None  # no score of one is drawn to those of others

    def rating(self, criterion: int) -> Rating:
        """Return the leaderboard of a criterion."""
        return self.ratings[criterion]

    def weigh(self, share: Floats) -> Rating:
        """Return the leaderboard of Σ_c share_c S_ic, of the models with a score by each criterion that has a share.

        Its counts are of the votes by all of these criteria. Models are compared that each of these compares.

        Parameters
        ----------
        share : of each criterion, with the sum 1, shape (n_criteria,)

        Raises
        ------
        VotesError
            No model has a score by each criterion, the anchor has none, or the joint errors are not known.
        """
        ratings = [rating for rating, own in zip(self.ratings, share.tolist(), strict=True) if own]
        share, first = share[share != 0.0], ratings[0]
        models = shared_models(ratings)
        label = np.full(first.cells.n_models, -1)
        _, label[models] = np.unique(
            [rating.components.label[models] for rating in ratings], axis=1, return_inverse=True
        )
        cells = stack_cells([_between(rating.cells, label) for rating in ratings])
        small = compact(cells, label >= 0)
        fit = FitResult(_sum_scores(ratings, share, models), np.ones(len(small.annotators)), np.nan, 0)
        spread = None
        if first.settings.interval != "none":
            spread = join_covariances(ratings, share, models)
        found = Components(int(label.max()) + 1, label, first.components.votes)
        return compose(
            first, cells, fit, spread, components=found, identified=label >= 0, small=small, marginal=None, prompts=None
        )

    def differences(self, criterion: int) -> tuple[Floats, Floats]:
        """Return by how much each model's score is higher by a criterion than in the main leaderboard, Elo points.

        Returns
        -------
        difference, se : shape (n_models,); NaN for models without a score by either
        """
        both, share = [self.ratings[criterion], self.whole], np.array([1.0, -1.0])
        found = np.full((2, self.whole.cells.n_models), np.nan)
        if both[0] is both[1]:
            found[:, self.whole.small.models] = 0.0
            return found[0], found[1]
        models = shared_models(both)
        label = np.unique([rating.components.label[models] for rating in both], axis=1, return_inverse=True)[1]
        across = np.eye(len(models)) - shift_projector(label)
        found[0, models] = across @ _sum_scores(both, share, models)
        found[1, models] = np.sqrt(
            np.maximum(np.diag(across @ join_covariances(both, share, models).scores @ across), 0.0)
        )
        return ELO_PER_NATURAL * found[0], ELO_PER_NATURAL * found[1]


def shared_models(ratings: Sequence[Rating]) -> Indices:
    """Return the models with a score in each rating.

    Raises
    ------
    VotesError
        There is none.
    """
    models = reduce(np.intersect1d, [rating.small.models for rating in ratings])
    if not len(models):
        raise VotesError("no model has a score by each of the criteria")
    return models


def _sum_scores(ratings: Sequence[Rating], share: Floats, models: Indices) -> Floats:
    scores: Floats = share @ np.stack([rating.natural_scores()[models] for rating in ratings])
    return scores


def _between(cells: Cells, label: Indices) -> Cells:
    """Return the votes between models of one component."""
    first, second = label[cells.model_a], label[cells.model_b]
    return cells.where((first == second) & (first >= 0))

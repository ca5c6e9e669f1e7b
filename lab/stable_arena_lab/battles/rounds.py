"""Votes on battles that the service draws: every annotator votes in each round, and a refit follows each."""

from collections.abc import Callable

import numpy as np

from app.rating.arrays import Floats, Indices
from app.rating.sampling.pair_weights import PairWeights, calibration_weights, pair_positions, uniform_weights
from app.rating.sampling.policies import weigh_pairs
from app.rating.sampling.scored_models import scored_models
from app.rating.settings import LoopSettings, SamplingSettings
from app.rating.verdict.rating import estimate
from app.rating.votes.cells import Cells
from stable_arena_lab.attacks.arena import Votes

REFIT = LoopSettings(min_votes=0, flag_rule="threshold")
Vote = Callable[[Indices, Indices, Indices], Floats]
"""The outcomes W for the left model, of annotators, left and right models."""


def draw_battles(
    table: PairWeights, number: int, generator: np.random.Generator, *, calibration: float = 0.0
) -> tuple[Indices, Indices]:
    """Draw battles as `app.rating.sampling.pair_weights` does, all at once; return the left and the right models."""
    probability = table.weight.astype(np.float64) / table.weight.sum(dtype=np.float64)
    informative = calibration_weights(table.R)
    if calibration and informative.any():
        probability = (1.0 - calibration) * probability + calibration * informative / informative.sum()
    first, second = pair_positions(len(table.models))
    row = generator.choice(len(probability), number, p=probability / probability.sum())
    swapped = generator.random(number) < 1 / 2
    one, other = table.models[first[row]], table.models[second[row]]
    return np.where(swapped, other, one), np.where(swapped, one, other)


def tabulate(cells: Cells, settings: SamplingSettings) -> PairWeights:
    """Refit, and return the table of pairs that the service would publish."""
    models = np.arange(cells.n_models)
    return weigh_pairs(scored_models(estimate(cells, REFIT), models), models, settings)


def vote_in_rounds(
    vote: Vote,
    settings: SamplingSettings,
    generator: np.random.Generator,
    *,
    n_annotators: int,
    n_models: int,
    votes_each: int,
    rounds: int,
) -> Votes:
    """Let every annotator cast votes_each/rounds votes in each round, on uniform pairs in the first.

    Parameters
    ----------
    vote : how they vote
    settings : of the pairs from the second round on
    """
    table, parts = uniform_weights(np.arange(n_models)), []
    for done in range(rounds):
        share = votes_each * (done + 1) // rounds - votes_each * done // rounds
        annotator = np.repeat(np.arange(n_annotators), share)
        left, right = draw_battles(table, len(annotator), generator)
        parts.append((annotator, left, right, vote(annotator, left, right)))
        annotator, left, right, outcome = (np.concatenate(column) for column in zip(*parts, strict=True))
        votes = Votes(annotator, left, right, outcome, np.arange(len(annotator)), n_annotators, n_models)
        if done + 1 < rounds:
            table = tabulate(votes.cells(), settings)
    return votes

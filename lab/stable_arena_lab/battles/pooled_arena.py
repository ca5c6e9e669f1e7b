"""Simulated arenas in which each vote is by another annotator: all votes on a pair are counts."""

from dataclasses import dataclass

import numpy as np

from app.rating.arrays import Floats
from app.rating.settings import LoopSettings
from app.rating.simulation.worlds import make_world
from app.rating.units import NATURAL_PER_ELO
from app.rating.verdict.round import run_round
from app.rating.votes.cells import Cells

LEVELS = 20  # abilities that stand for all
HONEST = 400  # simulated annotators
TIES_AT_MOST = 0.49
PUBLIC = LoopSettings(min_votes=0, flag_rule="threshold", interval="none")
"""The leaderboard that attackers and simulations see: every annotator counts, no interval."""


@dataclass(frozen=True)
class PooledArena:
    """The models of an arena, and how its crowd votes on each pair.

    Attributes
    ----------
    score : true scores, natural units, shape (n_models,)
    won, tied : probability that the first model of a pair wins, and that it ties, shape (n_models, n_models)
    """

    score: Floats
    won: Floats
    tied: Floats

    def vote(self, battles: Floats, generator: np.random.Generator) -> tuple[Floats, Floats]:
        """Draw the votes of so many battles on each pair i < j, shape (n_models, n_models), zeros elsewhere.

        Returns
        -------
        wins, ties : of the first model, symmetric where ties are
        """
        number = battles.astype(np.int64)
        wins = generator.binomial(number, self.won)
        ties = generator.binomial(number - wins, np.minimum(self.tied / np.maximum(1.0 - self.won, 1e-12), 1.0))
        losses = number - wins - ties
        return (wins + losses.T).astype(np.float64), (ties + ties.T).astype(np.float64)


def pooled_arena(score: Floats, ability: Floats, tie_share: float, *, bad: float = 0.0) -> PooledArena:
    """Return an arena whose votes are drawn as by `worlds.World.vote`, averaged over the annotators.

    Parameters
    ----------
    score : natural units, shape (n_models,)
    ability : of the honest annotators, shape (n,)
    bad : share of the annotators who vote at random, the opposite of their opinion, or always a tie: a third each
    """
    difference = score[:, None] - score[None, :]
    levels, third = np.quantile(ability, (np.arange(LEVELS) + 0.5) / LEVELS), bad / 3.0
    random, equal = third * (0.5 - tie_share / 2.0), third * (1.0 + tie_share)
    won, tied = np.full_like(difference, random), np.full_like(difference, equal)
    for share, theta in ((1.0 - bad, levels), (third, -levels)):
        p = 1.0 / (1.0 + np.exp(-theta[:, None, None] * difference))
        tie = 4.0 * p * (1.0 - p) * tie_share
        won += share * (p - tie / 2.0).mean(axis=0)
        tied += share * tie.mean(axis=0)
    return PooledArena(score, won, tied)


def simulated_arena(seed: int, n_models: int, *, bad: float = 0.0, score_sd: float = 140.0) -> PooledArena:
    """Draw an arena of `worlds.make_world`: scores ~ N(1000, score_sd²) Elo points, abilities log-normal."""
    world = make_world(np.random.default_rng(seed), n_models=n_models, roles={"honest": HONEST}, score_sd=score_sd)
    score = NATURAL_PER_ELO * (world.score - world.score.mean())
    return pooled_arena(score, world.ability, world.tie_share, bad=bad)


def fitted_arena(cells: Cells) -> PooledArena:
    """Return an arena like that of the votes: its am-ELO scores are the truth, its annotators' abilities the crowd's.

    Only models with a score in the largest component take part.

    Raises
    ------
    RatingError
        The votes have no ranking.
    """
    rating = run_round(cells, PUBLIC)
    score, ability = rating.models.score, rating.annotators.ability
    here = rating.models.identified & (rating.models.component == 0)
    known = NATURAL_PER_ELO * (score[here] - score[here].mean())
    return pooled_arena(
        known, ability[np.isfinite(ability)], share_of_ties(cells, np.where(here, score, score[here].mean()))
    )


def share_of_ties(cells: Cells, public: Floats) -> float:
    """Return the share of ties between equals in the votes."""
    p = 1.0 / (1.0 + np.exp(-NATURAL_PER_ELO * (public[cells.model_a] - public[cells.model_b])))
    share = float(cells.ties.sum() / (cells.n @ (4.0 * p * (1.0 - p))))
    return min(share, TIES_AT_MOST)

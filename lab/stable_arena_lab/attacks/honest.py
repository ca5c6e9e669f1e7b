from dataclasses import dataclass

import numpy as np

from app.rating.arrays import Floats, Indices
from app.rating.units import NATURAL_PER_ELO

MOST_TIES = 0.49  # share of ties between equals; above ½ the probabilities of this model are negative


@dataclass(frozen=True)
class Variety:
    """How honest annotators differ, apart from their abilities.

    Attributes
    ----------
    ties : standard deviation of the log of their tie shares
    side : standard deviation of a preference for the left side, natural units
    minority : share of the annotators with an own opinion of one model, which differs between them
    taste : by how much they find it better, Elo points
    """

    ties: float = 0.0
    side: float = 0.0
    minority: float = 0.0
    taste: float = 0.0


@dataclass(frozen=True)
class Honest:
    """Honest annotators: their opinions and how they vote.

    Attributes
    ----------
    ability : shape (n_annotators,)
    score : Elo points as each annotator sees them, shape (n_annotators, n_models)
    tie_share : shape (n_annotators,)
    side : shape (n_annotators,)
    """

    ability: Floats
    score: Floats
    tie_share: Floats
    side: Floats

    def vote(
        self,
        annotator: Indices,
        left: Indices,
        right: Indices,
        generator: np.random.Generator,
    ) -> Floats:
        """Draw W for the left model: mean σ(a_k d + side), ties 4 p (1 − p) × tie share (as `World.vote`)."""
        d = NATURAL_PER_ELO * (self.score[annotator, left] - self.score[annotator, right])
        p = 1.0 / (1.0 + np.exp(-(self.ability[annotator] * d + self.side[annotator])))
        tie = 4.0 * p * (1.0 - p) * self.tie_share[annotator]
        draw = generator.random(len(annotator))
        return np.where(draw < p - tie / 2.0, 1.0, np.where(draw < p + tie / 2.0, 0.5, 0.0))


def draw_honest(
    generator: np.random.Generator,
    score: Floats,
    number: int,
    *,
    ability_sd: float,
    tie_share: float,
    variety: Variety,
) -> Honest:
    """Draw honest annotators around the true scores, shape (n_models,)."""
    ability = np.exp(ability_sd * generator.standard_normal(number))
    seen = np.tile(score, (number, 1))
    holds = generator.random(number) < variety.minority
    favourite = generator.integers(0, len(score), number)
    seen[np.flatnonzero(holds), favourite[holds]] += variety.taste
    ties = np.minimum(tie_share * np.exp(variety.ties * generator.standard_normal(number)), MOST_TIES)
    return Honest(ability, seen, ties, variety.side * generator.standard_normal(number))

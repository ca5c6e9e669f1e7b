"""Simulated crowds, and their annotators as the model of votes sees them."""

from typing import NamedTuple

import numpy as np
from scipy.special import expit
from scipy.stats import gamma

from app.rating.arrays import Floats
from app.rating.model.crowd import Crowd
from app.rating.model.crowds import Crowds
from app.rating.model.law import Law
from app.rating.votes.cells import Cells, aggregate


class Drawn(NamedTuple):
    """True scores in natural units, true abilities, and the votes."""

    R: Floats
    ability: Floats
    cells: Cells


def draw(
    annotators: int, votes_each: int, *, models: int = 8, coins: int = 0, contrary: int = 0, spread: float = 0.3,
    seed: int = 0,
) -> Drawn:  # fmt: skip
    """Draw a crowd: first coins, then contrary annotators, then honest ones with abilities of mean 1."""
    generator = np.random.default_rng(seed)
    R = np.linspace(-1.2, 1.2, models)
    ability = np.exp(generator.normal(0.0, spread, annotators) - spread**2 / 2.0)
    ability[:coins] = 0.0
    ability[coins : coins + contrary] *= -1.0
    k = np.repeat(np.arange(annotators), votes_each)
    a = generator.integers(0, models, len(k))
    b = (a + generator.integers(1, models, len(k))) % models
    p = expit(ability[k] * (R[a] - R[b]))
    tie, u = p * (1.0 - p), generator.random(len(k))
    outcome = np.where(u < p - tie / 2.0, 1.0, np.where(u < p + tie / 2.0, 0.5, 0.0))
    return Drawn(R, ability, aggregate(k, a, b, outcome, n_annotators=annotators, n_models=models))


def look(drawn: Drawn, law: Law | None = None, *, limit: float | None = 1.25) -> tuple[Crowds, Floats]:
    """Return the annotators with their likelihoods at the true scores, and these."""
    crowds, spread = Crowds(drawn.cells, limit, 1.0, drawn.R), (law or Law.assumed()).spread
    crowds.each(Crowd.look, drawn.R, spread)
    crowds.each(Crowd.fill, drawn.R)
    return crowds, drawn.R


def log_density(theta: Floats, law: Law) -> Floats:
    """Return the log density of the law at abilities, that of honest and of contrary annotators."""
    density: Floats = gamma.logpdf(np.abs(theta), law.spread**-2, scale=law.spread**2)
    return density + np.log(np.where(theta > 0.0, law.shares[0], law.shares[2]))

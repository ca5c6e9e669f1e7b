"""Crowds of two camps, whose votes have several maxima, and what a climb from random starts finds there."""

import numpy as np

from app.rating.errors import RatingError
from app.rating.fit.am_elo import fit_am_elo
from app.rating.fit.likelihood import Likelihood
from app.rating.verdict.rating import Rating
from app.rating.votes.cells import Cells, aggregate

CAMP, MODELS, VOTES = 12, 8, 25  # annotators of each camp, models, votes each


def draw_two_camps(seed: int) -> Cells:
    """Draw annotators who follow either of two rankings of 8 models, 12 of each, with 25 votes each."""
    generator = np.random.default_rng(seed)
    rankings = generator.normal(0, 0.8, (2, MODELS))
    people, number = 2 * CAMP, 2 * CAMP * VOTES
    annotator = np.repeat(np.arange(people), VOTES)
    model_a = generator.integers(0, MODELS, number)
    model_b = (model_a + generator.integers(1, MODELS, number)) % MODELS
    camp = annotator % 2
    difference = rankings[camp, model_a] - rankings[camp, model_b]
    won = generator.random(number) < 1 / (1 + np.exp(-difference))
    return aggregate(annotator, model_a, model_b, won.astype(float), n_annotators=people, n_models=MODELS)


def climb_from_random_starts(rating: Rating, number: int) -> list[float]:
    """Climb from random scores and abilities, on the votes as the rating weighed them.

    Returns
    -------
    list
        The penalised log-likelihood of each maximum found less that of the rating.
    """
    cells, generator = rating.fit.counted(rating.small.cells), np.random.default_rng(1)
    prior_sd = rating.fit.prior_sd or 1.0
    likelihood, label = Likelihood(cells, prior_sd), rating.components.label[rating.small.models]
    published = rating.fit.log_likelihood - likelihood.prior(rating.fit.theta)
    found = []
    for _ in range(number):
        start = generator.normal(size=cells.n_models), generator.normal(size=cells.n_annotators)
        try:
            fit = fit_am_elo(cells, label, prior_sd=prior_sd, ability_cap=rating.settings.ability_cap, start=start)
        except RatingError:
            continue
        found.append(fit.log_likelihood - likelihood.prior(fit.theta) - published)
    return found

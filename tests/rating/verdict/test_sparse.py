"""Crowds with too few votes for a score of every model and an ability of every annotator."""

import numpy as np
from scipy.stats import spearmanr

from app.rating.settings import LoopSettings
from app.rating.units import ELO_PER_NATURAL
from app.rating.verdict.rating import Rating
from app.rating.verdict.round import run_round
from app.rating.votes.cells import Cells, aggregate

MODELS, ANNOTATORS = 100, 25


def truth(seed: int) -> np.ndarray:
    return np.random.default_rng(seed).normal(0.0, 140.0 / ELO_PER_NATURAL, MODELS)


def sparse(seed: int) -> Cells:
    """About eleven votes for each model, by annotators with 4 to 40 votes, one in five of them bad."""
    generator, R = np.random.default_rng(seed), truth(seed)
    k = np.repeat(np.arange(ANNOTATORS), generator.integers(4, 41, ANNOTATORS))
    ability = generator.logistic(1.0, 0.2, ANNOTATORS) * generator.choice(
        [1.0, 0.0, -1.0], ANNOTATORS, p=[0.8, 0.1, 0.1]
    )
    a = generator.integers(0, MODELS, len(k))
    b = (a + generator.integers(1, MODELS, len(k))) % MODELS
    won = generator.random(len(k)) < 1.0 / (1.0 + np.exp(-ability[k] * (R[a] - R[b])))
    outcome = np.where(generator.random(len(k)) < 0.15, 0.5, won)
    return aggregate(k, a, b, outcome, n_annotators=ANNOTATORS, n_models=MODELS)


def rate(seed: int, **settings: object) -> Rating:
    given = {"min_votes": 3, "interval": "none", "flag_rule": "threshold", **settings}
    return run_round(sparse(seed), LoopSettings(**given))  # type: ignore[arg-type]  # as given


def test_models_that_m_elo_scores_keep_their_scores() -> None:
    agreement = []
    for seed in (0, 2):
        models, known = rate(seed), rate(seed, method="m-elo")
        assert models.identified.tolist() == known.identified.tolist()
        scored = models.identified
        agreement.append(spearmanr(models.models.score[scored], known.models.score[scored]).statistic)
    assert min(agreement) > 0.8

"""What battle policies know of the models, out of an estimate."""

import numpy as np
import pytest

from app.rating.sampling.scored_models import find_newcomers, information_covariance, scored_models
from app.rating.settings import Interval, LoopSettings
from app.rating.simulation.worlds import simulate_votes
from app.rating.verdict.round import run_round
from app.rating.votes.cells import Cells, aggregate

SIZE = 7  # models 5 and 6 met only each other
SHOWN = np.array([6, 3, 0])


@pytest.fixture
def cells() -> Cells:
    votes = simulate_votes(2, n_models=5, roles={"honest": 30}, votes_each=30)
    pair = [(0, 5, 6, 1.0), (0, 5, 6, 0.0), (1, 6, 5, 1.0), (1, 6, 5, 0.0)]
    more = (np.array(column) for column in zip(*pair, strict=True))
    columns = zip((votes.annotator, votes.model_a, votes.model_b, votes.outcome), more, strict=True)
    return aggregate(*(np.append(*both) for both in columns), n_annotators=30, n_models=SIZE)


@pytest.mark.parametrize("interval", ["clustered", "none"])
def test_models_are_known_as_the_estimate_has_them(cells: Cells, interval: Interval) -> None:
    estimate = run_round(cells, LoopSettings(min_votes=0, interval=interval, flag_rule="threshold"))
    known = scored_models(estimate, SHOWN)
    assert known.scored.tolist() == [False, True, True]  # a score of another component does not compare
    apart = estimate.fit.R[[3, 0]]
    np.testing.assert_allclose(known.R[1:], apart)
    met = estimate.pairs.n[(estimate.pairs.model_a == 0) & (estimate.pairs.model_b == 3)]
    np.testing.assert_array_equal(known.pair_votes[1:, 1:], [[0.0, met[0]], [met[0], 0.0]])
    if estimate.covariance is not None:
        np.testing.assert_array_equal(known.covariance, estimate.covariance.scores[np.ix_(SHOWN, SHOWN)])
    else:
        whole = scored_models(estimate, np.arange(SIZE))
        np.testing.assert_allclose(whole.covariance, information_covariance(whole.R, whole.pair_votes), atol=1e-12)


def test_without_a_score_there_are_no_newcomers(cells: Cells) -> None:
    estimate = run_round(cells, LoopSettings(min_votes=0, flag_rule="threshold"))
    with pytest.raises(ValueError, match="no model has a score"):
        find_newcomers(scored_models(estimate, np.array([5, 6])))

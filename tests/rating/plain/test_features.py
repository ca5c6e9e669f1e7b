"""The fit of m-ELO with features where it has no answer, and from a start that is far away."""

import numpy as np
import pytest

from app.rating.errors import NotConvergedError
from app.rating.plain import features
from app.rating.plain.features import fit_plain_features
from app.rating.votes.cells import Cells


def cells(z: list[float], won: list[float]) -> Cells:
    """Votes on two models, each a cluster."""
    n, k = np.ones(len(z)), np.arange(len(z), dtype=np.int32)
    a, b, W = np.zeros(len(z), np.int32), np.ones(len(z), np.int32), np.array(won)
    return Cells(k, a, b, n, W, n * (W == 0.5), len(z), 2, features=np.array(z)[:, None])


MIXED = cells([1.0, -1.0, 0.5, -0.5, 2.0, -2.0], [1.0, 0.0, 0.0, 1.0, 1.0, 0.5])


def test_a_start_that_is_far_away_changes_nothing() -> None:
    near, far = (fit_plain_features(MIXED, np.array(R)) for R in ([0.0, 0.0], [8.0, -8.0]))
    assert pytest.approx(near.R, abs=1e-7) == far.R
    assert far.gamma == pytest.approx(near.gamma, abs=1e-7)
    assert far.covariance == pytest.approx(near.covariance, rel=1e-3)
    assert far.iterations > near.iterations


def test_a_feature_that_says_nothing_or_everything_has_no_worth() -> None:
    with pytest.raises(NotConvergedError, match="singular"):
        fit_plain_features(cells([0.0, 0.0], [1.0, 0.0]), np.zeros(2))
    with pytest.raises(NotConvergedError, match=r"infinity|singular"):
        fit_plain_features(cells([1.0, -1.0, 2.0, -2.0], [1.0, 0.0, 1.0, 0.0]), np.zeros(2))


def test_a_fit_that_does_not_end_is_no_fit(monkeypatch: pytest.MonkeyPatch) -> None:
    """No votes are known that need so many iterations."""
    monkeypatch.setattr(features, "MOST_ITERATIONS", 1)
    with pytest.raises(NotConvergedError, match="after 1 iterations"):
        fit_plain_features(MIXED, np.zeros(2))

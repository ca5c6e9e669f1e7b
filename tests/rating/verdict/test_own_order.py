"""The order that one person's few votes show."""

import numpy as np
import pytest

from app.rating.verdict.own_order import order_own_votes


def objective(R: np.ndarray, a: np.ndarray, b: np.ndarray, y: np.ndarray, sd: float) -> float:
    p = 1 / (1 + np.exp(-(R[a] - R[b])))
    return float((y * np.log(p) + (1 - y) * np.log(1 - p)).sum() - (R**2).sum() / (2 * sd**2))


def test_it_is_the_maximum_and_its_curvature() -> None:
    generator = np.random.default_rng(1)
    a, b = generator.integers(0, 4, (2, 60))
    a, b = a[a != b], b[a != b]
    y = generator.choice([0.0, 0.5, 1.0], len(a))
    found = order_own_votes(a, b, y, 4, prior_sd=0.8)
    step, eye = 1e-4, np.eye(4)

    def at(*moves: np.ndarray) -> float:
        return objective(found.R + step * sum(moves), a, b, y, 0.8)

    assert [(at(eye[i]) - at(-eye[i])) / (2 * step) for i in range(4)] == pytest.approx([0] * 4, abs=1e-6)

    def second(one: np.ndarray, other: np.ndarray) -> float:
        return (at(one, other) - at(one, -other) - at(-one, other) + at(-one, -other)) / (4 * step**2)

    hessian = np.array([[second(one, other) for other in eye] for one in eye])
    centre = eye - 1 / 4
    assert found.se**2 == pytest.approx(np.diag(centre @ np.linalg.inv(-hessian) @ centre), rel=1e-4)
    swapped = order_own_votes(b, a, 1 - y, 4, prior_sd=0.8)
    np.testing.assert_allclose(swapped.R, found.R)


def test_a_model_that_won_all_its_battles_has_a_place() -> None:
    found = order_own_votes(np.zeros(200, int), np.ones(200, int), np.ones(200), 2)
    assert found.R[0] > 1 > -1 > found.R[1] > -np.inf
    assert np.isfinite(found.se).all()

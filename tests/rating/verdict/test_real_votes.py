from collections.abc import Callable

import numpy as np
import pytest

from app.rating.errors import RatingError
from app.rating.plain import joint
from app.rating.plain.joint import fit_joint
from app.rating.plain.m_elo import fit_m_elo
from app.rating.settings import LoopSettings
from app.rating.units import ELO_PER_NATURAL
from app.rating.verdict.round import run_round
from app.rating.votes.cells import Cells

RealCells = Callable[[str], Cells]


def compacted(cells: Cells) -> Cells:
    """Annotators renumbered; every model of these files is used."""
    _, annotator = np.unique(cells.annotator, return_inverse=True)
    return Cells(
        annotator.astype(np.int32), cells.model_a, cells.model_b, cells.n, cells.s, cells.ties,
        int(annotator.max()) + 1, cells.n_models,
    )  # fmt: skip


def test_llmfao_has_the_known_likelihoods_and_four_annotators_below_zero(real_cells: RealCells) -> None:
    cells = compacted(real_cells("llmfao.csv"))
    assert (cells.n_votes, cells.n_annotators, cells.n_models) == (7393, 37, 59)
    m_elo = fit_m_elo(cells)
    plain = fit_joint(cells)
    assert m_elo.log_likelihood == pytest.approx(-4761.165, abs=5e-4)
    assert plain.log_likelihood >= -4627.79
    assert int((plain.theta < 0).sum()) == 4


def test_the_loop_flags_the_four(real_cells: RealCells) -> None:
    rating = run_round(real_cells("llmfao.csv"), LoopSettings(flag_rule="threshold"))
    assert int((rating.annotators.standing == "flagged").sum()) == 4
    assert (rating.annotators.ability[rating.annotators.standing == "flagged"] < 0.05).all()


@pytest.mark.parametrize(
    "name",
    [
        "llmfao.csv",
        pytest.param("lightfield.csv", marks=pytest.mark.campaign),
        "pandalm_test.csv",
        pytest.param("ukpconvarg1.csv", marks=pytest.mark.soak),  # 1,052 models: minutes
    ],
)
def test_no_random_start_beats_the_default_one(
    real_cells: RealCells, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Some random starts stall in poorer optima or nowhere: the likelihood is not jointly concave."""
    monkeypatch.setattr(joint, "MOST_ITERATIONS", 60)  # those that get anywhere take 15 to 40
    cells = compacted(real_cells(name))
    default = fit_joint(cells)
    generator = np.random.default_rng(0)
    reached = 0
    for _ in range(10):
        start = (generator.normal(size=cells.n_models), generator.normal(size=cells.n_annotators))
        try:
            fit = fit_joint(cells, start)
        except RatingError:
            continue
        assert fit.log_likelihood <= default.log_likelihood + 1e-6
        if fit.log_likelihood >= default.log_likelihood - 1e-6:
            reached += 1
            np.testing.assert_allclose(ELO_PER_NATURAL * fit.R, ELO_PER_NATURAL * default.R, atol=1e-4)
    print(f"{name}: {reached} of 10 random starts reach the default's likelihood, none beats it")
    assert reached >= 3


@pytest.mark.campaign
def test_algorithm_2_as_published_finds_the_same_ranking_and_no_better_likelihood(real_cells: RealCells) -> None:
    """Gradient ascent on every vote with Σθ = 1 kept by normalising after each step (Algorithm 2)."""
    cells = compacted(real_cells("tmo_video.csv"))
    R, theta = np.zeros(cells.n_models), np.full(cells.n_annotators, 1 / cells.n_annotators)
    for _ in range(30_000):
        x = theta[cells.annotator] * (R[cells.model_a] - R[cells.model_b])
        residual = cells.s - cells.n / (1 + np.exp(-x))
        pull = theta[cells.annotator] * residual
        toward_R = np.bincount(cells.model_a, pull, len(R)) - np.bincount(cells.model_b, pull, len(R))
        toward_theta = np.bincount(cells.annotator, residual * (R[cells.model_a] - R[cells.model_b]), len(theta))
        R = R + 0.5 * toward_R
        theta = theta + 2e-6 * toward_theta
        total = theta.sum()
        R, theta = R * total, theta / total
    x = theta[cells.annotator] * (R[cells.model_a] - R[cells.model_b])
    theirs = float(np.sum(cells.s * x - cells.n * np.logaddexp(0, x)))

    fit = fit_joint(cells)
    ours = fit.R * fit.theta.sum()  # the paper's gauge: Σ_k θ_k = 1
    assert np.argsort(R).tolist() == np.argsort(ours).tolist()
    assert fit.log_likelihood - 0.01 < theirs < fit.log_likelihood + 1e-9

"""The scores' errors: the covariance and what they add to likelihoods, beside the same written plainly."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.special import expit, logsumexp

from app.lab.attacks.arena import Setup, draw_arena
from app.lab.defences.gains import SERVICE, rate
from app.lab.defences.niche import Niche, draw_niche
from app.lab.simulate import NATURAL_PER_ELO
from app.rating.data.votes import Cells
from app.rating.detection.habits import Habits, estimate_habits
from app.rating.detection.score_errors import OPPOSED, doubt_scores, score_covariance
from app.rating.detection.score_kernels import LOG_MOVES, MOVES, WORTH
from app.rating.detection.sided_cells import SidedCells

ABILITY = np.array([-0.8, 0.0, 0.4, 1.5])


@pytest.fixture(scope="module")
def flipped() -> tuple[Cells, np.ndarray, Habits]:
    """A crowd of twelve, four of whom vote against the ranking."""
    arena = draw_arena(3, "flip", Setup(n_annotators=12, votes_each=60, n_models=6, share=1 / 3))
    cells = arena.votes.cells()
    R = NATURAL_PER_ELO * (arena.public - 1000.0)
    return cells, R, estimate_habits(SidedCells.unknown(cells), R)


def test_the_covariance_is_the_sandwich_of_annotators(flipped: tuple[Cells, np.ndarray, Habits]) -> None:
    """No annotator has more than the limit here, so that every vote counts once."""
    cells, R, _ = flipped
    design = np.zeros((len(cells.n), 6))
    rows = np.arange(len(cells.n))
    design[rows, cells.model_a], design[rows, cells.model_b] = 1.0, -1.0
    p = expit(design @ R)
    information = design.T @ ((cells.n * p * (1.0 - p))[:, None] * design)
    gradient = np.zeros((12, 6))
    np.add.at(gradient, cells.annotator, (cells.s - cells.n * p)[:, None] * design)
    bread = np.linalg.pinv(information)
    expected = bread @ gradient.T @ gradient @ bread
    centre = np.eye(6) - 1.0 / 6.0
    np.testing.assert_allclose(centre @ score_covariance(cells, R) @ centre, expected, rtol=1e-5, atol=1e-8)


def test_doubt_is_its_plain_twin(flipped: tuple[Cells, np.ndarray, Habits]) -> None:
    cells, R, habits = flipped
    lean = np.random.default_rng(2).normal(0.0, 0.3, len(cells.n))
    found = doubt_scores(cells, R, lean, habits, ABILITY)
    errors = score_covariance(cells, R)
    asked = 0
    for k in range(12):
        mine = cells.annotator == k
        a, b, side = cells.model_a[mine], cells.model_b[mine], lean[mine]
        win, tie, loss = (x[mine] for x in (cells.wins_a, cells.ties, cells.wins_b))
        v = max(np.exp(habits.tie_log[k]), 2.0 * tie.sum() / (win.sum() + loss.sum() + 1.0))

        def log(scores: np.ndarray, ability: float, k: tuple[np.ndarray, ...] = (a, b, side, win, tie, loss)) -> float:
            one, two, lean, win, tie, loss = k
            y = 0.5 * (ability * (scores[one] - scores[two]) + lean)
            total = np.log(np.exp(y) + np.exp(-y) + v)  # noqa: B023  called in the same turn
            return float(((win - loss) * y - (win + tie + loss) * total).sum())

        step = 1e-6
        g = np.array(
            [(log(R + step * e, habits.typical) - log(R - step * e, habits.typical)) / step / 2 for e in np.eye(6)]
        )
        gain = g @ errors @ g
        if habits.ability[k] >= OPPOSED or gain < WORTH:
            assert not found[k].any()
            continue
        asked += 1
        move = errors @ g / np.sqrt(gain)
        expected = [logsumexp([log(R + t * move, x) for t in MOVES] + LOG_MOVES) - log(R, x) for x in ABILITY]
        np.testing.assert_allclose(found[k], expected, rtol=1e-5, atol=1e-6)
        assert found[k, 1] == pytest.approx(0.0, abs=1e-12), "a coin asks for no scores"
    assert asked >= 2


def test_judges_of_a_niche_are_not_framed() -> None:
    """Four attackers with 200 votes outvote ten judges with 51; without the scores' errors 8 % were flagged."""
    niche, judges, attackers = Niche(), [], []
    for seed in range(4):
        rating = rate(draw_niche(seed, niche), replace(SERVICE, exclude=True))
        assert rating is not None
        excluded = rating.annotators.standing == "excluded"
        judges.append(excluded[niche.crowd : niche.crowd + niche.judges].mean())
        attackers.append(excluded[niche.crowd + niche.judges :].mean())
    assert np.mean(judges) == 0.0
    assert np.mean(attackers) >= 0.75

"""The scores' errors: the covariance and what they add to likelihoods, beside the same written plainly."""

from collections.abc import Callable, Iterable
from dataclasses import replace

import numpy as np
import pytest
from scipy.special import expit, logsumexp
from scipy.stats import t as student

from app.rating.detection.habits import Habits, estimate_habits
from app.rating.detection.score_errors import (
    MOVES,
    OPPOSED,
    WORTH,
    count_judges,
    doubt_scores,
    find_score_errors,
    fit_evenly,
    limit_votes,
)
from app.rating.simulation.worlds import NATURAL_PER_ELO
from app.rating.votes.cells import Cells
from app.rating.votes.sided_cells import SidedCells
from stable_arena_lab.attacks.arena import Setup, draw_arena
from stable_arena_lab.defences.gains import SERVICE, rate
from stable_arena_lab.defences.niche import Niche, draw_niche

ABILITY = np.array([-0.8, 0.0, 0.4, 1.5])


@pytest.fixture(scope="module")
def flipped() -> tuple[Cells, np.ndarray, Habits]:
    """A crowd of twelve, four of whom vote against the ranking."""
    arena = draw_arena(3, "flip", Setup(n_annotators=12, votes_each=60, n_models=6, share=1 / 3))
    cells = arena.votes.cells()
    R = NATURAL_PER_ELO * (arena.public - 1000.0)
    return cells, R, estimate_habits(SidedCells.unknown(cells), R)


def _parts(limited: Cells, R: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the inverse of the information, across the shift, and each annotator's gradient, at ability 1."""
    design, rows = np.zeros((len(limited.n), 6)), np.arange(len(limited.n))
    design[rows, limited.model_a], design[rows, limited.model_b] = 1.0, -1.0
    p = expit(design @ R)
    information = design.T @ ((limited.n * p * (1.0 - p))[:, None] * design)
    gradient = np.zeros((12, 6))
    np.add.at(gradient, limited.annotator, (limited.s - limited.n * p)[:, None] * design)
    return np.linalg.pinv(information), gradient


def test_the_covariance_is_the_sandwich_of_annotators(flipped: tuple[Cells, np.ndarray, Habits]) -> None:
    cells, R, _ = flipped
    inverse, gradient = _parts(limit_votes(cells), R)
    expected = inverse @ gradient.T @ gradient @ inverse
    centre = np.eye(6) - 1.0 / 6.0
    np.testing.assert_allclose(
        centre @ find_score_errors(limit_votes(cells), R).covariance @ centre, expected, rtol=1e-5, atol=1e-7
    )


def _effective_judges(cells: Cells) -> np.ndarray:
    votes = np.zeros((cells.n_annotators, cells.n_models))
    np.add.at(votes, (cells.annotator, cells.model_a), cells.n)
    np.add.at(votes, (cells.annotator, cells.model_b), cells.n)
    return votes.sum(axis=0) ** 2 / (votes**2).sum(axis=0)


def test_scores_without_a_finite_maximum_stay_finite() -> None:
    """The first model won every vote."""
    one = np.ones(4)
    cells = Cells(np.arange(4), np.zeros(4, int), np.array([1, 2, 1, 2]), one, one, 0.0 * one, 4, 3)
    scores = fit_evenly(cells, np.zeros(3))
    assert np.isfinite(scores).all()
    assert scores[0] > scores[1:].max() + 3.0


def test_doubt_is_its_plain_twin(flipped: tuple[Cells, np.ndarray, Habits]) -> None:
    cells, R, habits = flipped
    lean = np.random.default_rng(2).normal(0.0, 0.3, len(cells.n))
    found = doubt_scores(cells, R, lean, habits, ABILITY, count_judges(cells))
    limited = limit_votes(cells)
    scores = [R, fit_evenly(limited, R)]
    parts = [_parts(limited, one) for one in scores]
    judges = _effective_judges(limited)
    asked = 0
    for k in range(12):
        mine = cells.annotator == k
        a, b, side = cells.model_a[mine], cells.model_b[mine], lean[mine]
        win, tie, loss = (x[mine] for x in (cells.wins_a, cells.ties, cells.wins_b))
        v = max(np.exp(habits.tie_log[k]), 2.0 * tie.sum() / (win.sum() + loss.sum() + 1.0))
        votes = (a, b, side, win, tie, loss, v)

        def log(scores: np.ndarray, ability: float, votes: tuple[np.ndarray, ...] = votes) -> float:
            one, two, lean, win, tie, loss, v = votes
            y = 0.5 * (ability * (scores[one] - scores[two]) + lean)
            total = np.log(np.exp(y) + np.exp(-y) + v)
            return float(((win - loss) * y - (win + tie + loss) * total).sum())

        def move(s: int, k: int = k, log: Callable[[np.ndarray, float], float] = log) -> tuple[np.ndarray, float]:
            step, at = 1e-6, scores[s]
            up, down = ([log(at + way * step * e, habits.typical) for e in np.eye(6)] for way in (1, -1))
            g = (np.array(up) - np.array(down)) / step / 2
            inverse, gradient = parts[s]
            others = np.delete(gradient, k, axis=0)
            along = inverse @ others.T @ others @ inverse @ g
            return along / np.sqrt(g @ along), g @ along

        if habits.ability[k] >= OPPOSED or move(0)[1] < WORTH:
            assert not found[k].any()
            continue
        asked += 1
        n = cells.n[mine]
        density = student.pdf(MOVES, (n @ (judges[a] + judges[b])) / n.sum() / 2.0 - 1.0)
        weight = np.log(density / density.sum() / 2.0)
        expected = [
            logsumexp(
                [log(scores[s] + t * move(s)[0], x) + w for s in (0, 1) for t, w in zip(MOVES, weight, strict=True)]
            )
            - log(R, x)
            for x in ABILITY
        ]
        np.testing.assert_allclose(found[k], expected, rtol=1e-5, atol=1e-6)
        assert found[k, 1] == pytest.approx(0.0, abs=1e-12), "a coin asks for no scores"
    assert asked >= 2


def _judged(seed: int, niche: Niche) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return which of the crowd and of the judges of the niche are excluded, and which attackers are flagged."""
    rating = rate(draw_niche(seed, niche), replace(SERVICE, exclude=True))
    assert rating is not None
    standing = np.split(rating.annotators.standing, [niche.crowd, niche.crowd + niche.judges])
    return standing[0] == "excluded", standing[1] == "excluded", standing[2] != "active"


@pytest.mark.parametrize(("judges", "seeds"), [(10, (20, 21, 22, 23)), (5, (20, 24, 26, 33, 36))])
def test_judges_of_a_niche_are_not_framed(judges: int, seeds: Iterable[int]) -> None:
    """Four attackers with 200 votes outvote the judges, who have 51.

    By the fit's scores alone each crowd with five judges lost some, and so did 20 and 23 with ten. The attackers are
    found as a group. Of the judges that the scores betray few are excluded: two of 25 where they are five.
    """
    trials = [_judged(seed, Niche(judges=judges)) for seed in seeds]
    assert np.mean([framed.mean() for _, framed, _ in trials]) <= 0.08 + 1e-9
    assert np.mean([attackers.mean() for _, _, attackers in trials]) >= 0.75


def test_attackers_with_most_votes_do_not_say_what_tastes_the_crowd_has() -> None:
    """Weighed by votes alone, four with 600 votes each made tests so careful that 17 of the crowd were excluded."""
    crowd, judges, attackers = _judged(107, Niche(framer_votes=600))
    assert not crowd.any()
    assert not judges.any()
    assert attackers.all()

"""Agreement with the other annotators on the same pair."""

import csv
import os
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from scipy.stats import spearmanr

from app.lab.simulate import SimulatedVotes, simulate_votes
from app.rating.data.votes import Cells, aggregate
from app.rating.detection.agreement import pair_agreement
from app.rating.results import LoopSettings
from app.rating.solver.estimate import estimate

MakeCells = Callable[[SimulatedVotes], Cells]


def judged_together(
    seed: int, shares: np.ndarray, pairs: int = 150, *, by_ranking: bool = False
) -> tuple[Cells, np.ndarray]:
    """Everybody judges every pair; annotator k follows the pair's own answer in a share of votes, else draws one.

    The answer has nothing to do with any ranking, unless `by_ranking`.
    """
    generator = np.random.default_rng(seed)
    a, b = np.array(np.triu_indices(20, 1))[:, generator.choice(190, pairs, replace=False)]
    answer = (a > b) * 1.0 if by_ranking else generator.choice([0.0, 0.5, 1.0], pairs, p=[0.4, 0.2, 0.4])
    drawn = generator.choice([0.0, 0.5, 1.0], (len(shares), pairs), p=[0.4, 0.2, 0.4])
    outcome = np.where(generator.random((len(shares), pairs)) < shares[:, None], answer, drawn)
    annotator, pair = (x.ravel() for x in np.indices(outcome.shape))
    cells = aggregate(annotator, a[pair], b[pair], outcome.ravel(), n_annotators=len(shares), n_models=20)
    return cells, np.zeros(20)


def test_the_share_of_votes_that_follow_the_pair_is_recovered() -> None:
    """Where many judge a pair their consensus is the pair's answer, whatever the ranking says."""
    shares = np.linspace(0.05, 0.95, 25)
    cells, R = judged_together(1, shares)
    found = pair_agreement(cells, R)
    assert spearmanr(found.agreement, shares)[0] > 0.97
    assert found.agreement[0] < 0.2
    assert found.agreement[-1] > 0.9


def test_the_errors_are_those_of_other_crowds() -> None:
    """Sixty alike annotators: their estimates scatter as their standard errors say."""
    found = pair_agreement(*judged_together(2, np.full(60, 0.6)))
    assert np.std(found.agreement, ddof=1) == pytest.approx(float(np.mean(found.se)), rel=0.4)


def test_where_nobody_else_judges_a_pair_the_ranking_does(cells_of: MakeCells) -> None:
    votes = simulate_votes(3, n_models=60, roles={"honest": 12, "random": 3, "flip": 3}, votes_each=80, score_sd=400)
    cells = cells_of(votes)
    R = (votes.world.score - 1000) * np.log(10) / 400
    found = pair_agreement(cells, R).agreement
    assert found[:12].min() > found[12:].max()
    blind = pair_agreement(cells, np.full(60, np.nan)).agreement
    assert found[:12].mean() > blind[:12].mean() + 0.1


def test_nobody_agrees_with_themselves() -> None:
    """The same votes cast many times over by the only judge of the pairs are no evidence."""
    one = aggregate(
        np.zeros(200, dtype=int), np.tile([0, 1], 100), np.tile([1, 2], 100), np.tile([1.0, 0.0], 100),
        n_annotators=2, n_models=3,
    )  # fmt: skip
    found = pair_agreement(one, np.zeros(3))
    assert found.agreement[0] == pytest.approx(0.5, abs=0.01)  # the prior's middle: there are wins both ways
    assert np.isnan(found.agreement[1])
    assert np.isnan(found.se[1])


def test_sides_and_names_change_nothing() -> None:
    cells, _ = judged_together(4, np.linspace(0.1, 0.9, 10))
    generator = np.random.default_rng(0)
    R, place = generator.normal(size=20), generator.permutation(20)
    swap = place[cells.model_a] > place[cells.model_b]
    a, b = place[cells.model_a], place[cells.model_b]
    renamed = Cells(
        cells.annotator, np.where(swap, b, a).astype(np.int32), np.where(swap, a, b).astype(np.int32),
        cells.n, np.where(swap, cells.n - cells.s, cells.s), cells.ties, 10, 20,
    )  # fmt: skip
    moved = np.empty(20)
    moved[place] = R
    np.testing.assert_allclose(pair_agreement(renamed, moved).agreement, pair_agreement(cells, R).agreement, atol=1e-12)


@pytest.mark.parametrize("outcome", [0.5, 1.0])
def test_votes_all_of_one_kind_have_an_answer(outcome: float) -> None:
    cells = aggregate(
        np.arange(6) % 3, np.zeros(6, int), np.ones(6, int), np.full(6, outcome), n_annotators=3, n_models=2
    )
    found = pair_agreement(cells, np.zeros(2))
    assert np.all((found.agreement > 0) & (found.agreement < 1))
    assert np.isfinite(found.se).all()


def test_no_votes_no_agreement() -> None:
    nothing = np.zeros(0, dtype=int)
    cells = aggregate(nothing, nothing, nothing, nothing.astype(float), n_annotators=2, n_models=2)
    assert np.isnan(pair_agreement(cells, np.zeros(2)).agreement).all()


def test_it_follows_the_competence_that_others_found(real_votes: Callable[[str], tuple[list[str], Cells]]) -> None:
    """Annotators with more than 50 votes: beyond the .63 of a simple agreement rate on three labels."""
    names, cells = real_votes("ukpconvarg1.csv")
    many = cells.votes_by_annotator() > 50
    fitted = estimate(cells.where(many[cells.annotator]), LoopSettings(interval="none"))
    found = pair_agreement(cells, fitted.scores(cells.n_models) * fitted.typical).agreement
    path = Path(os.environ["STABLE_ARENA_DATA"]) / "ukpconvarg1_mace_competence.csv"
    with path.open(newline="", encoding="utf-8") as file:
        competence = {row["annotator"]: float(row["mace_competence"]) for row in csv.DictReader(file)}
    theirs = np.array([competence[name] for name in names])
    assert many.sum() == 233
    rho = spearmanr(found[many], theirs[many])[0]
    print(f"Spearman correlation with MACE's competence: {rho:.3f}")
    assert rho > 0.72
    ability = fitted.abilities(cells.n_annotators)
    assert rho > spearmanr(ability[many], theirs[many])[0] + 0.1

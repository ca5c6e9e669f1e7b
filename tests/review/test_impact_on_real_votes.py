"""Impacts on real votes against true refits without the annotator."""

import csv
import os
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from scipy.stats import norm

from app.rating.settings import EVIDENCE_TESTS, TASTE_TESTS, LoopSettings
from app.rating.verdict.round import run_round
from app.refits.fit.interface import FitInput
from app.review.impact.leave_one_out import ScoreChange, leave_out
from tests.fixtures.fit_inputs import make_fit_input

OF_NO_MODEL = LoopSettings(
    prior_sd=1.0, evidence_tests=tuple(test for test in EVIDENCE_TESTS if test not in TASTE_TESTS)
)
"""Without what a refit does anew: the weights of groups, and the spread of the prior."""

OUTCOME = {"model_a": 1.0, "model_b": 0.0, "tie": 0.5}


@pytest.fixture(scope="module")
def task() -> FitInput:
    folder = os.environ.get("STABLE_ARENA_DATA")
    if not folder:
        pytest.skip("STABLE_ARENA_DATA is not set: no real votes")
    with (Path(folder) / "llmfao.csv").open(newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    annotators, annotator = np.unique([row["annotator"] for row in rows], return_inverse=True)
    models, model = np.unique([row[side] for side in ("model_a", "model_b") for row in rows], return_inverse=True)
    return make_fit_input(
        annotator, model[: len(rows)], model[len(rows) :], np.array([OUTCOME[row["winner"]] for row in rows]),
        n_annotators=len(annotators), n_models=len(models),
    )  # fmt: skip


def places(score: np.ndarray, se: np.ndarray) -> np.ndarray:
    """Expected place of each model: 1 and the probability of every other one to be above."""
    above = norm.cdf((score - score[:, None]) / np.hypot(se[:, None], se))
    np.fill_diagonal(above, 0.0)
    return 1.0 + above.sum(axis=1)


def compare(task: FitInput, how_many: int | None) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Foreseen and true changes of score, then of place, for annotators in the fit: one row for each."""
    cells = task.cells()
    base = run_round(cells, task.settings, weigher=task.weigher(task.settings.evidence_tests))
    unflagged = base.annotators.standing == "active"
    in_fit = cells.votes_by_annotator() > task.settings.min_votes
    chosen = np.flatnonzero(in_fit)
    if how_many is not None:
        ability = base.annotators.ability[chosen]
        chosen = chosen[np.argsort(ability)][np.linspace(0, len(chosen) - 1, how_many).astype(int)]
    foreseen, true = [], []
    for k in chosen.tolist():
        change: ScoreChange = leave_out(task, in_fit, unflagged, np.array([k]), exact=False)
        assert change.how == "influence"
        np.testing.assert_allclose(change.before, base.models.score, atol=1e-9)
        foreseen.append(change.after - change.before)
        without = run_round(
            cells.where(cells.annotator != k), replace(task.settings, interval="none"),
            weigher=task.weigher(task.settings.evidence_tests),
        )  # fmt: skip
        true.append(without.models.score - base.models.score)
    score, se = base.models.score, base.models.se
    moved = [np.array([places(score + row, se) - places(score, se) for row in rows]) for rows in (foreseen, true)]
    return np.array(foreseen), np.array(true), moved[0], moved[1]


def check(foreseen: np.ndarray, true: np.ndarray, place_foreseen: np.ndarray, place_true: np.ndarray) -> None:
    # Influence takes the weights of the other annotators' votes as they are; a refit makes them anew. With all votes at
    # weight 1 the correlation is .998, and the signs of all changes beyond .2 of a place are right.
    assert np.corrcoef(foreseen.ravel(), true.ravel())[0, 1] >= 0.98
    clear = np.abs(place_true) > 0.42
    assert clear.sum() > 10 * len(true)
    assert (np.sign(place_foreseen) == np.sign(place_true))[clear].mean() >= 0.99


def test_some_impacts_are_those_of_true_refits(task: FitInput) -> None:
    check(*compare(replace(task, settings=OF_NO_MODEL), 5))


@pytest.mark.soak
@pytest.mark.parametrize(
    "settings",
    [OF_NO_MODEL, replace(OF_NO_MODEL, bias_correction=False), replace(OF_NO_MODEL, min_votes=20)],
    ids=["default", "uncorrected", "more annotators"],
)
def test_all_impacts_are_those_of_true_refits(task: FitInput, settings: LoopSettings) -> None:
    compared = compare(replace(task, settings=settings), None)
    check(*compared)
    foreseen, true, place_foreseen, place_true = compared
    clear = np.abs(place_true) > 0.2
    assert np.corrcoef(place_foreseen.ravel(), place_true.ravel())[0, 1] >= 0.99
    wrong = int((np.sign(place_foreseen) != np.sign(place_true))[clear].sum())
    correlation = np.corrcoef(foreseen.ravel(), true.ravel())[0, 1]
    print(f"\n{len(true)} annotators: correlation {correlation:.5f}, {wrong} of {clear.sum()} places wrong")


def test_a_true_refit_is_one(task: FitInput) -> None:
    cells = task.cells()
    in_fit = cells.votes_by_annotator() > task.settings.min_votes
    k = int(np.flatnonzero(in_fit)[3])
    weigher = task.weigher(task.settings.evidence_tests)
    unflagged = run_round(cells, task.settings, weigher=weigher).annotators.standing == "active"
    change = leave_out(task, in_fit, unflagged, np.array([k]), exact=True)
    assert change.how == "refit"
    without = run_round(cells.where(cells.annotator != k), task.settings, weigher=weigher).models
    np.testing.assert_allclose(change.after, without.score, atol=1e-5)
    assert change.rank is not None
    np.testing.assert_array_equal(change.rank, without.rank)

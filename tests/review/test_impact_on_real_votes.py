"""Impacts on real votes are what the refit after the decision publishes."""

import csv
import os
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from app.refits.fit.fit import fit_snapshot
from app.refits.fit.interface import FitInput
from app.review.impact.leave_one_out import leave_out
from tests.fixtures.fit_inputs import make_fit_input

OUTCOME = {"model_a": 1.0, "model_b": 0.0, "tie": 0.5}


def read_votes(name: str) -> FitInput:
    folder = os.environ.get("STABLE_ARENA_DATA")
    if not folder:
        pytest.skip("STABLE_ARENA_DATA is not set: no real votes")
    with (Path(folder) / name).open(newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    annotators, annotator = np.unique([row["annotator"] for row in rows], return_inverse=True)
    models, model = np.unique([row[side] for side in ("model_a", "model_b") for row in rows], return_inverse=True)
    return make_fit_input(
        annotator,
        model[: len(rows)],
        model[len(rows) :],
        np.array([OUTCOME[row["winner"]] for row in rows]),
        n_annotators=len(annotators),
        n_models=len(models),
    )


@pytest.fixture(scope="module")
def task() -> FitInput:
    return read_votes("llmfao.csv")


def compare_with_refits(task: FitInput, annotators: list[int]) -> None:
    """Decide on each of these annotators, and compare what is foreseen with the refit after it."""
    before = fit_snapshot(task, comparisons=False).models
    for k in annotators:
        change = leave_out(task, np.array([k]))
        decided = task.overrides.astype("<U8")
        decided[k] = "excluded"
        after = fit_snapshot(replace(task, overrides=decided), comparisons=False).models
        np.testing.assert_array_equal(change.before, before.score)
        if change.inside:
            np.testing.assert_array_equal(change.after, after.score)
            np.testing.assert_array_equal(change.rank, np.where(after.ranked, after.rank, 0))


@pytest.mark.parametrize("exclude", [False, True])
def test_an_impact_is_the_refit_after_the_decision(task: FitInput, exclude: bool) -> None:
    """Of every twelfth annotator in the fit, and of one outside; where the policy excludes, others' standings too."""
    task = replace(task, settings=replace(task.settings, exclude=exclude))
    votes = task.cells().votes_by_annotator()
    inside = np.flatnonzero(votes > task.settings.min_votes)
    compare_with_refits(task, [*inside[::12].tolist(), int(np.argmin(votes))])


@pytest.mark.campaign
@pytest.mark.parametrize("name", ["llmfao.csv", "lightfield.csv"])
def test_every_impact_is_the_refit_after_the_decision(name: str) -> None:
    task = read_votes(name)
    compare_with_refits(task, list(range(len(task.overrides))))


def test_whoever_is_let_in_counts_with_few_votes(task: FitInput) -> None:
    votes = task.cells().votes_by_annotator()
    few = int(np.argmin(votes))
    assert 0 < votes[few] <= task.settings.min_votes
    change = leave_out(task, np.array([few]))
    assert not change.inside
    assert 0 < np.abs(change.after - change.before).max() < 20

"""How much votes that count weigh in the scores."""

import numpy as np
import pytest

from app.rating.settings import EVIDENCE_TESTS, LoopSettings
from app.rating.simulation.worlds import simulate_votes
from app.rating.types.evidence import Weigher
from app.rating.verdict.counted import count_by_weight
from app.rating.verdict.round import run_round
from app.rating.votes.cells import aggregate
from app.rating.votes.features import SidedCells


def test_one_who_votes_far_more_than_others_counts_less_by_the_limit() -> None:
    votes = simulate_votes(5, n_models=6, roles={"honest": 30}, votes_each=60)
    columns = [np.concatenate([each, np.tile(each[votes.annotator == 0], 9)]) for each in (
        votes.annotator, votes.model_a, votes.model_b, votes.outcome
    )]  # fmt: skip
    rating = run_round(aggregate(*columns, **votes.sizes), LoopSettings(min_votes=0))
    found = count_by_weight(rating)
    together = found.full + found.pushed + found.many
    np.testing.assert_array_equal(together, rating.cells.votes_by_annotator())
    assert (found.many > 0.0).tolist() == [True] + [False] * 29
    on_model = np.bincount(np.concatenate([columns[1], columns[2]])[np.tile(columns[0] == 0, 2)], minlength=6)
    others = [np.bincount(np.concatenate([columns[1], columns[2]])[np.tile(columns[0] == k, 2)], minlength=6)
              for k in range(1, 30)]  # fmt: skip
    judges = np.vstack([on_model, *others])
    plain = 1.25 * judges.mean(axis=0) + 5.0
    limit = 1.25 * np.minimum(judges, plain).mean(axis=0) + 5.0
    mine = columns[0] == 0
    weight = np.minimum(limit / on_model, 1.0)
    worth = np.minimum(weight[columns[1][mine]], weight[columns[2][mine]]).sum()
    assert found.many_worth[0] + found.full[0] == pytest.approx(worth)
    np.testing.assert_array_equal(found.pushed, np.zeros(30))


def test_votes_that_push_a_model_count_less() -> None:
    votes = simulate_votes(2, n_models=12, roles={"honest": 44, "clique": 4}, votes_each=150)
    columns = votes.annotator, votes.model_a, votes.model_b, votes.outcome
    weigher = Weigher(SidedCells.of_votes(*columns, **votes.sizes), EVIDENCE_TESTS)
    rating = run_round(aggregate(*columns, **votes.sizes), LoopSettings(min_votes=0), weigher=weigher)
    found, target = count_by_weight(rating), votes.world.target
    on_target = (votes.model_a == target) | (votes.model_b == target)
    for k in range(44, 48):
        assert found.pushed[k] == on_target[votes.annotator == k].sum()
        assert found.pushed_worth[k] < 0.2 * found.pushed[k]
        assert found.full[k] + found.pushed[k] + found.many[k] == 150


def test_without_abilities_every_vote_counts_in_full() -> None:
    votes = simulate_votes(1, n_models=6, roles={"honest": 10}, votes_each=40)
    cells = aggregate(votes.annotator, votes.model_a, votes.model_b, votes.outcome, **votes.sizes)
    found = count_by_weight(run_round(cells, LoopSettings(min_votes=0, method="m-elo", flag_rule="threshold")))
    assert found.full.tolist() == [40.0] * 10

from dataclasses import replace
from functools import partial

import numpy as np
import pytest

from stable_arena_lab import prediction
from stable_arena_lab.agreement import log_loss
from stable_arena_lab.arenas import Arena, paper_arena
from stable_arena_lab.methods import Method, Rated, rate
from stable_arena_lab.prediction import HELD_OUT, PAPER, predict, predict_once


def test_one_row_a_method_with_the_papers_figures_beside(arena: Arena) -> None:
    rows = {row.method: row for row in predict(partial(_same, arena), range(3), shuffles=20)[0]}
    assert list(rows) == ["elo", "elo bootstrap", "m-elo", "am-elo plain", "am-elo robust"]
    for method, row in rows.items():
        assert (row.splits, row.answered, row.unpredicted) == (3, 3, 0.0)
        assert row.mse is not None
        assert row.auc is not None
        assert 0.05 < row.mse < 0.2
        assert 0.7 < row.auc < 0.95
        assert row.published_auc is not None
        assert 0.6 < row.published_auc < row.auc  # ties are hard to tell from votes for one side
        paper = (row.paper_mse, row.paper_mse_sd, row.paper_auc, row.paper_auc_sd)
        assert paper == PAPER.get(method, (None,) * 4)
    robust = rows["am-elo robust"]
    assert (robust.mse_lead, robust.auc_lead) == (0.0, 0.0)


def test_four_fifths_are_fitted_and_the_rest_is_predicted(arena: Arena, monkeypatch: pytest.MonkeyPatch) -> None:
    fitted: list[Arena] = []

    def spy(votes: Arena, method: Method, **options: int) -> Rated | None:
        fitted.append(votes)
        return rate(votes, method, **options)

    monkeypatch.setattr(prediction, "rate", spy)
    first, other = (prediction.predict_once(partial(_same, arena), seed, shuffles=2) for seed in (0, 1))
    assert {votes.n_votes for votes in fitted} == {4321 - 864}
    assert first != other


def test_knowing_the_contrary_predicts_better_than_taking_all_alike(arena: Arena) -> None:
    contrary = arena.with_outcome(np.where(arena.annotator < 12, 1.0 - arena.outcome, arena.outcome))
    rows = {row.method: row for row in predict(partial(_same, contrary), range(2), shuffles=20)[0]}
    lead = rows["m-elo"].mse_lead
    assert lead is not None
    assert lead > 0.02
    assert (rows["m-elo"].auc_lead or 0.0) < -0.05


def test_the_default_loses_nothing_against_the_plain_estimator_on_clean_votes() -> None:
    plain = next(row for row in predict(paper_arena, range(5), shuffles=2)[0] if row.method == "am-elo plain")
    assert plain.mse_lead is not None
    assert plain.auc_lead is not None
    assert plain.mse_lead > -0.0005
    assert plain.auc_lead < 0.002


def test_a_model_without_a_score_is_predicted_one_half_and_counted() -> None:
    arena = paper_arena(0)
    strange = replace(
        arena, n_models=21, truth=None, model_a=np.where(np.arange(arena.n_votes) % 40 == 0, 20, arena.model_a)
    )
    always_won = strange.with_outcome(np.where(strange.model_a == 20, 1.0, strange.outcome))
    split = predict_once(partial(_same, always_won), 0, shuffles=2)["am-elo robust"]
    assert split is not None
    assert 0.01 < split.unpredicted < 0.05


def test_losses_by_model_are_those_of_the_held_out_votes_on_it(arena: Arena) -> None:
    _, losses = predict(partial(_same, arena), [4], shuffles=2)
    order = np.random.default_rng(4).permutation(arena.n_votes)
    test, train = np.split(order, [round(HELD_OUT * arena.n_votes)])
    fit, held_out = rate(arena.take(np.sort(train)), "m-elo"), arena.take(test)
    assert fit is not None
    assert arena.truth is not None
    by_model = {row.model: row for row in losses if row.method == "m-elo"}
    assert list(by_model) == [f"place {place:2d}" for place in range(1, 21)]
    for place, model in enumerate(np.argsort(-arena.truth), start=1):
        on_it = held_out.take(np.flatnonzero((held_out.model_a == model) | (held_out.model_b == model)))
        found = by_model[f"place {place:2d}"]
        assert found.votes == on_it.n_votes
        assert found.loss == pytest.approx(log_loss(fit.predict(on_it), on_it.outcome))


@pytest.mark.campaign
def test_the_number_of_processes_changes_nothing(arena: Arena) -> None:
    source = partial(_same, arena)
    assert predict(source, [0, 1], shuffles=2, processes=2) == predict(source, [0, 1], shuffles=2)


def test_progress_is_reported_after_every_split(arena: Arena) -> None:
    shares: list[float] = []
    predict(partial(_same, arena), range(4), shuffles=2, progress=shares.append)
    assert shares == pytest.approx([0.25, 0.5, 0.75, 1.0])


def _same(arena: Arena, _seed: int) -> Arena:
    return arena

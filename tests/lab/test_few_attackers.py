"""What is foreseen of few attackers is what a fit with them finds, or it is left to the fit."""

import numpy as np
import pytest

from app.lab import budget, few_attackers
from app.lab.attacks.arena import Setup, draw_arena
from app.lab.attacks.joining import Attack, join
from app.lab.budget import _Trials, attack_budget
from app.lab.few_attackers import FewAttackers
from app.rating.data.votes import Cells
from app.rating.inference.estimate import estimate
from app.rating.loop.round import run_round
from app.rating.settings import LoopSettings

SETTINGS = LoopSettings(min_votes=0, interval="none")
NUMBERS = (1, 2, 3, 5, 7)
CHOSEN = Attack(votes_each=60, chosen=True)


@pytest.fixture(scope="module")
def cells() -> Cells:
    return draw_arena(2, "none", Setup(n_annotators=360, votes_each=50)).votes.cells()


@pytest.mark.parametrize("strategy", ["target-only", "mimic"])
@pytest.mark.parametrize("corrected", [True, False], ids=["corrected", "uncorrected"])
def test_what_is_foreseen_is_what_fits_find(cells: Cells, strategy: str, corrected: bool) -> None:
    settings = LoopSettings(min_votes=0, interval="none", bias_correction=corrected)
    foreseen, found = [], []
    for chosen in (False, True):
        trials = _Trials(cells, settings, Attack(strategy, 60, chosen), 7, 0)
        few, trials.few = trials.few, None
        assert few is not None
        board = trials.turn.rating.models
        for model in np.flatnonzero((board.rank > 1) & (board.rank < 6)).tolist():
            fitted = trials.lifts(model)
            foreseen += [few.lift(model, trials.attackers(model, number)) for number in NUMBERS]
            found += [fitted(number) for number in NUMBERS]
    told = [(mine, true) for mine, true in zip(foreseen, found, strict=True) if mine is not None]
    assert all(mine is true for mine, true in told)
    assert {mine for mine, _ in told} == {True, False}
    assert len(told) > 0.75 * len(found)


@pytest.mark.parametrize("corrected", [True, False], ids=["corrected", "uncorrected"])
def test_scores_are_foreseen_closer_than_what_is_held_in_doubt(cells: Cells, corrected: bool) -> None:
    """But for their scale, which ranks do not hang on."""
    settings = LoopSettings(min_votes=0, interval="none", bias_correction=corrected)
    trials = _Trials(cells, settings, CHOSEN, 7, 0)
    assert trials.few is not None
    for rank in (2, 3, 4):
        attackers = trials.attackers(int(np.argmax(trials.turn.rating.models.rank == rank)), 7)
        foreseen, _ = trials.few._scores(attackers)
        fitted = estimate(join(cells, attackers), settings).solution.R
        foreseen, fitted, before = (R - R.mean() for R in (foreseen, fitted, trials.turn.estimate.solution.R))
        scale = (foreseen @ fitted) / (fitted @ fitted)
        moved = np.abs(scale * fitted - before).max()
        assert moved > 0.2
        assert np.abs(foreseen - scale * fitted).max() < few_attackers.DOUBT * moved


def test_the_budget_is_the_one_that_fits_find(cells: Cells, monkeypatch: pytest.MonkeyPatch) -> None:
    turn = run_round(cells, SETTINGS)
    fits = []
    monkeypatch.setattr(budget, "run_round", lambda *votes, **rest: fits.append(votes) or run_round(*votes, **rest))

    def places() -> tuple[list[budget.Place], int]:
        fits.clear()
        found = attack_budget(cells, SETTINGS, turn=turn, attack=CHOSEN, places=4, most=7, seconds=600.0).places
        return found, len(fits)

    quick, few_fits = places()
    monkeypatch.setattr(few_attackers, "FEW", 0.0)
    thorough, all_fits = places()
    assert quick == thorough
    assert few_fits < all_fits


def test_what_cannot_be_foreseen_is_left_to_fits(cells: Cells) -> None:
    turn = run_round(cells, SETTINGS)
    trials = _Trials(cells, SETTINGS, CHOSEN, 8, 0, turn)
    assert trials.few is not None
    model = int(np.argmax(turn.rating.models.rank == 2))
    assert trials.few.lift(model, trials.attackers(model, 8)) is None  # more than one in fifty
    assert FewAttackers.of(turn.estimate, LoopSettings(min_votes=0, exclude=True)) is None
    assert FewAttackers.of(turn.estimate, LoopSettings(min_votes=0, prior_sd="estimated")) is None
    assert _Trials(cells, LoopSettings(min_votes=60), CHOSEN, 8, 0, turn).few is None  # they would be pending
    m_elo = LoopSettings(min_votes=0, method="m-elo", interval="none")
    assert FewAttackers.of(run_round(cells, m_elo).estimate, m_elo) is None
    # a model that only lost has no score: attackers' votes could give it one
    loser = turn.rating.models.rank.argmax()
    beaten = (cells.model_a == loser) | (cells.model_b == loser)
    lost = Cells(
        cells.annotator, cells.model_a, cells.model_b, cells.n,
        np.where(beaten, np.where(cells.model_a == loser, 0.0, cells.n), cells.s), np.where(beaten, 0.0, cells.ties),
        cells.n_annotators, cells.n_models,
    )  # fmt: skip
    assert FewAttackers.of(run_round(lost, SETTINGS).estimate, SETTINGS) is None


def test_a_step_that_leads_nowhere_is_no_answer(cells: Cells) -> None:
    """Attackers who vote against everybody make the system at the fit indefinite; the fit itself decides."""
    trials = _Trials(cells, SETTINGS, CHOSEN, 7, 0)
    assert trials.few is not None
    trials.few._arrow.S[:] *= -1.0
    model = int(np.argmax(trials.turn.rating.models.rank == 2))
    assert trials.few.lift(model, trials.attackers(model, 3)) is None

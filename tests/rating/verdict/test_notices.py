"""Unusual votes and fits have notices, in the result and in its JSON."""

import dataclasses
import json

import numpy as np
import pytest

from app.rating.errors import RatingNotice
from app.rating.settings import LoopSettings
from app.rating.simulation.worlds import simulate_votes
from app.rating.verdict.rating import Rating
from app.rating.verdict.round import run_round
from app.rating.votes.cells import Cells, aggregate

ALL = LoopSettings(min_votes=0)


def votes(*rows: tuple[int, int, int, float, int], models: int, annotators: int) -> Cells:
    """Rows of (annotator, model_a, model_b, W, how often)."""
    k, a, b, w, times = (np.array(column) for column in zip(*rows, strict=True))
    columns = (np.repeat(column, times) for column in (k, a, b, w.astype(float)))
    return aggregate(*columns, n_annotators=annotators, n_models=models)


def codes(rating: Rating) -> list[str]:
    return [notice.code for notice in rating.diagnostics.warnings]


def honest(annotators: int = 24, models: int = 4) -> list[tuple[int, int, int, float, int]]:
    """Everybody prefers the lower index two times in three."""
    pairs = [(a, b) for a in range(models) for b in range(a + 1, models)]
    return [(k, a, b, w, times) for k in range(annotators) for a, b in pairs for w, times in ((1.0, 8), (0.0, 4))]


def test_an_ordinary_crowd_is_nothing_to_speak_of() -> None:
    cells = votes(*honest(), models=4, annotators=24)
    assert run_round(cells, ALL).diagnostics.warnings == ()


@pytest.mark.parametrize(
    ("rows", "models", "code"),
    [
        ([(0, 0, 1, 0.5, 1)], 2, "one-vote"),
        ([(0, 0, 1, 1.0, 9), (0, 0, 1, 0.0, 4)], 2, "two-models"),
        ([(0, 0, 1, 1.0, 9), (0, 0, 1, 0.0, 4)], 2, "one-annotator"),
        ([(0, 0, 1, 0.5, 9), (0, 1, 2, 0.5, 4)], 3, "all-tied"),
        ([(0, 0, 1, 0.5, 9), (0, 2, 3, 0.5, 4)], 4, "disconnected-graph"),
        ([(0, 0, 1, 0.5, 9), (0, 2, 1, 1.0, 4)], 3, "no-finite-score"),
        ([(0, 0, 1, 1.0, 9), (0, 0, 1, 0.0, 4)], 2, "few-annotators"),
        ([*honest(), *((k, 4, k, w, 9) for k in (0, 3) for w in (0.0, 1.0))], 5, "few-judges"),
        ([*honest(), (24, 0, 1, 1.0, 20), (24, 1, 2, 1.0, 20)], 4, "always-right"),
        ([*honest(), (24, 0, 1, 0.0, 20), (24, 1, 2, 0.0, 20)], 4, "always-wrong"),
        ([*honest(), *((24 + k, a, b, 1.0 - w, n) for k, a, b, w, n in honest() if k < 17)], 4, "opposed-camps"),
    ],
)
def test_votes_that_need_a_word(rows: list[tuple[int, int, int, float, int]], models: int, code: str) -> None:
    rating = run_round(votes(*rows, models=models, annotators=1 + max(row[0] for row in rows)), ALL)
    assert code in codes(rating)
    assert all(notice.detail for notice in rating.diagnostics.warnings)


def test_a_minority_is_no_camp() -> None:
    few = [(24 + k, a, b, 1.0 - w, n) for k, a, b, w, n in honest() if k < 15]
    assert "opposed-camps" not in codes(run_round(votes(*honest(), *few, models=4, annotators=39), ALL))


def test_m_elo_has_nothing_to_say_of_abilities() -> None:
    rows = [*honest(), (24, 0, 1, 1.0, 20)]
    rating = run_round(votes(*rows, models=4, annotators=25), LoopSettings(method="m-elo", min_votes=0))
    assert codes(rating) == []


def test_an_ability_of_exactly_zero() -> None:
    """Without a prior only: the prior would pull it towards 1."""
    rows = [row for row in honest() if row[0] < 3] + [(3, 0, 1, 0.5, 400), (3, 1, 2, 0.5, 400)]
    settings = LoopSettings(min_votes=0, prior_sd=None)
    assert "zero-ability" in codes(run_round(votes(*rows, models=4, annotators=4), settings))


def test_diagnostics_are_json() -> None:
    simulated = simulate_votes(6, n_models=2, roles={"honest": 30}, ability_sd=0.0)
    cells = aggregate(simulated.annotator, simulated.model_a, simulated.model_b, simulated.outcome, **simulated.sizes)
    rating = run_round(cells, LoopSettings())
    stored = json.loads(json.dumps(dataclasses.asdict(rating.diagnostics), allow_nan=False))
    read = [RatingNotice(**{**notice, "models": tuple(notice["models"])}) for notice in stored["warnings"]]
    assert read == list(rating.diagnostics.warnings)
    assert stored["warnings"]


def test_many_models_are_named_in_part() -> None:
    notice = RatingNotice("code", "a few", tuple(range(7)))
    assert notice.named("abcdefg") == {
        "code": "code", "detail": "a few: a, b, c, d, e and 2 more", "models": list("abcdefg"),
    }  # fmt: skip
    assert RatingNotice("code", "nothing").named("ab")["detail"] == "nothing"


def test_copies_of_an_annotator_have_a_notice() -> None:
    """Four keys of one person beside eight others."""
    drawn = simulate_votes(2, n_models=10, roles={"honest": 9}, votes_each=200, score_sd=60.0)
    mine = drawn.annotator == 0
    columns = [drawn.annotator, drawn.model_a, drawn.model_b, drawn.outcome]
    for copy in range(9, 12):
        own = [np.full(mine.sum(), copy), *(column[:1800][mine] for column in columns[1:])]
        columns = [np.append(column, more) for column, more in zip(columns, own, strict=True)]
    rating = run_round(aggregate(*columns, n_annotators=12, n_models=10), ALL)
    assert "copies" in codes(rating)
    detail = next(notice.detail for notice in rating.diagnostics.warnings if notice.code == "copies")
    assert detail.startswith("4 annotators")

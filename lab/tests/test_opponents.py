"""Single annotators, and the choice of opponents: the am-ELO paper's Figures 1 and 4."""

from dataclasses import replace

import numpy as np
import pytest

from app.rating.plain.elo import fit_elo
from stable_arena_lab.alone import rate_alone
from stable_arena_lab.arenas import Arena
from stable_arena_lab.opponents import avoiding_arena, compare_opponents, tabulate_records


def test_each_annotator_alone_is_elo_on_the_own_votes(arena: Arena) -> None:
    points, spreads = rate_alone(arena, shuffles=20)
    own = arena.take(np.flatnonzero(arena.annotator == 7))
    expected = fit_elo(own.model_a, own.model_b, own.outcome, n_models=arena.n_models, shuffles=20).score
    found = {point.model: point.score for point in points if point.annotator == 7}
    assert found == {arena.name_of(i): pytest.approx(expected[i]) for i in np.unique([own.model_a, own.model_b])}
    of_first = [p.score for p in points if p.model == spreads[0].model]
    assert (spreads[0].annotators, spreads[0].least, spreads[0].most) == (len(of_first), min(of_first), max(of_first))
    assert spreads[0].range == spreads[0].most - spreads[0].least
    assert spreads[0].sd == pytest.approx(np.std(of_first, ddof=1))


def test_annotators_who_differ_are_further_apart_than_votes_dealt_at_random(arena: Arena) -> None:
    """Half of them vote the opposite of their opinion: of what they say nothing is left when the votes are dealt."""
    contrary = replace(arena, outcome=np.where(arena.annotator % 2, 1.0 - arena.outcome, arena.outcome))
    for votes, least, most in ((arena, 0.8, 1.2), (contrary, 1.1, 2.0)):
        _, spreads = rate_alone(votes, shuffles=20)
        ratio = np.mean([row.range for row in spreads]) / np.mean([row.dealt_range for row in spreads])
        assert least < ratio < most


def test_records_are_against_better_and_worse_models() -> None:
    """Model 0 beats 1 and ties with 2; 1 beats 2. Model 3 has no score."""
    a, b = np.array([0, 0, 1, 0]), np.array([1, 2, 2, 3])
    votes = Arena("four", np.zeros(4, dtype=int), a, b, np.array([1.0, 0.5, 1.0, 1.0]), 1, 4)
    rows = tabulate_records(votes, np.array([3.0, 2.0, 1.0, np.nan]))
    assert [(row.better_votes, row.better_won, row.worse_votes, row.worse_won) for row in rows] == [
        (0, None, 2, 0.75),
        (1, 0.0, 1, 1.0),
        (2, 0.25, 0, None),
        (0, None, 0, None),
    ]


def test_elo_inflates_the_model_that_avoids_strong_opponents_and_maximum_likelihood_does_not() -> None:
    """The am-ELO paper's claim (Figure 4)."""
    arena = avoiding_arena(0)
    assert arena.truth is not None
    strong = arena.truth > np.median(arena.truth[2:])
    for model, meets_strong in ((0, False), (1, True)):
        opponents = np.concatenate([arena.model_b[arena.model_a == model], arena.model_a[arena.model_b == model]])
        assert len(opponents) > 300
        assert set(strong[opponents]) == {meets_strong}
    rows = {row.method: row for row in compare_opponents(range(8), shuffles=20)}
    elo = rows["elo"]
    assert elo.gap is not None
    assert elo.gap_se is not None
    assert elo.gap > 20 > 2 * elo.gap_se
    for method in ("m-elo", "am-elo plain", "am-elo robust"):
        gap, error = rows[method].gap, rows[method].gap_se
        assert gap is not None
        assert error is not None
        assert abs(gap) < 3 * error

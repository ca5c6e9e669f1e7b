"""Attackers who know the rule: their votes, what they gain by place, and the search for the best of them."""

import json
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from typer.testing import Result

from stable_arena_lab.attacks.arena import LEAD, Setup, draw_arena
from stable_arena_lab.attacks.tuned import TUNED, Tuning, draw_tuned
from stable_arena_lab.defences.gains import BOARDS, Contest, measure
from stable_arena_lab.defences.search import Case, Effort, find_best, search_all

RunLab = Callable[..., Result]
SETUP = Setup(n_annotators=40, votes_each=60)
QUICK = Effort(generations=2, population=6, crowds=2)


def test_the_honest_votes_are_those_of_the_other_attacks() -> None:
    tuned, known = draw_tuned(3, TUNED["able favourer"], SETUP), draw_arena(3, "target-only", SETUP)
    np.testing.assert_array_equal(tuned.clean().outcome, known.clean().outcome)
    assert (tuned.target, tuned.attacker.sum()) == (known.target, 4)
    assert np.bincount(tuned.votes.annotator).tolist() == [60] * 40
    assert np.sort(tuned.votes.time).tolist() == list(range(2_400))


def test_what_the_tunings_do() -> None:
    setup = replace(SETUP, votes_each=400)

    def votes_of(tuning: Tuning) -> tuple[np.ndarray, ...]:
        arena = draw_tuned(5, tuning, setup)
        mine = arena.attacker[arena.votes.annotator]
        v = arena.votes
        order = np.lexsort((v.time[mine], v.annotator[mine]))
        left, right, outcome = (x[mine][order] for x in (v.left, v.right, v.outcome))
        own = (left == arena.target) | (right == arena.target)
        opponent = np.where(left == arena.target, right, left)
        return own, np.where(left == arena.target, outcome, 1.0 - outcome), arena.public, arena.target, opponent  # type: ignore[return-value]

    own, won, *_ = votes_of(Tuning())
    assert own.mean() == pytest.approx(0.1, abs=0.03)
    assert (won[own] == 1.0).all()
    own, won, public, target, opponent = votes_of(Tuning(chosen=0.5, gap=100.0))
    assert own.mean() == pytest.approx(0.55, abs=0.04)
    near = np.abs(public[opponent] - public[target]) <= 100.0
    assert (won[own & near] == 1.0).all()
    assert (won[own & ~near] == 0.0).any()  # honest about models further off
    own, won, *_ = votes_of(Tuning(honest_first=0.5, ability=3.0))
    early = np.tile(np.arange(400) < 200, 4)
    assert (won[own & ~early] == 1.0).all()
    assert won[own & early].mean() < 0.4  # the last but one
    own, won, *_ = votes_of(Tuning(rate=0.0, ties=0.0))
    assert not (won == 0.5).any()
    first, second = (draw_tuned(5, Tuning(vendors=n), setup) for n in (1, 2))
    other = int(np.argsort(second.public)[0])
    pushes = (second.votes.annotator == 39) & (second.votes.left == other)
    assert (second.votes.outcome[pushes] == 1.0).all()
    assert (first.votes.outcome[pushes] == 0.0).any()


def test_close_leaders_are_ten_points_apart() -> None:
    arena = draw_arena(1, "none", replace(SETUP, leaders=6, target=15))
    best = np.sort(arena.score)[::-1]
    np.testing.assert_allclose(-np.diff(best[:6]), LEAD)
    assert best[5] > best[6]


def test_gains_are_those_over_the_same_leaderboard_of_the_honest_votes() -> None:
    contest = Contest(2, SETUP)
    nothing = contest.attack(Tuning(ability=1.0, rate=0.0))
    assert all(abs(outcome.ranks) <= 1.0 for outcome in nothing.values())
    mimic = contest.attack("mimic")
    assert mimic["flagged excluded"].found == 1.0
    assert mimic["flagged excluded"].ranks <= mimic["flagged stay"].ranks < mimic["m-elo"].ranks
    assert mimic["flagged excluded"].points < mimic["flagged stay"].points < 0.1 * mimic["m-elo"].points
    gains = {gain.board: gain for gain in measure("mimic", SETUP, seeds=range(2))}
    assert set(gains) == set(BOARDS)
    assert gains["m-elo"].points > 20.0  # type: ignore[operator]
    stay = gains["flagged stay"]
    assert stay.beyond == pytest.approx(stay.ranks - gains["m-elo"].ranks)  # type: ignore[operator]  # both rated
    assert (gains["m-elo"].beyond, gains["m-elo"].beyond_se) == (0.0, 0.0)


@pytest.mark.campaign
def test_the_search_beats_a_guess_and_repeats_itself() -> None:
    board = BOARDS["m-elo"]
    found = find_best(SETUP, board, QUICK, choose=True)
    assert found == find_best(SETUP, board, QUICK, choose=True)
    assert found.chosen > 0.3
    contests = [Contest(seed, SETUP, {"m-elo": board}) for seed in range(3)]
    gained, guessed = (
        np.mean([contest.attack(tuning)["m-elo"].points for contest in contests]) for tuning in (found, Tuning())
    )
    assert gained > 2.0 * guessed
    assert find_best(SETUP, board, QUICK, choose=False).chosen == 0.0


@pytest.mark.campaign
def test_a_search_reports_the_gains_on_fresh_crowds_and_on_every_leaderboard() -> None:
    (found,) = search_all([Case(SETUP, "flagged stay", choose=False)], QUICK, seeds=range(2))
    assert [gain.board for gain in found.gains] == list(BOARDS)
    assert found.gains[0].failed == 0


def test_framing_in_a_niche(run_lab: RunLab) -> None:
    arguments = ["--judges", 10, "--repeats", 2, "--processes", 1, "--format", "json"]
    result = run_lab("niche", *arguments)
    assert result.exit_code == 0, result.stderr
    rows = json.loads(result.stdout)["framed"]
    assert [(row["judges"], row["board"]) for row in rows] == [(10, "flagged stay"), (10, "flagged excluded")]
    assert all(row["may_exclude"] == 0.0 and row["flagged"] <= 0.2 and row["found"] == 1.0 for row in rows)
    none = json.loads(run_lab("niche", "--framers", 0, *arguments).stdout)["framed"]
    assert none[0]["found"] is None


@pytest.mark.campaign
def test_the_commands(run_lab: RunLab) -> None:
    small = ["--annotators", 20, "--votes-each", 51, "--repeats", 1, "--processes", 1, "--format", "json"]
    result = run_lab("places", "--attack", "able favourer", "--target", 10, *small)
    assert result.exit_code == 0, result.stderr
    rows = json.loads(result.stdout)["gains"]
    assert [(row["place"], row["board"]) for row in rows] == [
        (place, board) for place in ("10", "5th of six leaders") for board in BOARDS
    ]
    search = ["--generations", 1, "--population", 4, "--crowds", 1, "--no-leaders", "--no-choose", "--target", 2]
    result = run_lab("adaptive", *search, *small)
    assert result.exit_code == 0, result.stderr
    rows = json.loads(result.stdout)["attacks"]
    assert [row["board"] for row in rows] == list(BOARDS)
    assert all(row["chosen"] == 0.0 for row in rows)
    assert run_lab("places", "--attack", "nothing").exit_code == 2
    assert run_lab("places", "--target", 20).exit_code == 2

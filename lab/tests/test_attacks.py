import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from typer.testing import Result

from app.rating.settings import LoopSettings
from app.rating.verdict.round import run_round
from stable_arena_lab.attacks.arena import Setup, draw_arena
from stable_arena_lab.attacks.joining import Attack, join, votes_of_attackers
from stable_arena_lab.attacks.strategies import STRATEGIES, Scene, coin, paper_random, slow_drift
from stable_arena_lab.battles.pooled_arena import share_of_ties
from stable_arena_lab.budget import DEFENCES, find_budget
from stable_arena_lab.defences.campaign import campaign
from stable_arena_lab.defences.published import residual_test, sequential_test
from stable_arena_lab.defences.review_trial import RULES
from stable_arena_lab.defences.trial import ESTIMATORS, WITHOUT

RunLab = Callable[..., Result]
SETUP = Setup(n_annotators=40, votes_each=60)


def test_the_honest_votes_do_not_depend_on_the_attack() -> None:
    clean, flipped = draw_arena(3, "coin", SETUP).clean(), draw_arena(3, "flip", SETUP).clean()
    np.testing.assert_array_equal(clean.outcome, flipped.outcome)
    assert draw_arena(3, "none", SETUP).attacker.sum() == 0
    assert draw_arena(3, "coin", SETUP).attacker.sum() == 4


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_attackers_vote_as_often_as_asked_in_an_order_of_their_own(strategy: str) -> None:
    arena = draw_arena(1, strategy, Setup(n_annotators=30, votes_each=20, attack_votes=35))
    votes = arena.votes
    assert np.bincount(votes.annotator).tolist() == [20] * 27 + [35] * 3
    assert np.sort(votes.time).tolist() == list(range(len(votes.time)))
    assert set(np.unique(votes.outcome)) <= {0.0, 0.5, 1.0}
    assert (votes.left != votes.right).all()
    assert (
        votes.turn()[votes.annotator == 29].tolist()
        == np.argsort(np.argsort(votes.time[votes.annotator == 29])).tolist()
    )


def test_what_single_strategies_do() -> None:
    def attack(strategy: str) -> tuple[np.ndarray, ...]:
        arena = draw_arena(5, strategy, SETUP)
        mine = arena.attacker[arena.votes.annotator]
        v = arena.votes
        return v.left[mine], v.right[mine], v.outcome[mine], arena.public, arena.target  # type: ignore[return-value]

    left, right, outcome, public, target = attack("mimic")
    own = (left == target) | (right == target)
    np.testing.assert_array_equal(outcome[own], left[own] == target)
    np.testing.assert_array_equal(outcome[~own], public[left[~own]] > public[right[~own]])
    left, right, outcome, public, target = attack("omnipresent")
    above = public[left] > public[target]
    just_above = np.argsort(-public).tolist().index(target) - 1
    rival = np.argsort(-public)[just_above]
    assert (outcome[(left == rival) & (right != target) & (public[right] < public[target])] == 0).all()
    assert above.any()
    assert set(attack("always-left")[2]) == {1.0}
    assert set(attack("equal")[2]) == {0.5}
    copies = attack("copycats")[2].reshape(4, 60)
    assert (copies == copies[0]).all()
    frame = draw_arena(5, "framing-by-copy", SETUP)
    assert frame.victim.sum() == 4
    last_honest = frame.votes.time[~frame.attacker[frame.votes.annotator]].max()
    assert (frame.votes.time[frame.attacker[frame.votes.annotator]] > last_honest).all()


def test_paper_random_never_repeats_the_honest_answer() -> None:
    generator = np.random.default_rng(0)
    many = np.zeros(4000, dtype=np.int64)
    honest = generator.choice([0.0, 0.5, 1.0], 4000)
    age = np.linspace(0, 1, 4000)
    scene = Scene(many, many + 1, many + 2, honest, age, np.arange(3.0), 1, 0.3)
    outcome = paper_random(scene, generator)
    assert (outcome != honest).all()
    assert np.mean(outcome[honest == 0.5]) == pytest.approx(0.5, abs=0.05)
    assert np.mean(coin(scene, generator) == 0.5) == pytest.approx(0.3, abs=0.03)
    drifted = slow_drift(scene, generator) != honest
    assert drifted[2000:].mean() > 2 * drifted[:2000].mean()


@pytest.mark.campaign
def test_the_campaign_puts_every_strategy_before_every_board_and_rule() -> None:
    boards, rules = campaign(SETUP, seeds=range(2), strategies=("none", "mimic"))
    assert {row.board for row in boards} == {*ESTIMATORS, *WITHOUT}
    assert {row.strategy for row in boards} == {"mimic"}
    assert {(row.strategy, row.rule) for row in rules} == {(s, r) for s in ("none", "mimic") for r in RULES}
    found = {row.rule: row.found for row in rules if row.strategy == "mimic"}
    wronged = {row.rule: row.wronged for row in rules if row.strategy == "none"}
    assert found["evidence: favour"] >= 0.5  # type: ignore[operator]
    assert found["the service's"] == 1.0
    assert found["ε"] == 0.0
    assert wronged["the service's"] < 0.03  # type: ignore[operator]
    gained = {row.board: row.ranks for row in boards}
    assert gained["unweighed"] >= gained["flagged stay"]  # type: ignore[operator]
    assert gained["flagged stay"] < 0.5  # type: ignore[operator]  # no fit fails here


def test_the_published_tests_find_what_they_are_made_for() -> None:
    arena = draw_arena(2, "target-only", Setup(n_annotators=40, votes_each=200))
    rating = run_round(arena.votes.cells(), LoopSettings(min_votes=0))
    R = (rating.models.score - 1000) * np.log(10) / 400
    marked = residual_test(arena.votes.cells(), R, rating.annotators.ability, 0.05)
    careful = residual_test(arena.votes.cells(), R, rating.annotators.ability, 0.05, dependent=True)
    assert marked[arena.attacker].all()
    assert (careful <= marked).all()
    assert marked[~arena.attacker].mean() < 0.06
    # Chatbot Arena's test asks for verdicts that few gave before: here the second of the pair always lost
    votes = draw_arena(2, "none", Setup(n_annotators=40, votes_each=60)).votes
    odd = votes.annotator == 0
    first_won = np.where(votes.left < votes.right, 1.0, 0.0)
    outcome = np.where(odd, first_won, 1.0 - first_won)
    marked = sequential_test(votes.__class__(**{**vars(votes), "outcome": outcome}), 0.1, np.random.default_rng(0))
    assert marked[0]
    assert not marked[1:].any()


@pytest.fixture(scope="module")
def arena_cells() -> tuple:
    arena = draw_arena(7, "none", Setup(n_annotators=40, votes_each=80))
    return arena.votes.cells(), arena.public


def test_a_budget_is_the_smallest_that_lifts(arena_cells: tuple) -> None:
    cells, public = arena_cells
    settings = LoopSettings(min_votes=0)
    order = np.argsort(-public)
    widest = int(np.argmax(-np.diff(public[order])))
    target, attack = int(order[widest + 1]), Attack("target-only", 60)
    found = find_budget(cells, settings, target, attack, "none", most=64)
    assert found.median_attackers is not None
    assert found.median_attackers > 1
    assert found.median_votes == 60 * found.median_attackers
    quiet = LoopSettings(min_votes=0, interval="none", flag_rule="threshold")
    board = run_round(cells, quiet).models
    assert found.rank == board.rank[target]
    tie_share = share_of_ties(cells, board.score)
    for number, lifted in ((found.median_attackers, True), (found.median_attackers - 1, False)):
        new = votes_of_attackers(board.score, target, attack, number=number, tie_share=tie_share, seed=0)
        joined = join(cells, new)
        assert joined.n_votes == cells.n_votes + 60 * number
        assert (run_round(joined, quiet).models.rank[target] < found.rank) == lifted


def test_attackers_who_choose_their_battles_need_fewer(arena_cells: tuple) -> None:
    cells, public = arena_cells
    order = np.argsort(-public)
    widest = int(np.argmax(-np.diff(public[order])))
    settings, target = LoopSettings(min_votes=0), int(order[widest + 1])
    dealt = find_budget(cells, settings, target, Attack(), "m-elo", most=128)
    chosen = find_budget(cells, settings, target, Attack(chosen=True), "m-elo", most=128)
    assert dealt.median_attackers is not None
    assert chosen.median_attackers is not None
    assert chosen.median_attackers < dealt.median_attackers


def test_excluded_mimics_lift_no_model(arena_cells: tuple) -> None:
    cells, public = arena_cells
    settings, target = LoopSettings(min_votes=0), int(np.argsort(-public)[6])
    attack = Attack("mimic", 100)
    assert find_budget(cells, settings, target, attack, "m-elo", most=8).median_attackers is not None
    assert find_budget(cells, settings, target, attack, "evidence", most=8).median_attackers is None
    with pytest.raises(ValueError, match="is the first"):
        find_budget(cells, settings, int(np.argmax(public)), attack, "m-elo", most=8)


def test_the_attacks_command(run_lab: RunLab, tmp_path: Path) -> None:
    quick = ["attacks", "--repeats", 1, "--processes", 1, "--strategy", "flip"]
    document = json.loads(run_lab(*quick, "--format", "json").stdout)
    assert {row["strategy"] for row in document["rules"]} == {"flip"}
    assert document["settings"]["n_annotators"] == 42
    figure = tmp_path / "attacks.svg"
    shown = run_lab(*quick, "--figure", figure).stdout
    assert "the service's" in shown
    assert figure.read_text(encoding="utf-8").startswith("<svg")
    wrong = run_lab("attacks", "--strategy", "nonsense")
    assert wrong.exit_code == 2
    assert run_lab("attacks", "--target", 20).exit_code == 2


def test_the_fragility_command(run_lab: RunLab, arena_file: Path) -> None:
    document = json.loads(run_lab("fragility", arena_file, "--format", "json").stdout)
    assert len(document["pairs"]) == 19
    assert len(document["annotators"]) == 10
    assert [row["k"] for row in document["best"]] == list(range(1, 11))
    assert document["pairs"][0]["flipped_votes_verified"] is None
    closest = min(document["pairs"], key=lambda pair: pair["gap"])
    assert closest["flipped_votes"] <= closest["votes"]


@pytest.mark.campaign
def test_fragility_by_refits(run_lab: RunLab, arena_file: Path, tmp_path: Path) -> None:
    figure = tmp_path / "fragility.svg"
    checked = run_lab("fragility", arena_file, "--verify", "--figure", figure)
    assert "Flipped (refit)" in checked.stdout
    assert figure.exists()


def test_the_budget_command(run_lab: RunLab, arena_file: Path) -> None:
    document = json.loads(run_lab("budget", arena_file, "--model", "m03", "--most", 4, "--format", "json").stdout)
    assert [row["defence"] for row in document["budgets"]] == list(DEFENCES)
    assert run_lab("budget", arena_file, "--model", "m03", "--most", 2).stdout.count("m03") == len(DEFENCES)
    assert run_lab("budget", arena_file, "--model", "nobody").exit_code == 2
    assert run_lab("budget", arena_file, "--strategy", "copycats").exit_code == 2
    assert run_lab("budget", arena_file, "--place", 19).exit_code == 2
    assert run_lab("budget", arena_file, "--place", 1, "--model", "m03").exit_code == 2
    lowest = json.loads(
        run_lab("budget", arena_file, "--place", 0, "--most", 2, "--draws", 2, "--format", "json").stdout
    )
    assert {row["rank"] for row in lowest["budgets"]} <= {20, None}


def test_a_file_with_faulty_votes_is_refused(run_lab: RunLab, tmp_path: Path) -> None:
    path = tmp_path / "faulty.csv"
    path.write_text("annotator,model_a,model_b,winner\nk,a,b,nobody\n", encoding="utf-8")
    assert run_lab("fragility", path).exit_code == 2

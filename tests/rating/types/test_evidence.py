"""The tests on annotators: their false positives, the attackers that they find, and their parts."""

from collections.abc import Callable

import numpy as np
import pytest

from app.rating.settings import EVIDENCE_TESTS, LoopSettings
from app.rating.types.evidence import Evidence, Weigher, weigh
from app.rating.types.law import COIN
from app.rating.units import NATURAL_PER_ELO
from app.rating.votes.cells import aggregate
from app.rating.votes.features import SidedCells
from stable_arena_lab.attacks.arena import Arena, Setup, Votes, draw_arena
from stable_arena_lab.attacks.honest import Variety
from stable_arena_lab.defences.discoveries import discover_by_evidence, discover_by_p
from stable_arena_lab.defences.gains import rate
from stable_arena_lab.defences.habits import MODELS, Crowd, draw
from stable_arena_lab.defences.review_trial import ReviewTrial

SETTINGS = LoopSettings(min_votes=0, interval="none")
HONEST = {
    "as simulated": Variety(),
    "different in ties": Variety(ties=0.6),
    "leaning to a side": Variety(side=0.4),
    "with opinions of their own": Variety(minority=0.3, taste=200.0),
}


def hearing(arena: Arena) -> ReviewTrial:
    return ReviewTrial(arena.votes, SETTINGS, 0)


@pytest.fixture(scope="module")
def attacked() -> Callable[[str], tuple[Arena, Evidence]]:
    """Evidence on a crowd of 60, six of them attackers, 200 votes each; one arena a strategy."""
    known: dict[str, tuple[Arena, Evidence]] = {}

    def attack(strategy: str) -> tuple[Arena, Evidence]:
        if strategy not in known:
            arena = draw_arena(11, strategy, Setup(n_annotators=60, votes_each=200))
            known[strategy] = arena, hearing(arena).evidence
        return known[strategy]

    return attack


@pytest.mark.parametrize("variety", HONEST)
def test_the_honest_are_left_alone(variety: str) -> None:
    """An honest annotator is flagged where honesty is less likely than not: measured rates are about .2 %."""
    wronged = []
    for seed in range(2):
        for votes_each in (51, 200):
            setup = Setup(n_annotators=60, votes_each=votes_each, variety=HONEST[variety])
            wronged.append(hearing(draw_arena(seed, "none", setup)).evidence.flagged())
    assert np.mean(wronged) <= 0.01


@pytest.mark.parametrize(
    ("strategy", "test"),
    [
        ("coin", "coin"),
        ("paper-random", "coin"),
        ("flip", "coin"),
        ("equal", "equal"),
        ("mimic", "favour"),
        ("target-only", "favour"),
        ("always-left", "side"),
    ],
)
def test_every_behaviour_is_found_by_its_test(
    attacked: Callable[[str], tuple[Arena, Evidence]], strategy: str, test: str
) -> None:
    arena, evidence = attacked(strategy)
    marked = evidence.flagged((test,))
    assert marked[arena.attacker].mean() >= 2 / 3
    assert not marked[~arena.attacker].any()


def test_what_the_evidence_is_about(attacked: Callable[[str], tuple[Arena, Evidence]]) -> None:
    arena, evidence = attacked("target-only")
    assert set(evidence.about["favour"][arena.attacker]) == {arena.target}
    arena, evidence = attacked("always-left")
    assert set(evidence.about["side"][arena.attacker]) == {0}
    arena, evidence = attacked("equal")
    assert set(evidence.strongest()[0][arena.attacker]) == {"equal"}
    assert set(evidence.about["equal"]) == {-1}


def test_the_share_of_votes_that_a_behaviour_explains_is_counted_by_hand() -> None:
    """Of ten votes two are ties, three go to the higher score, six to the left, two to the right."""
    pairs = [(2, 0), (2, 1), (2, 3), (0, 2), (0, 1), (1, 0), (3, 0), (3, 1), (1, 3), (0, 3)]
    outcome = np.array([1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 0.5, 0.5, 0.0, 0.0])
    left, right = np.array(pairs).T
    sided = SidedCells.of_votes(np.zeros(10, dtype=int), left, right, outcome, n_annotators=2, n_models=4)
    evidence = weigh(sided, np.array([0.9, 0.6, 0.3, 0.0]))
    share = {test: found[0] for test, found in evidence.explained.items()}
    assert (share["coin"], share["equal"], share["follower"]) == pytest.approx((0.8, 0.2, 0.3))
    assert share["side"] == pytest.approx([0.6, 0.2][evidence.about["side"][0]])
    assert all(np.isnan(found[1]) for found in evidence.explained.values()), "without a vote nothing is explained"


def test_what_pushes_a_model_explains_the_votes_for_it(attacked: Callable[[str], tuple[Arena, Evidence]]) -> None:
    arena, evidence = attacked("target-only")
    votes = arena.votes
    for_target = np.where(votes.left == arena.target, votes.outcome == 1.0, votes.outcome == 0.0)
    for_target &= (votes.left == arena.target) | (votes.right == arena.target)
    for k in np.flatnonzero(arena.attacker):
        assert evidence.explained["favour"][k] == pytest.approx(for_target[votes.annotator == k].mean())


def test_a_few_who_lean_are_not_taken_for_those_who_always_choose_a_side() -> None:
    """A lean of 300 points; of those who lean 400 in a crowd that does not, one in eight is flagged."""
    world, wronged, found = "one in 14 leans 300 points", list[bool](), list[bool]()
    for seed in range(6):
        for crowd in (Crowd(world), Crowd(world, "always-left", votes_each=200, share=0.25)):
            annotator, left, right, outcome, bad = draw(seed, crowd)
            votes = Votes(annotator, left, right, outcome, np.arange(len(annotator)), crowd.annotators, MODELS)
            rating = rate(votes, SETTINGS)
            assert rating is not None
            low = rating.annotators.standing == "flagged"
            (found if crowd.bad else wronged).extend(low[bad if crowd.bad else crowd.leaners].tolist())
    assert np.mean(wronged) <= 0.05
    assert np.mean(found) >= 0.95


def test_the_copied_are_not_flagged(attacked: Callable[[str], tuple[Arena, Evidence]]) -> None:
    arena, evidence = attacked("framing-by-copy")
    assert not evidence.flagged()[arena.victim].any()


def test_followers_are_found_even_without_a_target() -> None:
    """Too consistent, not too little: every member of the ring follows the ranking."""
    arena = draw_arena(2, "none", Setup(n_annotators=40, votes_each=80))
    votes, first = arena.votes, arena.public
    ring = votes.annotator >= 36
    outcome = np.where(ring, np.where(first[votes.left] > first[votes.right], 1.0, 0.0), votes.outcome)
    cells = aggregate(votes.annotator, votes.left, votes.right, outcome, n_annotators=40, n_models=20)
    evidence = weigh(SidedCells.unknown(cells), NATURAL_PER_ELO * (first - 1000.0))
    assert evidence.flagged(("follower",)).tolist() == [False] * 36 + [True] * 4
    assert set(evidence.log_ratio) == set(EVIDENCE_TESTS) - {"side"}  # no sides were given


def test_the_crowd_is_recovered_through_its_attackers() -> None:
    arena = draw_arena(4, "coin", Setup(n_annotators=200, votes_each=200, share=0.2))
    law = weigh(SidedCells.unknown(arena.votes.cells()), NATURAL_PER_ELO * (arena.score - 1000.0)).law
    assert law.share[COIN] == pytest.approx(0.2, abs=0.03)
    assert law.spread == pytest.approx(0.3, abs=0.06)
    assert np.exp(law.log_ties()).sum() == pytest.approx(1.0)


def test_the_votes_one_by_one_tell_the_sides() -> None:
    """Only scored models and asked annotators count, as in the evidence on the whole."""
    arena = draw_arena(11, "always-left", Setup(n_annotators=30, votes_each=100))
    votes = arena.votes
    R = NATURAL_PER_ELO * (arena.public - 1000.0)
    R[3] = np.nan
    asked = np.arange(30) % 7 != 0
    columns = votes.annotator, votes.left, votes.right, votes.outcome
    weigher = Weigher(SidedCells.of_votes(*columns, n_annotators=30, n_models=20), ("side", "coin"))
    evidence = weigher(R, asked)
    assert set(evidence.log_ratio) == {"side", "coin"}
    assert evidence.flagged(("side",)).tolist() == (arena.attacker & asked).tolist()
    counted = (votes.left != 3) & (votes.right != 3) & asked[votes.annotator]
    some = votes.where(counted)
    columns = some.annotator, some.left, some.right, some.outcome
    sided = SidedCells.of_votes(*columns, n_annotators=30, n_models=20)
    left_wins = np.where(sided.side > 0.0, sided.cells.wins_a, sided.cells.wins_b)
    np.testing.assert_array_equal(
        np.bincount(sided.cells.annotator, left_wins, 30), np.bincount(some.annotator, some.outcome == 1.0, 30)
    )
    np.testing.assert_array_equal(evidence.log_ratio["side"], weigh(sided, R).log_ratio["side"])


def test_discoveries_by_hand() -> None:
    p = np.array([[0.001, 0.02], [0.03, 0.8]])
    assert discover_by_p(p, 0.05).tolist() == [[True, True], [True, False]]
    assert discover_by_p(p, 0.05, dependent=True).tolist() == [[True, False], [False, False]]
    ratio = np.log(np.array([90.0, 45.0, 20.0, 1.0]))
    assert discover_by_evidence(ratio, 0.05).tolist() == [True, True, False, False]
    assert not discover_by_evidence(np.zeros(4), 0.05).any()


def test_somebody_without_a_scored_vote_has_no_evidence() -> None:
    arena = draw_arena(1, "none", Setup(n_annotators=12, votes_each=40))
    votes = arena.votes.where(arena.votes.annotator != 3)
    evidence = weigh(SidedCells.unknown(votes.cells()), NATURAL_PER_ELO * (arena.public - 1000.0))
    assert all(ratio[3] == -np.inf for ratio in evidence.log_ratio.values())
    assert not evidence.flagged()[3]


def test_a_crowd_without_votes_keeps_its_prior() -> None:
    """Where no model has a score there is no vote to look at."""
    none = np.empty(0, dtype=np.int32)
    nothing = aggregate(none, none, none, np.empty(0), n_annotators=2, n_models=3)
    found = weigh(SidedCells.unknown(nothing), np.full(3, np.nan))
    assert (found.law.centre, found.law.spread) == (1.0, 0.3)
    assert np.isnan(found.probability_low(0.2)).all()
    assert not found.flagged().any()

"""The rules that flag and exclude, and the margin that keeps standings from alternating at a threshold."""

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from app.rating.settings import EVIDENCE_TESTS, TASTE_TESTS, FlagRule, LoopSettings
from app.rating.simulation.worlds import SimulatedVotes, simulate_votes
from app.rating.types.evidence import Weigher, weigh
from app.rating.verdict.flags import Flagger
from app.rating.verdict.round import run_round
from app.rating.votes.cells import Cells, aggregate
from app.rating.votes.features import SidedCells
from stable_arena_lab.attacks.arena import Setup, Votes, draw_arena

MakeCells = Callable[[SimulatedVotes], Cells]
NOBODY = np.zeros(1, dtype=bool)
EVERYBODY = ~NOBODY


def marked(settings: LoopSettings, ability: float, *, before: bool) -> tuple[bool, bool]:
    flagger = Flagger(settings, None, EVERYBODY, np.array([before]), np.array([before]))
    verdicts = flagger.flagged_by_ability(np.array([ability]))
    return bool(verdicts.low[0]), bool(verdicts.held[0])


@pytest.mark.parametrize(
    ("ability", "before", "expected"),
    [
        (0.2, False, (True, False)),
        (0.2, True, (True, False)),
        (0.25, False, (False, False)),
        (0.25, True, (True, True)),
        (0.3, True, (True, True)),
        (0.31, True, (False, False)),
        (np.nan, True, (False, False)),
    ],
)
def test_the_threshold_lets_go_later_than_it_takes(ability: float, before: bool, expected: tuple[bool, bool]) -> None:
    assert marked(LoopSettings(release_margin=0.1), ability, before=before) == expected


def test_standings_do_not_alternate(cells_of: MakeCells) -> None:
    """An annotator at ε, who crosses it every few votes, is flagged once and released once."""
    world = cells_of(simulate_votes(3, n_models=6, roles={"honest": 30}, votes_each=60))
    ability = run_round(world, LoopSettings(flag_rule="threshold")).annotators.ability
    lowest = int(np.argmin(ability))
    assert run_series(world, "threshold", lowest, float(ability[lowest]), step=0.01) == ALTERNATING


def test_standings_by_evidence_do_not_alternate(cells_of: MakeCells) -> None:
    """The same where ε goes past the level at which it is as likely as not that the ability is below."""
    world = cells_of(simulate_votes(3, n_models=6, roles={"honest": 30, "random": 1}, votes_each=60))
    low, high = -2.0, 2.0
    for _ in range(12):
        middle = (low + high) / 2.0
        flagged = run_round(world, LoopSettings(min_ability=middle, evidence_ratio=1e300)).annotators.standing[30]
        low, high = (low, middle) if flagged == "flagged" else (middle, high)
    assert run_series(world, "evidence", 30, high, step=0.02) == ALTERNATING


ALTERNATING = ([True, False, True, False, True, False], [True, True, True, True, True, False])


def run_series(world: Cells, rule: FlagRule, one: int, at: float, *, step: float) -> tuple[list[bool], list[bool]]:
    """Whether one annotator is flagged while ε alternates around their ability, without a margin and with one."""
    flapping: list[bool] = []
    settled: list[bool] = []
    for margin, seen in ((0.0, flapping), (0.2, settled)):
        low = np.zeros(world.n_annotators, dtype=bool)
        for away in (step, -step, 2.0 * step, -2.0 * step, step, -1.5):
            settings = LoopSettings(min_ability=at + away, release_margin=margin, flag_rule=rule, evidence_ratio=1e300)
            crowd = run_round(world, settings, was_low=low).annotators
            low = crowd.standing == "flagged"
            seen.append(bool(low[one]))
            assert crowd.held[one] == (low[one] and away < 0)
    return flapping, settled


def test_a_noisy_point_below_the_threshold_is_not_enough(cells_of: MakeCells) -> None:
    """In an honest crowd with few votes abilities at or below ε are chance: the default does not flag them."""
    low, likely = 0, 0
    for seed in range(8):
        world = cells_of(simulate_votes(seed, roles={"honest": 60}, votes_each=51, score_sd=70.0))
        settings = LoopSettings(min_ability=0.6)
        low += int((run_round(world, replace(settings, flag_rule="threshold")).annotators.standing == "flagged").sum())
        likely += int((run_round(world, settings).annotators.standing == "flagged").sum())
    assert low >= 8
    assert likely <= 3


def test_the_rule_flags_from_the_probability_of_the_settings(cells_of: MakeCells) -> None:
    """Every annotator at or above it, and none below."""
    world = cells_of(simulate_votes(2, n_models=6, roles={"honest": 60, "random": 12}, votes_each=25, score_sd=100.0))
    alone = LoopSettings(min_votes=0, min_ability=0.5, evidence_ratio=1e300)
    found = []
    for least in (0.5, 0.8, 0.95, 0.999):
        crowd = run_round(world, replace(alone, min_probability=least)).annotators
        assert np.array_equal(crowd.standing == "flagged", crowd.probability_low >= least)
        found.append(int((crowd.standing == "flagged").sum()))
    assert found == sorted(set(found), reverse=True), "each probability flags fewer than the one before"


def test_a_taste_lowers_no_bar_for_exclusion() -> None:
    """An annotator whom only a test about a model had flagged is excluded by nothing less than others are."""
    arena = draw_arena(7, "careful-mimic", Setup(n_annotators=60, votes_each=60))
    cells, settings = arena.votes.cells(), LoopSettings(exclude=True)
    evidence = run_round(cells, settings).evidence
    assert evidence is not None
    acting = np.max([ratio for test, ratio in evidence.log_ratio.items() if test not in TASTE_TESTS], axis=0)
    tastes = np.max([evidence.log_ratio[test] for test in TASTE_TESTS], axis=0)
    one = int(np.argmax(np.where(tastes > 2.0 * acting, acting, 0.0)))
    assert acting[one] > 1.0
    before = np.arange(cells.n_annotators) == one
    settings = replace(settings, evidence_ratio=float(np.exp(1.5 * acting[one])))  # the margin begins at its root
    flagged = run_round(cells, settings, was_low=before, was_excluded=np.zeros_like(before)).annotators
    assert (flagged.standing[one], flagged.rule[one] in TASTE_TESTS, flagged.held[one]) == ("flagged", True, False)
    kept = run_round(cells, settings, was_low=before, was_excluded=before).annotators
    assert (kept.standing[one], kept.rule[one] in TASTE_TESTS, kept.held[one]) == ("excluded", False, True)


def test_with_exclusions_abilities_are_judged_by_the_scores_that_are_published() -> None:
    arena = draw_arena(4, "flip", Setup(n_annotators=60, votes_each=200))
    cells = arena.votes.cells()
    excluded, kept = (run_round(cells, LoopSettings(exclude=exclude)) for exclude in (True, False))
    assert excluded.evidence is not None
    assert kept.evidence is not None
    expected = weigh(SidedCells.unknown(cells), excluded.natural_scores(), tests=()).habits
    np.testing.assert_allclose(excluded.evidence.habits.ability, expected.ability, rtol=1e-6)
    people, out = excluded.annotators, excluded.annotators.standing == "excluded"
    assert out.any()
    assert np.isnan(people.ability).tolist() == np.isfinite(people.shadow_ability).tolist() == out.tolist()
    np.testing.assert_allclose(np.where(out, people.shadow_ability, people.ability), expected.ability, rtol=1e-6)
    np.testing.assert_allclose(np.where(out, people.shadow_se, people.se), expected.ability_se, rtol=1e-6)
    assert np.abs(excluded.evidence.habits.ability - kept.evidence.habits.ability).max() > 1e-4
    assert excluded.evidence.log_ratio.keys() == kept.evidence.log_ratio.keys()
    np.testing.assert_allclose(excluded.annotators.probability_low, excluded.evidence.probability_low(0.2))


def test_evidence_finds_annotators_that_ability_does_not() -> None:
    """Mimics vote better than most, but for one model; those that follow too closely are excluded before ε is asked."""
    arena = draw_arena(4, "mimic", Setup(n_annotators=60, votes_each=200))
    cells = arena.votes.cells()
    plain = run_round(cells, LoopSettings(exclude=True, flag_rule="threshold"))
    rating = run_round(cells, LoopSettings(exclude=True))
    mimics, people = arena.attacker, rating.annotators
    assert not (plain.annotators.standing[mimics] == "excluded").any()
    excluded = people.standing == "excluded"
    assert np.isin(people.standing[mimics], ("flagged", "excluded")).all()
    assert set(people.rule[mimics & excluded]) == {"follower"}
    assert set(people.rule[mimics & ~excluded]) <= set(TASTE_TESTS)
    assert (people.standing[~mimics] == "active").mean() > 0.95
    assert (people.rule[people.standing == "active"] == "").all()
    about_no_model = tuple(test for test in EVIDENCE_TESTS if test not in TASTE_TESTS)
    acting = LoopSettings(exclude=True, evidence_tests=about_no_model)
    alone = run_round(cells, acting)  # the votes for the model weigh in full, so the mimics seem to follow more closely
    out = alone.annotators.standing == "excluded"
    assert out[excluded].all()
    assert mimics[out].all()
    no_rule = LoopSettings(flag_rule="threshold", min_ability=-9.0)
    rest = run_round(cells.where(~out[cells.annotator]), no_rule)
    np.testing.assert_allclose(alone.models.score, rest.models.score, atol=1e-6)


def test_a_taste_flags_and_never_excludes() -> None:
    """Annotators who always vote for one model are shown to reviewers; their votes stay until an admin decides."""
    arena = draw_arena(4, "target-only", Setup(n_annotators=60, votes_each=200))
    cells, fans = arena.votes.cells(), arena.attacker
    rating = run_round(cells, LoopSettings(exclude=True))
    by_taste = rating.annotators.rule == "favour"
    assert by_taste[fans].sum() >= 5
    assert (rating.annotators.standing[by_taste] == "flagged").all()
    assert np.isfinite(rating.annotators.ability[by_taste]).all(), "they are in the fit"
    others = replace(LoopSettings(exclude=True), evidence_tests=("coin",))
    assert (run_round(cells, others).annotators.standing[by_taste] == "active").all()


def test_votes_for_a_pushed_model_weigh_less_unless_an_admin_keeps_the_annotators() -> None:
    """Then the target is where the honest votes have it."""
    arena = draw_arena(4, "target-only", Setup(n_annotators=60, votes_each=200))
    cells, fans, t = arena.votes.cells(), arena.attacker, arena.target
    honest = run_round(cells.where(~fans[cells.annotator]), LoopSettings()).models.score[t]
    found, kept = (run_round(cells, LoopSettings(), keep_always=kept).models.score[t] for kept in (~fans & False, fans))
    assert abs(found - honest) < 0.3 * (kept - honest)
    everywhere = run_round(cells, LoopSettings(flag_rule="threshold")).models.score[t]
    assert everywhere == pytest.approx(kept, abs=5.0)


def test_an_ability_whose_interval_is_below_the_threshold_is_flagged_where_judges_are_many() -> None:
    """Whatever the tests say: here none is made."""
    for size, standing in ((42, "flagged"), (12, "active")):
        arena = draw_arena(5, "flip", Setup(n_annotators=size, votes_each=200, share=1 / size))
        cells = arena.votes.cells()
        weigher = Weigher(SidedCells.of_votes(*all_votes(arena.votes), n_annotators=size, n_models=20), ())
        people = run_round(cells, LoopSettings(), weigher=weigher).annotators
        assert set(people.standing[arena.attacker]) == {standing}
        assert (people.probability_low[arena.attacker] > 0.95).all()


def all_votes(votes: Votes) -> tuple[np.ndarray, ...]:
    return votes.annotator, votes.left, votes.right, votes.outcome


def test_evidence_does_not_touch_the_trusted() -> None:
    arena = draw_arena(4, "flip", Setup(n_annotators=60, votes_each=200))
    cells = arena.votes.cells()
    settings = LoopSettings(exclude=True, flag_rule="evidence")
    crowd = run_round(cells, settings, keep_always=arena.attacker).annotators
    assert np.isfinite(crowd.ability[arena.attacker]).all(), "their votes count"
    assert (crowd.standing[arena.attacker] == "excluded").all(), "which is not what the rule says of them"


def test_evidence_is_let_go_at_its_square_root() -> None:
    arena = draw_arena(4, "mimic", Setup(n_annotators=60, votes_each=200))
    cells = arena.votes.cells()
    settings = LoopSettings(flag_rule="evidence", min_ability=-9.0)
    turn = run_round(cells, settings)
    assert turn.evidence is not None
    one = int(np.flatnonzero(arena.attacker)[0])
    strongest = float(np.exp(turn.evidence.strongest(settings.evidence_tests)[1][one]))
    before = np.zeros(60, dtype=bool)
    before[one] = True
    for ratio, was_low, standing in (
        (strongest * 0.9, None, "flagged"),
        (strongest * 1.1, None, "active"),
        (strongest * 1.1, before, "flagged"),
        (strongest**2 * 1.1, before, "active"),
    ):
        crowd = run_round(cells, replace(settings, evidence_ratio=ratio), was_low=was_low).annotators
        assert crowd.standing[one] == standing
        assert crowd.held[one] == (was_low is not None and standing == "flagged")


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"evidence_ratio": 1.0}, "evidence_ratio"),
        ({"release_margin": -0.1}, "release_margin"),
        ({"evidence_tests": ("coin", "smell")}, "evidence_tests smell is unknown"),
    ],
)
def test_settings_out_of_range(settings: dict[str, object], said: str) -> None:
    one = np.zeros(2, dtype=np.int64)
    cells = aggregate(one, one, one + 1, np.ones(2), n_annotators=1, n_models=2)
    with pytest.raises(ValueError, match=said):
        run_round(cells, replace(LoopSettings(min_votes=0), **settings))

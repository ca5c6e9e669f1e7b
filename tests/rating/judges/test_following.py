"""Judges against the people's leaderboard."""

from dataclasses import replace

import numpy as np
import pytest

from app.rating.errors import VotesError
from app.rating.judges.ballots import Ballots
from app.rating.judges.comparison import try_panels
from app.rating.judges.following import Followers, find_liking, follow_people
from app.rating.judges.peoples_scores import learn_scores, rate_people
from app.rating.settings import LoopSettings
from app.rating.uncertainty.freedom import critical_values
from app.rating.votes.indexed import IndexedVotes
from app.rating.votes.measures import Features
from tests.fixtures.judged_votes import Judged, Voter, judge_votes

JUDGES = [
    Voter("a", 2000, ability=0.4, lean=1.5),
    Voter("b", 600, ability=1.0, lean=0.3),
    Voter("c", 2000, ability=1.5, lean=-0.2),
]


def judge_beside(seed: int, people: int, votes: int, *, taste: float = 0.0) -> Judged:
    crowd = [Voter(f"p{k}", votes) for k in range(people)]
    return judge_votes(seed, [*crowd, *(replace(one, taste=taste) for one in JUDGES)])


def follow(judged: Judged, own_family: np.ndarray | None = None) -> Followers:
    ballots = judged.ballots
    known = learn_scores(rate_people(ballots.of_annotators(judged.people), LoopSettings()))
    return follow_people(ballots.of_annotators(~judged.people), known, own_family)


def test_abilities_and_leans_are_found_again() -> None:
    judged = judge_beside(2, 30, 400)
    found = follow(judged)
    assert np.isnan(found.ability[judged.people]).all()
    for value, se, field in ((found.ability, found.ability_se, "ability"), (found.lean, found.lean_se, "lean")):
        truth = np.array([getattr(one, field) for one in JUDGES])
        assert np.abs(value[-3:] - truth) / se[-3:] == pytest.approx(np.zeros(3), abs=2.6)
        assert se[-3:].max() < 0.15


def test_how_far_a_judge_leans_who_always_takes_the_left_is_not_known() -> None:
    crowd = [Voter(f"p{k}", 400) for k in range(20)]
    found = follow(judge_votes(3, [*crowd, Voter("left", 400, lean=40.0)]))
    assert found.lean[-1] > 4.0
    assert found.lean_se[-1] > 0.4


def test_few_people_make_abilities_uncertain_and_not_low() -> None:
    """300 votes of people: their scores' errors halve what a judge seems to follow, if they are taken for the truth."""
    found = [follow(judge_beside(seed, 10, 30)) for seed in range(20)]
    ratio = np.array([one.ability[-3:] for one in found]) / [one.ability for one in JUDGES]
    assert 0.85 < np.median(ratio) < 1.15
    share = np.array([one.people_se[-3:] / one.ability_se[-3:] for one in found])
    assert np.median(share) > 0.6


def test_an_own_family_is_preferred() -> None:
    judged = judge_beside(4, 30, 400)
    v, k = judged.ballots.votes, len(judged.people) - 1
    ours = np.zeros((len(judged.people), 20), dtype=bool)
    ours[k:, :5] = True
    before = follow(judged, ours)
    generator = np.random.default_rng(1)
    push = (v.annotator == k) & (ours[k][v.model_a] != ours[k][v.model_b]) & (generator.random(len(v.outcome)) < 0.2)
    favoured = replace(v, outcome=np.where(push, ours[k][v.model_a].astype(float), v.outcome))
    after = follow(replace(judged, ballots=replace(judged.ballots, votes=favoured)), ours)
    assert abs(before.own_family.preference[k]) < 2.6 * before.own_family.se[k]
    assert after.own_family.preference[k] > 3.0 * after.own_family.se[k]
    assert np.isnan(after.own_family.preference[k - 1]), "its family has no model"


def test_people_who_do_not_tell_the_models_apart_are_no_measure() -> None:
    judged = judge_votes(1, [Voter("p", 60, ability=0.0), Voter("a", 60)])
    with pytest.raises(VotesError):
        follow(judged)
    with pytest.raises(VotesError):
        rate_people(judged.ballots.of_annotators(np.zeros(2, dtype=bool)), LoopSettings())


def test_one_model_with_a_score_is_no_measure() -> None:
    judged = judge_votes(1, [Voter("p", 2), Voter("a", 60)], n_models=2)
    votes = replace(judged.ballots.votes, outcome=np.ones(62))
    with pytest.raises(VotesError):
        follow(replace(judged, ballots=replace(judged.ballots, votes=votes)))


def test_many_people_with_many_votes_are_rated_by_the_rules_and_few_all_of_them() -> None:
    ballots = judge_beside(2, 30, 60).ballots
    people = np.arange(33) < 30
    assert rate_people(ballots.of_annotators(people), LoopSettings()).settings.min_votes == 50
    everyone = rate_people(ballots.of_annotators(people), LoopSettings(min_votes=60))
    assert everyone.settings.min_votes == 0
    assert everyone.votes_used == 30 * 60


def test_panels_of_few_judges_are_all_tried_and_of_many_grown() -> None:
    few = judge_beside(2, 30, 100)
    known = learn_scores(rate_people(few.ballots.of_annotators(few.people), LoopSettings()))
    panels = try_panels(few.ballots, [30, 31, 32], known)
    assert len(panels.tried) == 7
    assert 0.85 < panels.tried[0].right == max(one.right for one in panels.tried) <= panels.certainty
    assert panels.enough is not None
    assert panels.enough.right >= panels.tried[0].right - panels.error
    assert 0.9 < panels.certainty < 1.0

    crowd = [Voter(f"p{k}", 100) for k in range(30)]
    many = judge_votes(2, [*crowd, *(Voter(f"j{k}", 400, ability=0.5) for k in range(6)), Voter("one vote", 1)])
    grown = try_panels(many.ballots, list(range(30, 37)), learn_scores(rate_people(
        many.ballots.of_annotators(many.people), LoopSettings()
    )))  # fmt: skip
    assert 7 < len(grown.tried) < 63
    assert all(36 not in one.judges or len(one.judges) > 1 for one in grown.tried), "one vote gives no order"


def test_without_a_panel_that_scores_every_model_none_is_enough() -> None:
    judged = judge_votes(2, [*(Voter(f"p{k}", 400) for k in range(30)), Voter("few", 3)])
    known = learn_scores(rate_people(judged.ballots.of_annotators(judged.people), LoopSettings()))
    assert try_panels(judged.ballots, [30], known).enough is None


@pytest.mark.campaign
@pytest.mark.parametrize(("people", "votes", "taste"), [(30, 400, 0.0), (10, 100, 0.0), (30, 400, 0.25), (10, 40, 0.0)])
def test_the_intervals_cover_abilities_and_leans(people: int, votes: int, taste: float) -> None:
    hits, truth = [], np.array([[one.ability for one in JUDGES], [one.lean for one in JUDGES]])
    for seed in range(100):
        found = follow(judge_beside(seed, people, votes, taste=taste))
        value = np.stack([found.ability[-3:], found.lean[-3:]])
        se = np.stack([found.ability_se[-3:], found.lean_se[-3:]])
        freedom = np.stack([found.freedom[-3:], found.lean_freedom[-3:]])
        hits.append(np.abs(value - truth) < critical_values(freedom, 0.95) * se)
    covered = np.mean(hits, axis=(0, 2))
    assert ((covered >= 0.92) & (covered <= 0.98)).all(), covered


def test_likings_are_found_again_beside_few_people() -> None:
    """Twice the same votes are no more votes."""
    crowd = [Voter(f"p{k}", 200) for k in range(8)]
    likings = {"a": 0.5, "b": 0.0, "c": -0.3}
    judged = judge_votes(4, [*crowd, *(replace(one, liking=likings[one.name]) for one in JUDGES)], shared=0.0)
    known = learn_scores(rate_people(judged.ballots.of_annotators(judged.people), LoopSettings()))
    size, style = len(judged.people), judged.longer[:, None] / (0.8 / np.sqrt(3.0))

    def like(ballots: Ballots, style: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        return find_liking(replace(ballots, style=Features(("length",), style)), known, np.zeros(size))

    b, se = like(judged.ballots, style)
    for k, liking in enumerate(likings.values(), start=len(crowd)):
        assert abs(b[k, 0] - liking) < 2.5 * se[k, 0]
        assert 0.0 < se[k, 0] < 0.15
    v = judged.ballots.votes
    columns = (v.annotator, v.model_a, v.model_b, v.outcome)
    doubled = IndexedVotes(v.annotators, v.models, *(np.concatenate([one, one]) for one in columns))
    twice = Ballots(doubled, np.concatenate([judged.ballots.battle] * 2))
    again = like(twice, np.concatenate([style, style]))
    assert again[0][8:] == pytest.approx(b[8:], abs=1e-6)
    assert again[1][8:] == pytest.approx(se[8:], rel=1e-6)
    few = like(judged.ballots, np.where(np.arange(len(style)) < 19, style.T, np.nan).T)
    assert np.isnan(few[0]).all(), "fewer than 20 votes with measures"

"""Self-preference by what judges of other families say of the models."""

from dataclasses import replace

import numpy as np
import pytest

from app.rating.judges.ballots import Ballots
from app.rating.judges.following import OwnFamily
from app.rating.judges.self_preference import Families, compare_families
from app.rating.uncertainty.freedom import critical_values
from tests.fixtures.judged_votes import Voter, judge_votes

JUDGES = [Voter("a", 2000, ability=1.4, lean=0.5), Voter("b", 2000, ability=0.8), Voter("c", 2000), Voter("d", 2000)]
FAMILIES = Families(["A", "B", "C", ""], [*"AAAABBBBCCCC", *[""] * 8])


def favour(ballots: Ballots, judge: int, share: float) -> Ballots:
    """Let a judge call its own family the winner in this share of its votes between it and another."""
    v, own = ballots.votes, FAMILIES.own[judge]
    pushed = (v.annotator == judge) & (own[v.model_a] != own[v.model_b])
    pushed &= np.random.default_rng(1).random(len(pushed)) < share
    return replace(ballots, votes=replace(v, outcome=np.where(pushed, own[v.model_a].astype(float), v.outcome)))


def test_a_judge_for_its_own_family_is_found_and_no_other() -> None:
    fair = judge_votes(4, JUDGES, shared=0.8).ballots
    before, after = (compare_families(one, FAMILIES) for one in (fair, favour(fair, 0, 0.25)))
    assert np.abs(before.preference[:3] / before.se[:3]).max() < 2.6
    assert after.preference[0] > 3.0 * after.se[0]
    assert 0.0 < after.se[0] < 0.2
    assert np.isnan(after.preference[3]), "it has no family"
    for mine, theirs in zip(before, after, strict=True):
        assert theirs[1:3] == pytest.approx(mine[1:3], rel=1e-9), "nor are the others against theirs"


def test_judges_of_one_family_are_no_reference_for_each_other() -> None:
    judges = [JUDGES[0], Voter("a2", 2000), *JUDGES[1:3]]
    families = Families(["A", "A", "B", "C"], FAMILIES.models)
    fair = judge_votes(4, judges, shared=0.8).ballots
    v = fair.votes
    contrary = replace(fair, votes=replace(v, outcome=np.where(v.annotator == 1, 1.0 - v.outcome, v.outcome)))
    before, after = (compare_families(one, families).preference for one in (fair, contrary))
    assert np.isfinite(before).all()
    assert after[0] == pytest.approx(before[0], rel=1e-9)
    assert abs(after[1] - before[1]) > 0.05


def test_two_families_without_other_models_are_not_told_apart() -> None:
    fair = judge_votes(4, JUDGES[:2], n_models=8, shared=0.8).ballots
    found = compare_families(fair, Families(["A", "B"], list("AAAABBBB")))
    assert np.isnan(found.preference).all(), "one's liking for its own family is the other's for its"


@pytest.mark.campaign
@pytest.mark.parametrize("taste", [0.0, 0.25])
def test_intervals_hold_where_the_others_have_preferences_too(taste: float) -> None:
    hits = []
    for seed in range(60):
        judges = [replace(one, taste=taste) for one in JUDGES]
        ballots = judge_votes(seed, judges, shared=0.8).ballots
        found: OwnFamily = compare_families(favour(favour(ballots, 1, 0.2), 2, 0.2), FAMILIES)
        hits.append(abs(found.preference[0]) < critical_values(found.freedom[:1], 0.95)[0] * found.se[0])
    assert np.mean(hits) > 0.88  # 95 %, less 2.5 standard errors

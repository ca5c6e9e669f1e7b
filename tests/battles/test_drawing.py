"""Battles are drawn with the probabilities that are stored with them."""

from collections import Counter
from uuid import uuid4

import numpy as np
import pytest

from app.battles.drawing import BattleDraws, DrawnBattle, History
from app.battles.queries import ModelIds
from app.battles.roster import Roster
from app.policy.schemas import Policy, PolicyVersion
from app.rating.sampling.pair_weights import PairWeights

MODELS = (3, 5, 8, 9, 12)
DRAWS = 6_000


def table(seed: int) -> PairWeights:
    rng = np.random.default_rng(seed)
    return PairWeights(np.array(MODELS), rng.uniform(0.2, 3, 10).astype(np.float16), rng.normal(0, 1.5, 5))


def roster(*, tables: bool = True, calibration_share: float = 0.0) -> Roster:
    policy = PolicyVersion.model_construct(version=1, settings=Policy(calibration_share=calibration_share))
    known = {"": table(1), "code": table(2)} if tables else {}
    names = {model: f"m{model}" for model in MODELS}
    return Roster(
        names, frozenset(), MODELS, policy, uuid4() if tables else None, known, "top_k" if tables else "uniform"
    )


def draw(
    of: Roster, candidates: ModelIds = MODELS, *, tags: tuple[str, ...] = (), history: History | None = None
) -> list[DrawnBattle]:
    draws = BattleDraws(np.random.default_rng(11))
    return [draws.draw(of, candidates, tags, history or History(new=False)) for _ in range(DRAWS)]


def check(drawn: list[DrawnBattle]) -> dict[frozenset[int], float]:
    """Check the frequencies of ordered pairs against the stored propensities, which are returned."""
    stated = {frozenset((one.left_id, one.right_id)): one.propensity for one in drawn}
    assert all(stated[frozenset((one.left_id, one.right_id))] == one.propensity for one in drawn)
    assert sum(stated.values()) == pytest.approx(1.0)
    seen = Counter((one.left_id, one.right_id) for one in drawn)
    chi_squared = 0.0
    for pair, propensity in stated.items():
        low, high = sorted(pair)
        expected = DRAWS * propensity / 2
        chi_squared += sum((seen[sides] - expected) ** 2 / expected for sides in ((low, high), (high, low)))
    freedom = 2 * len(stated) - 1
    assert chi_squared < freedom + 5 * np.sqrt(2 * freedom)
    return stated


def test_the_table_of_the_first_tag_that_has_one_is_used() -> None:
    main, code = check(draw(roster())), check(draw(roster(), tags=("rare", "code", "")))
    for tag, stated in (("", main), ("code", code)):
        weights = roster().tables[tag].weight.astype(float)
        assert sorted(stated.values()) == pytest.approx(sorted(weights / weights.sum()))
    assert main != code
    assert {one.drawn_by for one in draw(roster(), tags=("rare",))} == {"top_k"}


def test_before_the_first_snapshot_all_pairs_are_alike() -> None:
    drawn = draw(roster(tables=False, calibration_share=0.5), history=History())
    assert set(check(drawn).values()) == {0.1}
    assert {one.drawn_by for one in drawn} == {"uniform"}


def test_candidates_and_the_last_pairs_narrow_the_choice() -> None:
    listed = check(draw(roster(), (3, 8, 12)))
    assert listed.keys() == {frozenset(pair) for pair in ((3, 8), (3, 12), (8, 12))}
    seen = History([(8, 3), (12, 9), (3, 8)], new=False)
    rest = check(draw(roster(), history=seen))
    assert len(rest) == 8
    assert not {frozenset((3, 8)), frozenset((9, 12))} & rest.keys()
    every = [(3, 8), (3, 12), (8, 12)]
    assert len(check(draw(roster(), (3, 8, 12), history=History(every, new=False)))) == 3, "then all may come again"


def test_a_share_of_a_new_annotator_s_battles_is_drawn_to_learn_about_the_annotator() -> None:
    drawn = draw(roster(calibration_share=0.4), history=History([(3, 5)], new=True))
    stated = check(drawn)
    share = Counter(one.drawn_by for one in drawn)["calibration"] / DRAWS
    assert share == pytest.approx(0.4, abs=0.035)
    experienced = draw(roster(calibration_share=0.4), history=History([(3, 5)], new=False))
    assert {one.drawn_by for one in experienced} == {"top_k"}
    assert stated != check(experienced)

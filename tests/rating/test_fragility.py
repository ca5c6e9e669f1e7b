"""Few are looked at, the right ones: `find_fragility` against sorting everything."""

import numpy as np

from app.lab.attacks.arena import Setup, draw_arena
from app.rating import fragility
from app.rating.estimate import estimate
from app.rating.fragility import find_fragility
from app.rating.influence import find_influence, leave_annotators_out
from app.rating.results import LoopSettings


def smallest(held: np.ndarray, gap: float) -> int:
    """How many, the largest first, add up to more than the gap; −1 if all do not."""
    total = np.cumsum(np.sort(held[held > 0])[::-1])
    return 1 + int(np.argmax(total > gap)) if len(total) and total[-1] > gap else -1


def test_the_smallest_sets_are_those_of_a_full_sort(monkeypatch: object) -> None:
    arena = draw_arena(3, "none", Setup(n_annotators=60, votes_each=80))
    result = estimate(arena.votes.cells(), LoopSettings(min_votes=0, interval="none"))
    influence = find_influence(result)
    monkeypatch.setattr(fragility, "FIRST_LOOK", 4)  # type: ignore[attr-defined]  # several looks even here
    found = find_fragility(result, influence)
    change = leave_annotators_out(influence)
    assert len(found.upper) == 19
    for pair, (i, j) in enumerate(zip(found.upper, found.lower, strict=True)):
        contrast = np.zeros(20)
        contrast[i], contrast[j] = 1.0, -1.0
        gap = result.solution.R[i] - result.solution.R[j]
        of_vote = np.repeat(influence.of_votes(contrast), influence.verdicts.size.astype(int))
        assert found.votes[pair] == smallest(of_vote, gap)
        points = found.gap[pair] / gap
        assert found.annotators[pair] == smallest((change[:, j] - change[:, i]) / points, gap)
    assert found.tied.tolist() == [0 <= votes <= 5 for votes in found.votes]

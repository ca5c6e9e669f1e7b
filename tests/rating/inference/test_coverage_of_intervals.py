"""Do 95 % intervals hold the true score 95 % of the time? Simulated arenas with annotators of different ability."""

import numpy as np
import pytest

from app.lab.simulate import simulate_votes
from app.rating.data.votes import aggregate
from app.rating.loop.round import run_round
from app.rating.settings import LoopSettings


def simulated_coverage(annotators: int, votes_each: int, arenas: int) -> dict[str, float]:
    """Share of true scores inside their interval, and the scale of the scores.

    The truth is in units of the truly typical annotator. The scale of a fit is random too (it is the typical
    annotator's), so scores are brought to the truth's scale first; `scale` reports by how much they were too wide.
    """
    inside: dict[str, list[float]] = {"clustered": [], "sandwich": [], "scale": []}
    for seed in range(arenas):
        votes = simulate_votes(seed, roles={"honest": annotators}, votes_each=votes_each)
        cells = aggregate(votes.annotator, votes.model_a, votes.model_b, votes.outcome, **votes.sizes)
        truth = votes.world.score * np.median(votes.world.ability)
        truth -= truth.mean()
        for kind in ("clustered", "sandwich"):
            board = run_round(cells, LoopSettings(interval=kind)).rating.models
            score = board.score - board.score.mean()
            factor = (truth @ score) / (score @ score)
            half = factor * (board.upper - board.lower) / 2
            inside[kind].append(float(np.mean(np.abs(factor * score - truth) <= half)))
        inside["scale"].append((score @ truth) / (truth @ truth))
    return {name: float(np.mean(values)) for name, values in inside.items()}


def test_intervals_cover_the_truth_in_a_small_arena() -> None:
    coverage = simulated_coverage(annotators=40, votes_each=100, arenas=40)
    assert 0.92 < coverage["clustered"] < 0.98  # 800 intervals: ± 2 standard errors of the share, and more
    assert 0.97 < coverage["scale"] < 1.08


@pytest.mark.soak
@pytest.mark.parametrize("annotators", [40, 400])
@pytest.mark.parametrize("votes_each", [51, 200])
def test_intervals_cover_the_truth(annotators: int, votes_each: int) -> None:
    coverage = simulated_coverage(annotators, votes_each, arenas=500)
    print(f"{annotators} annotators, {votes_each} votes each: {coverage}")
    assert 0.93 <= coverage["clustered"] <= 0.97

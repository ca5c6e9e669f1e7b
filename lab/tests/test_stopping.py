"""Arenas that look at their leaderboard after every batch of votes, and stop when it says that it is decided."""

import numpy as np
import pytest

from app.rating.settings import PairPolicy
from stable_arena_lab.stopping import Run, make_close_world, run_arena


def run_arenas(
    runs: int, *, lead: float, k: int = 1, policy: PairPolicy = "uniform", annotators: int = 400, batches: int = 20,
    forecast_at: float | None = None,
) -> list[Run]:  # fmt: skip
    """Arenas of 8 models whose models k and k + 1 are `lead` points apart; 0: every "decided" is wrong."""
    found = []
    for seed in range(runs):
        generator = np.random.default_rng(1000 + seed)
        world = make_close_world(generator, n_models=8, annotators=annotators, k=k, lead=lead)
        run = run_arena(
            world, generator, batches=batches, policy=policy, k=k, tied=lead == 0.0, forecast_at=forecast_at
        )
        found.append(run)
    return found


@pytest.mark.campaign
def test_few_looks_are_wrong_and_clear_leaders_are_found() -> None:
    even = run_arenas(8, lead=0.0, policy="top_k", annotators=120, batches=12)
    assert sum(run.wrong for run in even) == 0
    assert sum(run.naive_wrong for run in even) >= 1, "an interval for one look is left when looked at 12 times"
    clear = run_arenas(3, lead=120.0, policy="top_k", annotators=80, batches=8, forecast_at=600)
    assert [run.verdict for run in clear] == ["decided"] * 3
    assert not any(run.wrong for run in clear)
    assert any(run.forecast for run in clear)
    for run in clear:
        assert run.votes is not None
        assert run.votes <= 80 * 60
        if run.forecast is not None:
            low, median, high = run.forecast
            assert 600 < low <= median <= high


def test_a_close_world_has_its_lead() -> None:
    world = make_close_world(np.random.default_rng(0), n_models=6, annotators=3, k=2, lead=15.0)
    score = np.sort(world.score)[::-1]
    assert score[1] - score[2] == pytest.approx(15.0)


@pytest.mark.soak
@pytest.mark.parametrize("policy", ["uniform", "top_k", "mixed"])
@pytest.mark.parametrize("k", [1, 3])
def test_wrong_verdicts_over_a_whole_run(policy: PairPolicy, k: int) -> None:
    """300 arenas of two equal models at the border, 20 refits each: at most 5 % ever say "decided"."""
    even = run_arenas(300, lead=0.0, k=k, policy=policy)
    wrong, naive = sum(run.wrong for run in even), sum(run.naive_wrong for run in even)
    equal = sum(run.verdict == "equal" for run in even)
    print(f"{policy} k={k}: {wrong} wrong of 300; {naive} by intervals for one look; {equal} called equal")
    assert wrong <= 15
    assert naive > 15


@pytest.mark.soak
@pytest.mark.parametrize("policy", ["uniform", "top_k", "mixed"])
def test_forecasts_hold_what_comes(policy: PairPolicy) -> None:
    """Of 300 arenas with a lead of 30 points, the forecast at 3,000 votes holds the votes that it takes in 80 %."""
    runs = [run for run in run_arenas(300, lead=30.0, policy=policy, forecast_at=3000) if run.forecast]
    votes = [np.inf if run.votes is None else run.votes for run in runs]
    inside = np.mean([run.forecast[0] <= end <= run.forecast[2] for run, end in zip(runs, votes, strict=True)])
    below = np.mean([end <= run.forecast[1] for run, end in zip(runs, votes, strict=True)])
    print(f"{policy}: {len(runs)} forecasts, {inside:.2f} inside 80 %, {below:.2f} below the median")
    assert 0.65 <= inside <= 0.95
    assert 0.3 <= below <= 0.7

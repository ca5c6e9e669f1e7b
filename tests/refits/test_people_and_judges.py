"""The leaderboard of people sharpened by judges."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from app.database.engine import Database
from app.rating.settings import LoopSettings
from app.refits.fit.fit import fit_snapshot
from app.refits.fit.interface import FitInput, FitOutput, LeaderboardName
from app.refits.fit.process import FitProcess
from app.refits.fragility import measure_newest
from tests.fixtures.console import SignIn
from tests.fixtures.fit_inputs import make_fit_input
from tests.fixtures.judged_arena import make_arena

Ask = Callable[..., Any]
ARENA = make_arena(1, "good", n_models=6, battles=1500)
TOGETHER, PEOPLE = LeaderboardName("people+judges"), LeaderboardName("people")
WINNERS = {1.0: "model_a", 0.5: "tie", 0.0: "model_b"}


def make_input(chance: np.ndarray | None = None) -> FitInput:
    """Return votes of three judges on all battles, and of 25 people with 20 votes each on some."""
    ballots, human = ARENA.ask(1, 500, each=20, chance=chance)
    v = ballots.votes
    made = make_fit_input(
        v.annotator, v.model_a, v.model_b, v.outcome, n_annotators=len(human), n_models=6,
        settings=LoopSettings(min_votes=5),
    )  # fmt: skip
    return replace(made, judges=~human, battles=ballots.battle + 1)


def fit(task: FitInput) -> FitOutput:
    return fit_snapshot(task)


def test_judges_sharpen_the_peoples_leaderboard() -> None:
    found = fit(make_input())
    people, together = found.leaderboards[PEOPLE], found.leaderboards[TOGETHER]
    assert np.mean(together.upper - together.lower) < 0.97 * np.mean(people.upper - people.lower)
    assert together.score == pytest.approx(people.score, abs=60.0)
    assert together.votes.tolist() == people.votes.tolist()
    about = found.sharpened
    assert about is not None
    assert (about["people_votes"], about["people_battles"], about["judged_battles"]) == (500, 500, 1500)
    assert 510 < about["people_votes_worth"] < 900
    assert about["random_part_p"] > 0.001


def test_judges_who_are_excluded_sharpen_nothing() -> None:
    task = make_input()
    found = fit(replace(task, overrides=np.where(task.judges, "excluded", "")))
    assert TOGETHER not in found.leaderboards
    assert found.sharpened is None


def test_chosen_battles_give_no_such_leaderboard_and_a_notice() -> None:
    first, second = list(ARENA.verdicts.values())[:2]
    found = fit(make_input(np.where(first == second, 30.0, 1.0)))
    assert PEOPLE in found.leaderboards
    assert TOGETHER not in found.leaderboards
    assert found.sharpened is None
    assert "battles-not-random" in [notice.code for notice in found.notices]


def test_without_common_battles_there_is_no_such_leaderboard_and_no_notice() -> None:
    found = fit(replace(make_input(), battles=None))
    assert TOGETHER not in found.leaderboards
    assert {notice.code for notice in found.notices} <= {"kind-board-omitted"}


@pytest.mark.comparisons
def test_it_is_served_and_says_what_it_is(
    database: Database, ask: Ask, change_policy: Ask, refit: Ask, client: Any, fit_process: FitProcess, sign_in: SignIn
) -> None:
    change_policy(min_votes=5, min_board_annotators=5)
    ballots, human = ARENA.ask(1, 500, each=20)
    v = ballots.votes
    votes = [
        {
            "battle_id": f"battle {battle}", "annotator": v.annotators[k], "model_a": v.models[a],
            "model_b": v.models[b], "winner": WINNERS[float(W)], "annotator_kind": "human" if human[k] else "judge",
        }
        for k, a, b, W, battle in zip(v.annotator, v.model_a, v.model_b, v.outcome, ballots.battle, strict=True)
    ]  # fmt: skip
    for start in range(0, len(votes), 1000):
        answer = ask("POST", "/votes/batch", json={"votes": votes[start : start + 1000]})
        assert answer.status_code == 200, answer.text
    refit()
    people, together = (
        ask("GET", "/leaderboard", params={"method": method}).json() for method in ("people", "people+judges")
    )
    assert together["of"] == "all"
    assert {row["model"] for row in together["models"]} == {row["model"] for row in people["models"]}
    assert together["diagnostics"]["sharpened"]["people_votes_worth"] > 500
    typed = ask("GET", "/leaderboard?method=people+judges").json()
    assert typed["models"] == together["models"]
    page = client.get("/", params={"method": "people+judges"})
    assert page.status_code == 200
    assert "The 500 votes of people count like" in page.text
    assert "method=people%2Bjudges" in page.text
    assert measure_newest(database, fit_process, lease_seconds=30)
    found = ask("GET", "/judges").json()["sharpened"]
    assert found["people_votes_worth"] == together["diagnostics"]["sharpened"]["people_votes_worth"]
    now = next(point for point in found["curve"] if point["people_votes"] == 500)
    for column, rows in (("people", people["models"]), ("sharpened", together["models"])):
        assert now[column] == pytest.approx(np.median([row["upper"] - row["lower"] for row in rows]), rel=0.03)
    judges = sign_in("review").page("/console/judges")
    assert judges.texts(".//div[@aria-label='Median width of an interval by votes of people']")

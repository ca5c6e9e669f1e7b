import threading
from collections.abc import Callable
from typing import Any

import pytest
from httpx import Client

from app.main import create_app
from app.refits.fit.interface import FitOutput
from app.settings import Settings, WorkerSettings
from tests.fixtures.refits import Around

Ask = Callable[..., Any]


def preview(ask: Ask, **changes: Any) -> Any:
    settings = {**ask("GET", "/policy").json()["settings"], **changes}
    return ask("POST", "/policy/preview", json={"settings": settings})


@pytest.mark.campaign
@pytest.mark.own_child
def test_it_says_what_the_refit_then_does(ask: Ask, crowd: list[str], refit: Ask, change_policy: Ask) -> None:
    refit()
    change = {"on_low_ability": "exclude", "max_excluded_share": 1.0, "min_votes": 100, "base": 1200.0}
    seen = preview(ask, **change)
    assert seen.status_code == 200, seen.text
    seen = seen.json()
    assert (seen["policy_version"], seen["votes_read"], seen["votes_used"]) == (1, 1680, 1440)
    assert seen["counts"] == {"flagged": 0, "excluded": 2, "pending": 0, "back_in": 0, "cleared": 0}
    assert {one["annotator"] for one in seen["annotators"]} == {key for key in crowd if "flip" in key}
    assert ask("GET", "/policy").json()["version"] == 1
    assert len(ask("GET", "/snapshots").json()["items"]) == 1

    change_policy(**change)
    refit()
    board = {row["model"]: row["score"] for row in ask("GET", "/leaderboard").json()["models"]}
    assert {row["model"]: row["score_after"] for row in seen["models"]} == pytest.approx(board, abs=1e-6)
    moved = ask("GET", "/snapshots/1/diff/2").json()["models"]
    places = ("model", "kind", "rank_before", "rank_after", "beyond_interval", "votes_after")
    assert [[row[name] for name in places] for row in moved] == [
        [row[name] for name in places] for row in seen["models"]
    ]
    assert {one["annotator"] for one in ask("GET", "/annotators?standing=excluded").json()["items"]} == {
        one["annotator"] for one in seen["annotators"]
    }


def test_the_guard_is_foreseen(ask: Ask, crowd: list[str], refit: Ask) -> None:
    refit()
    seen = preview(ask, on_low_ability="exclude", max_excluded_share=0.1).json()
    assert seen["needs_review"]
    assert seen["newly_excluded_share"] == pytest.approx(2 / 14)
    assert seen["review_reason"] == (
        "it would newly exclude 14.3% of the votes (240 of 1,680), more than the policy's 10.0%"
    )
    accepted = preview(ask, on_low_ability="exclude", max_excluded_share=0.2).json()
    assert (accepted["needs_review"], accepted["review_reason"]) == (False, None)


def test_where_no_annotator_is_past_delta_there_is_no_share(
    ask: Ask, assert_problem: Ask, crowd: list[str], refit: Ask
) -> None:
    """Not even reinstated annotators count then, so a share of no votes is never asked for."""
    refit()
    for key in crowd[:8]:
        ask("POST", f"/annotators/{key}/decisions", json={"action": "reinstate", "reason": "a test"})
    refused = assert_problem(preview(ask, min_votes=500, on_low_ability="exclude"), 409, "cannot-fit")
    assert refused["detail"].startswith("no vote is left: no annotator has more than 500 votes")


def test_the_anchor_must_be_a_public_model(ask: Ask, assert_problem: Ask) -> None:
    assert ask("POST", "/models", json={"name": "owl", "unreleased": True}).status_code == 201
    for name in ("nobody", "owl"):
        assert_problem(preview(ask, anchor={"model": name, "score": 1000}), 422, "invalid")


def test_two_camps_are_foreseen(ask: Ask, gather: Ask, refit: Ask) -> None:
    gather(honest=8, flip=6)
    seen = preview(ask).json()
    assert (seen["needs_review"], seen["newly_excluded_share"]) == (True, 0.0)
    assert seen["review_reason"].startswith("6 of 14 annotators vote against the ranking: there are two camps")
    ended = refit()
    assert ended["state"] == "needs_review"
    assert ended["detail"].startswith(f"{seen['review_reason']}; if that is right, publish it by: ")


def test_an_archived_model_is_no_news(ask: Ask, crowd: list[str], refit: Ask) -> None:
    refit()
    assert ask("PATCH", "/models/model 0", json={"archived": True}).status_code == 200
    seen = preview(ask).json()
    assert sorted(row["model"] for row in seen["models"]) == [f"model {i}" for i in range(1, 6)]
    assert {row["kind"] for row in seen["models"]} == {"stayed"}
    assert seen["summary"] == ["No model changed its rank or left its interval."]


def test_what_waits_already_is_no_effect_of_a_change(
    ask: Ask, crowd: list[str], refit: Ask, vote: Ask, around_fits: Around
) -> None:
    """The next refit is fitted without the change too, once until something new is on record."""
    fits: list[int] = []

    def count(fit: Callable[[], FitOutput]) -> FitOutput:
        fits.append(1)
        return fit()

    ask("POST", "/annotators/honest 3/decisions", json={"action": "exclude", "reason": "a test"})
    refit()
    around_fits(count)
    harmless = {"refit_interval_seconds": 1234}
    assert (preview(ask, **harmless).json()["compared_with"], len(fits)) == ("snapshot", 1)
    ask("POST", "/annotators/honest 3/decisions", json={"action": "withdraw", "reason": "a test"})
    seen = preview(ask, **harmless).json()
    assert (seen["compared_with"], seen["snapshot"], len(fits)) == ("next refit", 1, 3)
    assert seen["annotators"] == []
    assert {row["change"] for row in seen["models"]} == {0.0}
    assert (preview(ask, min_ability=-5, flag_rule="threshold").json()["counts"]["cleared"], len(fits)) == (2, 4)
    waiting = preview(ask).json()
    assert (waiting["compared_with"], len(fits)) == ("snapshot", 5), "the policy in force: what the refit would do"
    assert any(row["change"] for row in waiting["models"])
    vote(annotator="honest 3")
    preview(ask, **harmless)
    assert len(fits) == 7


def test_a_refit_that_would_fail_leaves_the_snapshot(ask: Ask, crowd: list[str], change_policy: Ask) -> None:
    change_policy(min_votes=500)
    seen = preview(ask, min_votes=50).json()
    assert (seen["compared_with"], {row["kind"] for row in seen["models"]}) == ("nothing", {"entered"})


def test_who_would_be_cleared(ask: Ask, crowd: list[str], refit: Ask) -> None:
    refit()
    seen = preview(ask, flag_rule="threshold", min_ability=-5).json()
    assert seen["counts"] == {"flagged": 0, "excluded": 0, "pending": 0, "back_in": 0, "cleared": 2}
    assert {(one["before"], one["after"]) for one in seen["annotators"]} == {("flagged", "active")}


def test_who_would_wait_and_come_back(ask: Ask, crowd: list[str], refit: Ask, change_policy: Ask, vote: Ask) -> None:
    vote(annotator="honest 0")
    refit()
    assert preview(ask, min_votes=120).json()["counts"]["pending"] == 13
    change_policy(min_votes=120)
    refit()
    assert preview(ask, min_votes=50).json()["counts"]["back_in"] == 11  # and two come back flagged


def test_before_the_first_board(ask: Ask, crowd: list[str]) -> None:
    seen = preview(ask).json()
    assert {row["kind"] for row in seen["models"]} == {"entered"}
    assert seen["counts"]["back_in"] == 12


def test_the_trusted_come_in_too(ask: Ask, crowd: list[str]) -> None:
    decision = {"action": "trust", "reason": "a test"}
    assert ask("POST", "/annotators/honest 0/decisions", json=decision).status_code == 201
    seen = preview(ask).json()
    assert seen["counts"] == {"flagged": 2, "excluded": 0, "pending": 0, "back_in": 12, "cleared": 0}
    assert {one["after"] for one in seen["annotators"]} == {"flagged", "active", "trusted"}


def test_what_cannot_be_fitted(ask: Ask, assert_problem: Ask, crowd: list[str]) -> None:
    assert_problem(preview(ask, min_votes=10_000), 409, "cannot-fit")


def test_one_at_a_time(ask: Ask, assert_problem: Ask, crowd: list[str], around_fits: Around) -> None:
    entered, leave = threading.Event(), threading.Event()

    def fit_slowly(fit: Callable[[], FitOutput]) -> FitOutput:
        entered.set()
        assert leave.wait(120)
        return fit()

    around_fits(fit_slowly)
    answers: list[Any] = []
    first = threading.Thread(target=lambda: answers.append(preview(ask)))
    first.start()
    assert entered.wait(120)
    busy = preview(ask)
    leave.set()
    first.join()
    assert_problem(busy, 503, "preview-busy")
    assert answers[0].status_code == 200
    assert preview(ask).status_code == 200


def test_what_is_refused(ask: Ask, assert_problem: Ask) -> None:
    assert_problem(preview(ask, min_votes=-1), 422, "invalid")
    assert_problem(ask("POST", "/policy/preview", json={"settings": {}}), 422, "invalid")
    assert_problem(ask("POST", "/policy/preview", scope=None, json={}), 401, "not-authenticated")
    assert_problem(ask("POST", "/policy/preview", scope="review", json={}), 403, "scope-missing")


@pytest.mark.own_child
def test_it_obeys_the_worker_s_limits(
    crowd: list[str],
    settings: Settings,
    keys: dict[str, str],
    serving: Ask,
    assert_problem: Ask,
) -> None:
    hurried = settings.model_copy(update={"worker": WorkerSettings(run_in_server=False, fit_seconds=1e-9)})
    headers = {"Authorization": f"Bearer {keys['admin']}"}
    with serving(create_app(hurried)) as url, Client(base_url=f"{url}/api/v1", timeout=120, headers=headers) as client:
        in_force = client.get("/policy").json()["settings"]
        assert_problem(client.post("/policy/preview", json={"settings": in_force}), 500, "fit-too-large")

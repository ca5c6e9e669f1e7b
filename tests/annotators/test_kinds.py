"""People and judges: how it is said which an annotator is, and whose votes the leaderboards are of."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from httpx import Client
from sqlalchemy import select

from app.database.engine import Database
from app.database.tables import annotators
from app.refits.reproduce import reproduce
from app.refits.schemas import Refit
from app.snapshots.service import find_snapshot
from tests.fixtures.crowds import RANK_EVERYTHING
from tests.fixtures.fit_inputs import make_fit_input

Ask = Callable[..., Any]
VOTE = {"model_a": "x", "model_b": "y", "winner": "tie"}


def kind_of(ask: Ask, annotator: str) -> str | None:
    kind: str | None = ask("GET", f"/annotators/{annotator}", scope="review:read").json()["kind"]
    return kind


def test_a_vote_says_what_its_annotator_is(ask: Ask, assert_problem: Ask) -> None:
    for annotator, kind in (("gpt", "judge"), ("ann", "human")):
        vote = {**VOTE, "annotator": annotator, "annotator_kind": kind}
        assert ask("POST", "/votes", json=vote).status_code == 201
    assert ask("POST", "/votes", json={**VOTE, "annotator": "ann"}).status_code == 201
    assert ask("POST", "/votes", json={**VOTE, "annotator": "nothing said"}).status_code == 201
    assert [kind_of(ask, one) for one in ("gpt", "ann", "nothing said")] == ["judge", "human", None]

    other = ask("POST", "/votes", json={**VOTE, "annotator": "gpt", "annotator_kind": "human"})
    problem = assert_problem(other, 422, "invalid")
    assert [fault["pointer"] for fault in problem["errors"]] == ["/annotator_kind"]
    assert_problem(ask("POST", "/votes", json={**VOTE, "annotator": "x", "annotator_kind": "robot"}), 422, "invalid")


def test_a_browser_says_nothing_of_kinds(ask: Ask, client: Client, assert_problem: Ask) -> None:
    token = ask("POST", "/keys/tokens", scope="ingest", json={}).json()["token"]
    headers = {"Authorization": f"Bearer {token}"}
    for model in ("x", "y"):
        ask("POST", "/models", json={"name": model})
    said = client.post("/api/v1/votes", json={**VOTE, "annotator": "ann", "annotator_kind": "judge"}, headers=headers)
    assert [one["pointer"] for one in assert_problem(said, 422, "invalid")["errors"]] == ["/annotator_kind"]
    assert client.post("/api/v1/votes", json={**VOTE, "annotator": "ann"}, headers=headers).status_code == 201
    assert kind_of(ask, "ann") is None


def test_in_a_batch_the_first_kind_holds(ask: Ask) -> None:
    votes = [{**VOTE, "annotator": "gpt", "annotator_kind": kind} for kind in ("judge", "human", "judge")]
    assert ask("POST", "/votes/batch", json={"votes": votes}).json()["counts"]["invalid"] == 1
    assert kind_of(ask, "gpt") == "judge"


def test_an_admin_says_otherwise(ask: Ask, assert_problem: Ask) -> None:
    ask("POST", "/votes", json={**VOTE, "annotator": "gpt/v2", "annotator_kind": "human"})
    for _ in range(2):
        changed = ask("PATCH", "/annotators/gpt/v2", json={"kind": "judge"}, scope="review")
        assert (changed.status_code, changed.json()["kind"]) == (200, "judge")
    entries = ask("GET", "/audit").json()["items"]
    assert [one["detail"] for one in entries if one["action"] == "annotator.kind"] == [
        {"before": "human", "kind": "judge"}
    ]
    change = {"json": {"kind": "judge"}}
    assert_problem(ask("PATCH", "/annotators/gpt/v2", scope=None, **change), 401, "not-authenticated")
    assert_problem(ask("PATCH", "/annotators/gpt/v2", scope="review:read", **change), 403, "scope-missing")
    assert_problem(ask("PATCH", "/annotators/nobody", scope="review", **change), 404, "not-found")
    assert_problem(ask("PATCH", "/annotators/gpt/v2", json={"kind": "robot"}), 422, "invalid")


@pytest.fixture
def mixed(database: Database, stored_crowd: None, store_policy: Callable[..., None]) -> Database:
    """12 honest people, and two judges who vote against them."""
    store_policy(**RANK_EVERYTHING)
    with database.begin() as conn:
        flips = annotators.update().where(annotators.c.key.startswith("flip"))
        conn.execute(flips.values(kind="judge"))
    return database


@pytest.mark.comparisons
def test_judges_are_rated_against_the_leaderboard_of_people(
    ask: Ask, mixed: Database, run_refit: Callable[..., Refit], assert_problem: Ask
) -> None:
    assert run_refit().state == "done"
    people = ask("GET", "/leaderboard").json()
    assert (people["of"], people["snapshot"]["votes_used"]) == ("people", 12 * 120)
    account = people["diagnostics"]["votes"]
    assert (account["of_others"], account["excluded"]) == (2 * 120, 0)
    names = ("people", "judges", "all", "m-elo-all")
    boards = {name: ask("GET", f"/leaderboard?method={name}").json() for name in names}
    assert {name: board["of"] for name, board in boards.items()} == {
        "people": "people",
        "judges": "judges",
        "all": "all",
        "m-elo-all": "all",
    }
    assert boards["people"]["models"] == [{**row, "tied": None, "tied_with": None} for row in people["models"]]
    assert sum(row["votes"] for row in boards["all"]["models"]) == 2 * 14 * 120
    order, theirs = ([row["model"] for row in board["models"]] for board in (people, boards["judges"]))
    assert (theirs.index(order[0]), theirs.index(order[-1])) == (5, 0), "they vote against the people"
    judge = ask("GET", "/annotators/flip 12", scope="review:read").json()
    assert judge["ability"] is None
    assert judge["shadow_ability"] < 0.0
    with mixed.read() as conn:
        snapshot = find_snapshot(conn)
        known = conn.execute(select(annotators.c.id).where(annotators.c.kind == "judge")).scalars().all()
    assert snapshot.diagnostics["leaderboard_of"] == "people"
    ask("PATCH", "/annotators/flip 12", json={"kind": "human"})
    assert len(known) == 2
    again = reproduce(mixed, str(snapshot.number))
    assert again.reproduced, "by who was a judge then"


def test_the_policy_says_whose_leaderboard_it_is(
    ask: Ask, mixed: Database, run_refit: Callable[..., Refit], store_policy: Callable[..., None]
) -> None:
    for whose, used in (("all", 14), ("judges", 2)):
        store_policy(**RANK_EVERYTHING, leaderboard_of=whose)
        assert run_refit().state == "done"
        board = ask("GET", "/leaderboard").json()
        assert (board["of"], board["snapshot"]["votes_used"]) == (whose, used * 120)


def test_until_enough_people_have_votes_enough_it_is_of_all(
    ask: Ask, mixed: Database, run_refit: Callable[..., Refit], store_policy: Callable[..., None]
) -> None:
    store_policy(**(RANK_EVERYTHING | {"min_board_annotators": 13}))
    assert run_refit().state == "done"
    assert ask("GET", "/leaderboard").json()["of"] == "all"


@pytest.mark.comparisons
def test_an_arena_of_people_has_no_other_leaderboards(
    ask: Ask, stored_crowd: None, run_refit: Callable[..., Refit], assert_problem: Ask
) -> None:
    assert run_refit().state == "done"
    board = ask("GET", "/leaderboard").json()
    assert board["of"] == "people"
    assert "of_others" not in board["diagnostics"]["votes"]
    assert_problem(ask("GET", "/leaderboard?method=judges"), 404, "no-such-board")
    assert ask("GET", "/snapshots/1").json()["boards"] == ["am-elo", "elo", "m-elo", "m-elo-all"]


def test_an_arena_of_judges_alone_is_of_judges() -> None:
    one = np.zeros(3, dtype=int)
    votes = make_fit_input(one, one, one + 1, one, n_annotators=2, n_models=2)
    assert (votes.mixed, votes.whose) == (False, "people")
    alone = replace(votes, judges=np.array([True, False]))
    assert (alone.mixed, alone.whose) == (False, "judges")
    assert not alone.keep_never.any()

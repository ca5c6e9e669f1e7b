"""Models under a codename: battles show them and their votes count, and nothing public names them."""

import io
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from fastapi import FastAPI
from fastapi.routing import iter_route_contexts
from httpx import Client, Response

from app.database.engine import Database
from app.exports.files import write_export
from app.exports.schemas import ExportFilters
from app.leaderboard.charts import draw_newest
from app.refits.fit.process import FitProcess
from app.refits.fragility import measure_newest
from app.refits.reproduce import reproduce
from app.snapshots.service import find_snapshot
from tests.fixtures.crowds import crowd_votes

Ask = Callable[..., Any]

CODENAME = "zz-lynx-9"
OTHERS = ("model 0", "model 1", "model 3", "model 4", "model 5")
VALUES = {"reference": "2", "form": "svg", "before": "1", "after": "2", "name:path": "model 0", "name": "model 0"}
"""For the parameters of public routes."""
QUERIES = {
    "/": ("", "method=m-elo", "method=style", "tag=category=code", "compare=m-elo", "all=true"),
    "/compare": ("", "a=model 0&b=model 1"),
    "/embed": ("", "top=3"),
    "/history": ("", "before=2", "model=model 0&model=model 1"),
    "/history/difference": ("before=1&after=2",),
    "/matchups": ("", "show=predicted", "model=model 0&model=model 1"),
    "/models/{name:path}": ("", "method=m-elo-all"),
    "/api/v1/leaderboard": (
        *(f"method={one}" for one in ("am-elo", "m-elo", "m-elo-all", "elo", "style", "weighted")),
        *("", "tag=category=code", "tag=criterion=tone", "format=csv", "format=parquet", "snapshot=1"),
        "fields=model,diagnostics",
    ),
    "/api/v1/leaderboard/confidence": ("", "k=2", "tag=category=code"),
    "/api/v1/matchups": ("", "format=csv", "format=parquet", "model=model 0", "limit=200"),
}  # fmt: skip
"""How the walk asks, beside without a query."""
ENDLESS = ("/api/v1/snapshots/events", "/events")


@pytest.fixture
def lynx(ask: Ask, change_policy: Ask) -> None:
    """The crowd's model 2 is an unreleased one of Zoo, and so is model 4 a public one; votes have categories."""
    change_policy(
        dimensions={"category": ["code", "text"]}, category_weights={"category=code": 1}, style_features=["side"]
    )
    added = ask("POST", "/models", json={"name": "model 2", "organization": "Zoo", "unreleased": True})
    assert (added.status_code, added.json()["unreleased"]) == (201, True)
    assert ask("PATCH", "/models/model 2", json={"name": CODENAME}).status_code == 200
    assert ask("POST", "/models", json={"name": "model 4", "organization": "Zoo"}).status_code == 201
    votes = [
        in_category(vote, "code" if place % 2 else "text") for place, vote in enumerate(crowd_votes(honest=12, flip=2))
    ]
    votes += [{**vote, "criterion": "tone"} for vote in crowd_votes(honest=6)]
    for start in range(0, len(votes), 1000):
        assert ask("POST", "/votes/batch", json={"votes": votes[start : start + 1000]}).status_code == 200


def in_category(vote: dict[str, str], category: str) -> dict[str, Any]:
    """Return the vote in a category; the unreleased model wins every one in code, so that it stands out."""
    side = next((side for side in ("model_a", "model_b") if vote[side] == "model 2"), None)
    winner = side if side is not None and category == "code" else vote["winner"]
    return {**vote, "winner": winner, "tags": [f"category={category}"]}


def texts_of(response: Response) -> str:
    """Return what a reader of the answer can read."""
    if "parquet" in response.headers.get("content-type", ""):
        return str(pl.read_parquet(io.BytesIO(response.content)).to_dicts())
    return response.content.decode("utf-8", errors="replace")


def public_requests(app: FastAPI) -> Iterator[str]:
    for route in iter_route_contexts(app.routes):
        if "GET" not in (route.methods or ()) or route.path.startswith("/console") or route.path in ENDLESS:
            continue
        path = re.sub(r"{([\w:]+)}", lambda found: VALUES.get(found[1], "x"), route.path)
        for query in QUERIES.get(route.path, ("",)):
            yield f"{path}?{query}" if query else path


@pytest.mark.comparisons
def test_nothing_public_names_an_unreleased_model(
    ask: Ask, lynx: None, refit: Ask, client: Client, usual_app: FastAPI, database: Database, fit_process: FitProcess,
    keys: dict[str, str], tmp_path: Path,
) -> None:  # fmt: skip
    refit()
    refit()
    draw_newest(database)
    with database.read() as conn:
        outliers = [one["model"] for one in find_snapshot(conn).diagnostics["categories"]["category"]["outliers"]]
    assert outliers, "others stand out below it"
    assert measure_newest(database, fit_process, lease_seconds=30)
    shown, named = [], []
    for scope in (None, "read"):
        headers = {"Authorization": f"Bearer {keys[scope]}"} if scope else {}
        for address in public_requests(usual_app):
            response = client.get(address, headers=headers)
            if response.status_code == 200:
                shown.append((scope, address))
            if CODENAME in texts_of(response) or "model 2" in texts_of(response):
                named.append((scope, address, response.status_code))
    assert named == []
    public = {address for scope, address in shown if scope is None}
    assert {"/", "/embed", "/governance", "/models/model 0", "/api/v1/governance", "/api/v1/snapshots"} <= public
    assert {
        "/api/v1/leaderboard?tag=criterion=tone",
        "/api/v1/leaderboard?method=style",
        "/card.svg",
        "/categories",
    } <= public
    assert {"/api/v1/snapshots/1/diff/2", "/history/difference?before=1&after=2"} <= public
    assert ("read", "/api/v1/models") in shown
    write_export(database, "leaderboard", "csv", ExportFilters(), tmp_path / "board.csv")
    assert CODENAME not in (tmp_path / "board.csv").read_text()
    assert "model 0" in (tmp_path / "board.csv").read_text()


@pytest.mark.usefixtures("lynx")
def test_who_asks_for_it_by_name_finds_nothing(ask: Ask, refit: Ask, client: Client) -> None:
    refit()
    pages = (f"/compare?a={CODENAME}", f"/matchups?model={CODENAME}", f"/history?model={CODENAME}")
    for address in (f"/models/{CODENAME}", "/models/model 2", *pages):
        assert client.get(address).status_code == 404, address
    assert ask("GET", f"/matchups?model={CODENAME}").status_code == 404, "the list is public"
    assert ask("GET", f"/models/{CODENAME}", scope="read").status_code == 404
    found = ask("GET", f"/models/{CODENAME}").json()
    assert (found["unreleased"], len(found["head_to_head"]), found["newest"]["rank"]) == (True, 5, None)
    assert found["newest"]["score"] is not None, "reviewers and admins see it"
    listed = {
        scope: [one["name"] for one in ask("GET", "/models", scope=scope).json()["items"]]
        for scope in ("read", "admin")
    }
    assert listed == {"read": [*OTHERS], "admin": [*OTHERS, CODENAME]}


@pytest.mark.comparisons
def test_its_votes_count_and_publication_gives_it_a_rank(
    ask: Ask, lynx: None, refit: Ask, database: Database, assert_problem: Ask
) -> None:
    refit()
    hidden = ask("GET", "/leaderboard").json()
    assert [row["rank"] for row in hidden["models"]] == [1, 2, 3, 4, 5], "no gap where it is"
    assert ask("POST", "/models/model 2/publish", json={"name": "model 0"}).status_code == 409
    published = ask("POST", f"/models/{CODENAME}/publish", json={"name": "Lynx 2"}).json()
    assert (published["name"], published["unreleased"]) == ("Lynx 2", False)
    again = ask("POST", f"/models/{CODENAME}/publish", json={})
    assert again.json() == published, "asking again changes nothing, and the codename is an alias"
    assert_problem(ask("POST", "/models/Lynx 2/publish", json={"name": "Lynx 3"}), 409, "conflict")
    at_once = ask("GET", "/leaderboard").json()["models"]
    assert [(row["model"], row["rank"]) for row in at_once if row["rank"] is None] == [("Lynx 2", None)]
    past = reproduce(database, "1")
    assert max(past.differences.values()) < 1e-9, "made again, it has no rank"
    refit()
    after = ask("GET", "/leaderboard").json()
    assert [row["rank"] for row in after["models"]] == [1, 2, 3, 4, 5, 6]
    scores = {row["model"]: row["score"] for row in after["models"]}
    assert {row["model"]: row["score"] for row in hidden["models"]} == pytest.approx(
        {name: score for name, score in scores.items() if name != "Lynx 2"}, abs=1e-6
    )
    assert hidden["snapshot"]["votes_used"] == after["snapshot"]["votes_used"]
    assert hidden["snapshot"]["votes_hash"] == after["snapshot"]["votes_hash"]
    entered = ask("GET", "/snapshots/1/diff/2").json()["models"]
    assert {one["model"] for one in entered} == {*OTHERS, "Lynx 2"}


def test_the_policy_bounds_them(ask: Ask, change_policy: Ask, assert_problem: Ask) -> None:
    def add(name: str, organization: str | None) -> Any:
        return ask("POST", "/models", json={"name": name, "organization": organization, "unreleased": True})

    change_policy(max_unreleased=1)
    assert add("a", "Zoo").status_code == 201
    assert_problem(add("b", "Zoo"), 409, "conflict")
    assert add("b", "Park").status_code == 201
    assert add("c", None).status_code == 201
    assert_problem(add("d", None), 409, "conflict")
    assert_problem(ask("PATCH", "/models/b", json={"organization": "Zoo"}), 409, "conflict")
    assert ask("PATCH", "/models/a", json={"archived": True, "reason": "no use"}).status_code == 200
    assert ask("PATCH", "/models/b", json={"organization": "Zoo"}).status_code == 200, "an archived one is in no battle"
    assert_problem(ask("PATCH", "/models/a", json={"archived": False}), 409, "conflict")
    assert ask("POST", "/models/b/publish", json={}).status_code == 200
    assert ask("PATCH", "/models/a", json={"archived": False}).status_code == 200


def test_what_it_was_before_it_changed_is_as_secret(ask: Ask, refit: Ask, lynx: None, client: Client) -> None:
    before = ask("POST", f"/models/{CODENAME}/changed", json={"at": "2026-01-01T00:00:00Z"}).json()["before"]
    assert ask("GET", f"/models/{before}", scope="read").status_code == 404
    merged = ask("POST", f"/models/{CODENAME}/merge", json={"into": "model 0", "reason": "spelling"})
    assert merged.status_code == 200
    refit()
    for address in ("/governance", "/api/v1/governance", "/models/model 0", "/"):
        assert CODENAME not in client.get(address).text, address
    assert ask("POST", f"/models/{CODENAME}/unmerge", json={}).status_code == 200
    assert ask("POST", f"/models/{CODENAME}/publish", json={"name": "Lynx 2"}).status_code == 200
    former = ask("GET", f"/models/{before}", scope="read").json()
    assert former["name"] == before.replace(CODENAME, "Lynx 2"), "it has the new name too"


def test_what_it_was_before_has_the_new_name_whatever_name_it_had(ask: Ask, lynx: None) -> None:
    before = ask("POST", f"/models/{CODENAME}/changed", json={"at": "2026-01-01T00:00:00Z"}).json()["before"]
    assert ask("PATCH", f"/models/{CODENAME}", json={"name": "second codename"}).status_code == 200
    assert ask("POST", "/models/second codename/publish", json={"name": "Lynx 2"}).status_code == 200
    assert ask("GET", f"/models/{before}", scope="read").json()["name"] == "Lynx 2 (before 2026-01-01)"


def test_voters_learn_the_codename_and_no_place_of_it(ask: Ask, lynx: None, refit: Ask, client: Client) -> None:
    refit()
    token = ask("POST", "/keys/tokens", scope="ingest", json={"annotator": "honest 0"}).json()["token"]
    headers, query = {"Authorization": f"Bearer {token}"}, {"annotator": "honest 0"}
    order = client.get("/api/v1/annotators/me/order", params=query, headers=headers).json()
    assert {one["model"] for one in order["models"]} == {*OTHERS}
    assert order["votes"] == 120
    near = client.get(f"/models/{CODENAME[:-1]}8")
    assert (near.status_code, CODENAME in near.text) == (404, False), "nor is it suggested"

import json
from collections.abc import Callable
from typing import Any
from urllib.parse import quote
from uuid import uuid4

import pytest
from httpx import Client
from pydantic import ValidationError

from app.main import create_app
from app.models.schemas import ModelChange
from app.settings import IngestSettings, Settings

Ask = Callable[..., Any]

VOTE = {"model_a": "ant", "model_b": "bee", "winner": "model_a", "annotator": "judge"}


@pytest.fixture
def post_vote(ask: Ask) -> Ask:
    """Record a vote that differs from the usual one; return the id, or the faults' places where it is not valid."""

    def send(**changes: Any) -> Any:
        response = ask("POST", "/votes", json={**VOTE, **changes})
        return response.json().get("id") or [error["pointer"] for error in response.json()["errors"]]

    return send


@pytest.fixture
def patch(ask: Ask) -> Ask:
    """Change a model and return it."""

    def send(model: str, /, **changes: Any) -> Any:
        response = ask("PATCH", f"/models/{model}", json=changes)
        assert response.status_code == 200, response.text
        return response.json()

    return send


@pytest.fixture
def add_alias(ask: Ask) -> Ask:
    """Give a model an alias and return it."""

    def send(model: str, name: str, **period: str) -> Any:
        response = ask("POST", f"/models/{model}/aliases", json={"name": name, **period})
        assert response.status_code == 201, response.text
        return response.json()

    return send


def models_of(ask: Ask, vote_id: str) -> tuple[str, str]:
    vote = ask("GET", f"/votes/{vote_id}").json()
    return vote["model_a"], vote["model_b"]


def _alone(row: dict[str, Any]) -> dict[str, Any]:
    """What a row says without a neighbour, who may be hidden."""
    return {name: value for name, value in row.items() if name not in ("tied", "tied_with")}


def names(ask: Ask, **query: Any) -> list[str]:
    return [one["name"] for one in ask("GET", "/models", scope="read", params=query).json()["items"]]


@pytest.mark.comparisons
def test_a_model_with_its_figures(ask: Ask, crowd: list[str], refit: Ask) -> None:
    fresh = ask("GET", "/models/model 0", scope="read").json()
    assert (fresh["newest"], fresh["history"]) == (None, [])
    refit()
    refit()
    model = ask("GET", "/models/model 0", scope="read").json()
    board = ask("GET", "/leaderboard").json()
    (row,) = [row for row in board["models"] if row["model"] == "model 0"]
    assert [one["number"] for one in model["history"]] == [2, 1]
    assert model["newest"] == model["history"][0]
    figures = ("score", "se", "lower", "upper", "rank", "best_rank", "worst_rank", "votes")
    assert [model["newest"][name] for name in figures] == [row[name] for name in figures]
    plain = ask("GET", "/models/model 0?method=m-elo").json()["newest"]
    assert plain["score"] != model["newest"]["score"]


def test_models_by_name_page_by_page(ask: Ask, post_vote: Ask, patch: Ask) -> None:
    post_vote(model_a="Ä", model_b="meta/llama 3")
    post_vote()
    patch("bee", archived=True)
    assert names(ask) == ["ant", "meta/llama 3", "Ä"]
    first = ask("GET", "/models?limit=3&archived=true").json()
    rest = ask("GET", f"/models?limit=3&archived=true&cursor={first['next_cursor']}").json()
    assert [one["name"] for one in first["items"] + rest["items"]] == ["ant", "bee", "meta/llama 3", "Ä"]
    assert rest["next_cursor"] is None


def test_what_is_known_is_set_and_forgotten(ask: Ask, crowd: list[str], refit: Ask, patch: Ask) -> None:
    refit()
    known = {
        "organization": "Ant Inc.",
        "license": "MIT",
        "link": "https://ant.example/a?b=c",
        "released": "2026-01-31",
        "price": 0.75,
    }
    before = ask("GET", "/leaderboard")
    changed = patch("model 0", **known)
    assert {name: changed[name] for name in known} == known
    again = ask("GET", "/leaderboard", headers={"If-None-Match": before.headers["etag"]})
    assert again.status_code == 200, "the board says something else now"
    (row,) = [row for row in again.json()["models"] if row["model"] == "model 0"]
    assert (row["organization"], row["license"], row["link"]) == ("Ant Inc.", "MIT", "https://ant.example/a?b=c")
    assert patch("model 0", license=None)["license"] is None
    assert patch("model 0")["organization"] == "Ant Inc."


def test_archived_models_are_hidden_and_count(ask: Ask, crowd: list[str], refit: Ask, patch: Ask) -> None:
    refit()
    before = ask("GET", "/leaderboard").json()
    assert patch("model 0", archived=True)["archived_at"]
    hidden = ask("GET", "/leaderboard").json()
    shown = [row for row in before["models"] if row["model"] != "model 0"]
    assert [_alone(row) for row in hidden["models"]] == [_alone(row) for row in shown], "ranks as published"
    assert (before["archived"], hidden["archived"]) == (0, 1)
    refit()
    refitted = ask("GET", "/leaderboard").json()
    assert refitted["models"] == hidden["models"]
    old = ask("GET", "/leaderboard?snapshot=1").json()
    assert (old["models"], old["archived"]) == (before["models"], 0), "a leaderboard from before stays as published"
    assert "model 0" in ask("GET", "/matchups?snapshot=1").text
    assert "model 0" not in ask("GET", "/matchups").text
    assert refitted["snapshot"]["votes_used"] == before["snapshot"]["votes_used"]
    assert patch("model 0", archived=False)["archived_at"] is None
    assert len(ask("GET", "/leaderboard").json()["models"]) == 6


def test_a_renamed_model_keeps_its_old_name(ask: Ask, post_vote: Ask, patch: Ask) -> None:
    post_vote()
    assert patch("ant", name="meta/ant")["name"] == "meta/ant"
    assert models_of(ask, post_vote()) == ("meta/ant", "bee")
    assert names(ask) == ["bee", "meta/ant"]
    for name in ("ant", "meta/ant"):
        model = ask("GET", f"/models/{name}").json()
        assert (model["name"], [alias["name"] for alias in model["aliases"]]) == ("meta/ant", ["ant"])
    assert patch("meta/ant", name="ant")["name"] == "ant", "and back"
    assert [alias["name"] for alias in ask("GET", "/models/ant").json()["aliases"]] == ["meta/ant"]
    assert post_vote(model_b="meta/ant") == ["/model_b"], "two names of one model are no pair"


def test_an_alias_holds_within_its_dates(ask: Ask, post_vote: Ask, add_alias: Ask) -> None:
    post_vote()
    post_vote(model_a="cat")
    march, june = "2026-03-01T00:00:00Z", "2026-06-01T00:00:00+00:00"
    first = add_alias("ant", "latest", valid_until=march)
    add_alias("cat", "latest", valid_from=march, valid_until=june)
    dated = {
        "2026-02-28T23:59:59Z": "ant",
        "2026-03-01T00:59:59+01:00": "ant",
        "2026-03-01T00:00:00Z": "cat",
        "2026-05-31T23:59:59Z": "cat",
        "2026-06-01T00:00:00Z": "latest",
    }
    votes = [{**VOTE, "model_a": "latest", "voted_at": moment} for moment in dated]
    results = ask("POST", "/votes/batch", json={"votes": votes}).json()["results"]
    assert [models_of(ask, result["id"])[0] for result in results] == list(dated.values())
    assert models_of(ask, post_vote(model_a="latest"))[0] == "latest", "a vote without a date was cast now"
    assert ask("DELETE", f"/models/ant/aliases/{first['id']}").status_code == 204
    assert models_of(ask, results[0]["id"])[0] == "ant", "votes on record stay as they are"
    assert models_of(ask, post_vote(model_a="latest", voted_at="2026-02-01T00:00:00Z"))[0] == "latest"


def test_unknown_models_are_refused(
    settings: Settings, serving: Callable[..., Any], keys: dict[str, str], assert_problem: Ask
) -> None:
    strict = settings.model_copy(update={"ingest": IngestSettings(unknown_models="refuse")})
    headers = {"Authorization": f"Bearer {keys['admin']}"}
    with serving(create_app(strict)) as url, Client(base_url=f"{url}/api/v1", headers=headers, timeout=120) as client:
        for name in ("ant", "bee"):
            added = client.post("/models", json={"name": name, "license": "MIT"})
            assert (added.status_code, added.json()["license"]) == (201, "MIT")
        assert client.post("/votes", json=VOTE).status_code == 201
        problem = assert_problem(client.post("/votes", json={**VOTE, "model_b": "bea"}), 422, "invalid")
        assert [error["pointer"] for error in problem["errors"]] == ["/model_b"]
        assert "unknown models are refused" in problem["detail"]
        votes = [VOTE, {**VOTE, "model_a": "x", "model_b": "y", "annotator": "never seen"}, VOTE]
        results = client.post("/votes/batch", json={"votes": votes}).json()["results"]
        assert [result["status"] for result in results] == ["created", "invalid", "created"]
        assert [error["pointer"] for error in results[1]["errors"]] == ["/model_a", "/model_b"]
        assert [one["name"] for one in client.get("/models").json()["items"]] == ["ant", "bee"]
        found = client.get("/annotators", params={"annotator": "never seen"})
        assert found.json()["items"] == [], "an invalid vote leaves nothing behind"
        alias = client.post("/models/bee/aliases", json={"name": "bea", "valid_until": "2026-01-01T00:00:00Z"})
        assert alias.status_code == 201
        in_time = {**VOTE, "model_b": "bea", "voted_at": "2025-12-31T00:00:00Z"}
        assert client.post("/votes", json=in_time).status_code == 201
        assert_problem(client.post("/votes", json={**VOTE, "model_b": "bea"}), 422, "invalid")


def test_names_that_clash(ask: Ask, post_vote: Ask, patch: Ask, add_alias: Ask, assert_problem: Ask) -> None:
    post_vote()
    post_vote(model_a="cat")
    add_alias("ant", "old", valid_from="2026-01-01T00:00:00Z", valid_until="2026-02-01T00:00:00Z")
    for body in (
        {"name": "bee"},
        {"name": "ant"},
        {"name": "old"},
        {"name": "old", "valid_from": "2026-01-31T23:59:59Z"},
        {"name": "old", "valid_until": "2026-01-01T00:00:01Z"},
    ):
        assert_problem(ask("POST", "/models/cat/aliases", json=body), 409, "conflict")
    assert_problem(ask("PATCH", "/models/cat", json={"name": "ant"}), 409, "conflict")
    assert_problem(ask("PATCH", "/models/cat", json={"name": "old"}), 409, "conflict")
    assert_problem(ask("POST", "/models", json={"name": "cat"}), 409, "conflict")
    assert_problem(ask("POST", "/models", json={"name": "old"}), 409, "conflict")
    assert patch("ant", name="old")["name"] == "old", "its own alias it may take"
    assert [alias["name"] for alias in ask("GET", "/models/old").json()["aliases"]] == ["ant"]
    add_alias("cat", "older", valid_until="2026-01-01T00:00:00Z")
    add_alias("bee", "older", valid_from="2026-01-01T00:00:00Z")


def test_changes_are_in_the_audit_log(ask: Ask, post_vote: Ask, patch: Ask, add_alias: Ask) -> None:
    post_vote()
    patch("ant", name="ANT", license="MIT")
    patch("ANT")
    alias = add_alias("bee", "b")
    ask("DELETE", f"/models/bee/aliases/{alias['id']}")
    entries = ask("GET", "/audit").json()["items"]
    assert [entry["action"] for entry in entries] == ["model.alias.remove", "model.alias.add", "model.change"]
    assert entries[2]["detail"] == {"changes": {"name": ["ant", "ANT"], "license": [None, "MIT"]}}


@pytest.mark.parametrize(
    "change",
    [
        {"name": ""}, {"name": None}, {"name": " x"}, {"name": "x" * 501}, {"archived": None}, {"size": 7},
        {"link": "javascript:alert(1)"}, {"link": "ftp://x.example"}, {"link": "https://"}, {"link": "https://a b"},
        {"link": "//x.example"}, {"link": "https://[x"}, {"link": "https://x.example/" + "x" * 2000},
        {"link": "https://x.example/\u202e"}, {"released": "soon"}, {"organization": "nul \x00"}, {"license": ""},
        {"price": 0}, {"price": -1}, {"price": "1"}, {"price": True}, {"price": 1e10},
    ],
)  # fmt: skip
def test_changes_that_are_not_valid(change: dict[str, Any]) -> None:
    with pytest.raises(ValidationError) as caught:
        ModelChange.model_validate_json(json.dumps(change))
    assert [error["loc"][0] for error in caught.value.errors()] == [next(iter(change))]


def test_a_change_that_is_not_valid_is_refused_with_its_place(ask: Ask, post_vote: Ask, assert_problem: Ask) -> None:
    post_vote()
    problem = assert_problem(ask("PATCH", "/models/ant", json={"link": "ftp://x.example"}), 422, "invalid")
    assert [error["pointer"] for error in problem["errors"]] == ["/link"]


@pytest.mark.parametrize(
    "alias",
    [
        {},
        {"name": " "},
        {"name": "x", "valid_from": "2026-01-01T00:00:00"},
        {"name": "x", "until": "2026-01-01"},
        {"name": "x", "valid_from": "2026-01-01T00:00:00Z", "valid_until": "2026-01-01T00:00:00Z"},
        {"name": "x", "valid_from": "0001-01-01T00:00:00+14:00"},
    ],
)
def test_aliases_that_are_not_valid(ask: Ask, post_vote: Ask, assert_problem: Ask, alias: dict[str, Any]) -> None:
    post_vote()
    assert_problem(ask("POST", "/models/ant/aliases", json=alias), 422, "invalid")


def test_what_is_not_there(ask: Ask, post_vote: Ask, add_alias: Ask, assert_problem: Ask) -> None:
    post_vote()
    alias = add_alias("ant", "x")
    for name in ("nothing", "nul%00", "no/thing", "%20"):
        assert_problem(ask("GET", f"/models/{name}"), 404, "not-found")
        assert_problem(ask("PATCH", f"/models/{name}", json={}), 404, "not-found")
        assert_problem(ask("POST", f"/models/{name}/aliases", json={"name": "y"}), 404, "not-found")
        assert_problem(ask("DELETE", f"/models/{name}/aliases/{alias['id']}"), 404, "not-found")
    assert_problem(ask("DELETE", f"/models/bee/aliases/{alias['id']}"), 404, "not-found")
    assert_problem(ask("DELETE", f"/models/ant/aliases/{uuid4()}"), 404, "not-found")
    assert_problem(ask("DELETE", "/models/ant/aliases/x"), 422, "invalid")
    assert_problem(ask("GET", "/models?cursor=WzFd"), 422, "invalid")
    assert_problem(ask("GET", "/models/ant?method=pagerank"), 422, "invalid")


@pytest.mark.parametrize(
    ("method", "path", "allowed"),
    [
        ("GET", "/models", "read"),
        ("GET", "/models/ant", "read"),
        ("POST", "/models", "admin"),
        ("PATCH", "/models/ant", "admin"),
        ("POST", "/models/ant/aliases", "admin"),
        ("DELETE", "/models/ant/aliases/x", "admin"),
    ],
)
def test_who_may(ask: Ask, assert_problem: Ask, method: str, path: str, allowed: str) -> None:
    assert_problem(ask(method, path, scope=None), 401, "not-authenticated")
    for scope in {"ingest", "read", "review"} - {allowed}:
        assert_problem(ask(method, path, scope=scope), 403, "scope-missing")


@pytest.mark.parametrize(
    ("name", "shown"),
    [("модель-7", "модель-7"), ("模型 α", "模型 α"), ("a\x1b[2Jb", "a\\x1b[2Jb"), ("a\u202eb", "a\\u202eb")],
)
def test_names_are_shown_as_they_are_but_for_what_cannot_be_seen(
    ask: Ask, assert_problem: Ask, name: str, shown: str
) -> None:
    unknown = assert_problem(ask("GET", f"/models/{quote(name)}"), 404, "not-found")
    assert unknown["detail"] == f"there is no model '{shown}'"

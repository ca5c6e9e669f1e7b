import io
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any

import polars as pl
import pytest

from app.api.pagination import write_cursor

Ask = Callable[..., Any]


def page_of(ask: Ask, **query: Any) -> Any:
    answer = ask("GET", "/matchups", scope=None, params=query)
    assert answer.status_code == 200, answer.text
    return answer.json()


def test_observed_and_predicted(ask: Ask, three: int) -> None:
    page = page_of(ask)
    assert (page["snapshot"]["number"], page["next_cursor"]) == (three, None)
    first, second, never = page["items"]
    assert first == {
        "model_a": "ant", "model_b": "bee", "votes": 40, "wins_a": 20, "ties": 10, "wins_b": 10,
        "observed": 0.625, "predicted": 0.64, "lower": 0.6, "upper": 0.7, "difference": None,
    }  # fmt: skip
    assert second["observed"] == 20 / 24
    assert (never["votes"], never["observed"], never["predicted"]) == (0, None, 0.64)


def test_of_one_model(ask: Ask, three: int) -> None:
    items = page_of(ask, model="bee")["items"]
    assert [(one["model_a"], one["model_b"]) for one in items] == [("bee", "ant"), ("bee", "cat")]
    seen = {name: items[0][name] for name in ("wins_a", "ties", "wins_b", "observed", "predicted", "lower", "upper")}
    assert seen == pytest.approx(
        {"wins_a": 10, "ties": 10, "wins_b": 20, "observed": 0.375, "predicted": 0.36, "lower": 0.3, "upper": 0.4}
    )


def test_how_sure_the_order_of_two_is(ask: Ask, publish: Ask) -> None:
    rows = {"ant": {"better": ["cat"], "likely": ["bee"]}, "bee": {}, "cat": {}, "dog": {"component": 1}, "eel": {}}
    rows = {name: {"class_rank": None if name == "eel" else 1, **row} for name, row in rows.items()}
    names = sorted(rows)
    pairs = [(a, b, 1, 0, 0, 0.6, 0.5, 0.7) for a in names for b in names if a < b]
    publish({("am-elo", ""): rows}, matchups=pairs)
    said = {(one["model_a"], one["model_b"]): one["difference"] for one in page_of(ask)["items"]}
    assert {pair: word for pair, word in said.items() if word is not None} == {
        ("ant", "bee"): "likely-better", ("ant", "cat"): "better", ("bee", "cat"): "level",
    }  # fmt: skip
    assert said.keys() == {pair[:2] for pair in pairs}, "another group, and a model without a rank, compare with none"
    mirrored = {one["model_b"]: one["difference"] for one in page_of(ask, model="bee")["items"]}
    assert (mirrored["ant"], mirrored["cat"]) == ("likely-worse", "level")
    text_file = pl.read_csv(ask("GET", "/matchups?format=csv").content)
    assert text_file["difference"].to_list()[:2] == ["likely-better", "better"]
    ask("PATCH", "/models/cat", json={"archived": True})
    opponents = ask("GET", "/models/ant").json()["head_to_head"]
    assert [one["difference"] for one in opponents] == ["likely-better", None, None]


def test_archived_models_are_hidden_unless_asked_for(ask: Ask, three: int) -> None:
    ask("PATCH", "/models/ant", json={"archived": True})
    assert [one["model_b"] for one in page_of(ask)["items"]] == ["cat"]
    assert [one["model_b"] for one in page_of(ask, model="ant")["items"]] == ["bee", "cat"]


def test_page_by_page_from_one_snapshot(ask: Ask, publish: Ask, three: int, assert_problem: Ask) -> None:
    first = page_of(ask, limit=2)
    later = publish({("am-elo", ""): {"ant": {}, "bee": {}}}, matchups=[("ant", "bee", 1, 0, 0, None, None, None)])
    rest = page_of(ask, limit=2, cursor=first["next_cursor"])
    assert rest["snapshot"]["number"] == three, "the cursor stays with its snapshot"
    assert [one["model_b"] for one in first["items"] + rest["items"]] == ["bee", "cat", "cat"]
    assert rest["next_cursor"] is None
    assert page_of(ask)["snapshot"]["number"] == later
    another = {"cursor": first["next_cursor"], "snapshot": later}
    assert_problem(ask("GET", "/matchups", params=another), 422, "invalid")
    forged = write_cursor((first["snapshot"]["id"], 2**40, 1))
    assert_problem(ask("GET", "/matchups", params={"cursor": forged}), 422, "invalid")


def test_as_of_a_moment(ask: Ask, publish: Ask, three: int, assert_problem: Ask) -> None:
    first = page_of(ask, limit=2)
    published = datetime.fromisoformat(first["snapshot"]["published_at"])
    publish({("am-elo", ""): {"ant": {}, "bee": {}}}, matchups=[("ant", "bee", 1, 0, 0, None, None, None)])
    then = published.isoformat()
    page = page_of(ask, as_of=then, limit=2)
    assert page == first
    assert page_of(ask, as_of=then, limit=2, cursor=page["next_cursor"])["snapshot"]["number"] == three
    before = (published - timedelta(microseconds=1)).isoformat()
    assert_problem(ask("GET", "/matchups", params={"as_of": before}), 404, "no-snapshot")
    for refused in ({"as_of": then, "snapshot": three}, {"as_of": "yesterday"}):
        assert_problem(ask("GET", "/matchups", params=refused), 422, "invalid")


def test_whole_files(ask: Ask, three: int) -> None:
    text_file = ask("GET", "/matchups?format=csv&limit=1", scope=None)
    assert text_file.headers["content-type"] == "text/csv; charset=utf-8"
    read = pl.read_csv(text_file.content)
    assert read["observed"].to_list() == [0.625, 20 / 24, None]
    assert read["snapshot"].to_list() == [three] * 3
    answer = ask("GET", "/matchups?format=parquet&model=cat", scope=None)
    assert "attachment" in answer.headers["content-disposition"]
    assert pl.read_parquet(io.BytesIO(answer.content))["wins_b"].to_list() == [18, 0]


def test_unchanged_and_not_there(ask: Ask, publish: Ask, three: int, assert_problem: Ask) -> None:
    for query in ("", "?format=csv", "?model=ant", "?limit=1"):
        tag = ask("GET", f"/matchups{query}").headers["etag"]
        same = ask("GET", f"/matchups{query}", headers={"If-None-Match": tag})
        assert (same.status_code, same.content) == (304, b"")
    assert_problem(ask("GET", "/matchups?model=nobody"), 404, "not-found")
    assert_problem(ask("GET", "/matchups?snapshot=99"), 404, "not-found")
    pruned = publish({("am-elo", ""): {"ant": {}}})
    for query in ("", "?format=csv", f"?snapshot={pruned}&model=ant"):
        assert_problem(ask("GET", f"/matchups{query}"), 404, "no-matchups")
    assert page_of(ask, snapshot=three)["items"]

"""Annotators who push the same model are one case, with one decision."""

import json
from collections.abc import Callable
from typing import Any
from uuid import uuid4

import pytest
from sqlalchemy import text

from app.database.engine import Database
from tests.fixtures.console import SignIn, Visitor
from tests.fixtures.pages import Page

Ask = Callable[..., Any]
ADDRESS = "/console/reviews/group?test=favour&model=model+3"
DECISIONS = "/console/reviews/groups/decisions"
BODY = {"test": "favour", "model": "model 3", "action": "exclude", "reason": "votes for one model"}


@pytest.fixture
def found(crowd: list[str], refit: Ask, database: Database) -> Callable[..., None]:
    """Return what stores a finding of the newest refit about annotators, and flags them."""
    refit()

    def store(*names: str, rule: str | None = "favour", about: str = "model 3", **tests: float) -> None:
        tests = tests or {"favour": 4.0}
        evidence = {
            "rule": rule,
            "held": False,
            "strength": max(tests.values()),
            "tests": tests,
            "about": dict.fromkeys(tests, about),
        }
        with database.begin() as conn:
            for name in names:
                values = {"evidence": json.dumps(evidence), "key": name}
                for statement in (
                    """UPDATE snapshot_annotators SET evidence = CAST(:evidence AS jsonb), rule_standing = 'flagged'
                       FROM annotators WHERE annotator_id = annotators.id AND key = :key""",
                    "UPDATE annotators SET rule_standing = 'flagged' WHERE key = :key",
                ):
                    assert conn.execute(text(statement), values).rowcount == 1

    return store


@pytest.fixture
def reviewer(sign_in: SignIn) -> Visitor:
    return sign_in("review")


def groups(ask: Ask) -> list[dict[str, Any]]:
    return ask("GET", "/reviews/groups", scope="review:read").json()["groups"]


def standings(ask: Ask, *names: str) -> list[str]:
    return [ask("GET", f"/annotators/{name}").json()["standing"] for name in names]


def test_a_group_has_two_members_or_more(ask: Ask, found: Ask) -> None:
    assert groups(ask) == []
    found("honest 0")
    assert groups(ask) == []
    found("honest 1", favour=6.0)
    found("flip 12", rule="ability", favour=2.1, coin=1.2)
    found("flip 13", rule="ability", favour=1.9)
    found("honest 2", about="model 4")
    found("honest 3", "honest 4", rule="against", against=2.5)
    one, other = groups(ask)
    assert (one["test"], one["model"], one["votes"]) == ("favour", "model 3", 360)
    assert [(member["annotator"], member["votes"]) for member in one["annotators"]] == [
        ("honest 1", 120),
        ("honest 0", 120),
        ("flip 12", 120),
    ]
    assert [member["odds"] for member in one["annotators"]] == pytest.approx([10_000, 100, 10**0.1])
    assert (other["test"], {member["annotator"] for member in other["annotators"]}) == (
        "against",
        {"honest 3", "honest 4"},
    )


def test_a_decision_on_a_group_and_its_undo(ask: Ask, found: Ask) -> None:
    names = ("honest 0", "honest 1", "honest 2")
    found(*names)
    hook = {"url": "https://hooks.example.org/", "events": ["annotator.decided"]}
    webhook = ask("POST", "/webhooks", json=hook).json()["id"]
    seen = [member["id"] for member in groups(ask)[0]["annotators"]]
    answer = ask("POST", "/reviews/groups/decisions", scope="review", json={**BODY, "annotators": seen})
    assert answer.status_code == 201, answer.text
    taken = answer.json()
    assert {one["annotator"]["annotator"] for one in taken["decisions"]} == set(names)
    assert {one["group_id"] for one in taken["decisions"]} == {taken["group_id"]}
    assert standings(ask, *names) == ["excluded"] * 3
    assert groups(ask) == []
    entries = ask("GET", "/audit").json()["items"][:3]
    assert {(one["action"], one["detail"]["group"]) for one in entries} == {("decision.exclude", taken["group_id"])}
    assert len(ask("GET", f"/webhooks/{webhook}/deliveries").json()["items"]) == 3

    undo = f"/reviews/groups/decisions/{taken['group_id']}/undo"
    undone = ask("POST", undo, scope="review")
    assert undone.status_code == 201, undone.text
    assert {one["action"] for one in undone.json()["decisions"]} == {"withdraw"}
    assert standings(ask, *names) == ["flagged"] * 3
    assert len(groups(ask)[0]["annotators"]) == 3
    for name in names:
        reasons = [one["reason"] for one in ask("GET", f"/annotators/{name}").json()["decisions"]]
        assert reasons[1] == BODY["reason"]
        assert reasons[0].startswith("undo: exclude of ")


def test_a_member_that_was_decided_on_meanwhile_stops_the_whole(ask: Ask, assert_problem: Ask, found: Ask) -> None:
    names = ("honest 0", "honest 1", "honest 2")
    found(*names)
    seen = [member["id"] for member in groups(ask)[0]["annotators"]]
    ask("POST", "/annotators/honest 1/decisions", json={"action": "trust", "reason": "a test"})
    late = ask("POST", "/reviews/groups/decisions", json={**BODY, "annotators": seen})
    assert_problem(late, 409, "group-changed")
    assert standings(ask, *names) == ["flagged", "trusted", "flagged"]
    taken = ask("POST", "/reviews/groups/decisions", json=BODY).json()
    assert len(taken["decisions"]) == 2
    ask("POST", "/annotators/honest 2/decisions", json={"action": "reinstate", "reason": "a test"})
    assert_problem(ask("POST", f"/reviews/groups/decisions/{taken['group_id']}/undo"), 409, "group-changed")
    assert standings(ask, *names) == ["excluded", "trusted", "active"]


def test_what_is_refused(ask: Ask, assert_problem: Ask, found: Ask) -> None:
    found("honest 0", "honest 1")
    path, undo = "/reviews/groups/decisions", f"/reviews/groups/decisions/{uuid4()}/undo"
    for wrong in ({"test": "coin"}, {"action": "burn"}, {"reason": " "}, {"annotators": ["x"]}, {"model": "a\0"}):
        assert_problem(ask("POST", path, json={**BODY, **wrong}), 422, "invalid")
    assert_problem(ask("POST", path, json={**BODY, "model": "model 4"}), 404, "not-found")
    assert_problem(ask("POST", path, json={**BODY, "action": "withdraw"}), 409, "conflict")
    assert_problem(ask("POST", undo), 404, "not-found")
    for scope, status, code in (("review:read", 403, "scope-missing"), (None, 401, "not-authenticated")):
        assert_problem(ask("POST", path, scope=scope, json=BODY), status, code)
        assert_problem(ask("POST", undo, scope=scope), status, code)
    assert_problem(ask("GET", "/reviews/groups", scope="read"), 403, "scope-missing")
    assert_problem(ask("GET", "/reviews/groups", scope=None), 401, "not-authenticated")
    assert standings(ask, "honest 0", "honest 1") == ["flagged", "flagged"]


def test_the_queue_shows_a_group_as_one_row(ask: Ask, found: Ask, reviewer: Visitor) -> None:
    found("honest 0", "honest 1", "flip 12")
    page = reviewer.page("/console/reviews")
    assert page.texts(".//a[@data-row]") == ["3 annotators, one model", "flip 13"]
    assert reviewer.page("/console/reviews?rule=against").texts(".//a[@data-row]") == []
    assert "4 annotators wait" in page.text(".//p[@class='lead']")
    assert page.all(".//a[@data-row]")[0].get("href") == ADDRESS
    group = reviewer.page(ADDRESS)
    assert group.text(".//h1") == "3 annotators, one model: model 3"
    assert sorted(group.texts(".//a[@data-row]")) == ["flip 12", "honest 0", "honest 1"]
    first = ask("GET", "/annotators/flip 13").json()["id"]
    assert "Next:" not in reviewer.page(f"/console/annotators/{first}?queue=1").text(".//div[@class='case-top']/p")

    answer = reviewer.submit(group, DECISIONS, action="exclude", reason="votes for one model")
    assert (answer.status_code, answer.headers["location"]) == (303, "/console/reviews")
    page = reviewer.page("/console/reviews")
    assert "3 annotators: each is excluded" in page.text(".//div[@role='status']")
    assert page.texts(".//a[@data-row]") == ["flip 13"]
    undo = page.one(".//div[@role='status']/form").get("action") or ""
    late = reviewer.submit(group, DECISIONS, action="trust", reason="a test")
    assert (late.status_code, Page(late).text(".//h1")) == (404, "Not found")
    assert reviewer.submit(page, undo).headers["location"] == "/console/reviews"
    page = reviewer.page("/console/reviews")
    assert "The decisions on 3 annotators are taken back." in page.text(".//div[@role='status']")
    assert page.texts(".//a[@data-row]")[0] == "3 annotators, one model"


def test_the_queue_is_sorted_and_filtered(ask: Ask, found: Ask, assert_problem: Ask, vote: Ask) -> None:
    found("honest 0", rule="coin", coin=3.0)
    found("honest 1", rule="side", side=9.0)

    def listed(**query: object) -> list[str]:
        names: list[str] = []
        cursor: dict[str, str] = {}
        while True:
            page = ask("GET", "/reviews", scope="review:read", params={"limit": 1, **query, **cursor}).json()
            names += [one["annotator"] for one in page["items"]]
            if page["next_cursor"] is None:
                return names
            cursor = {"cursor": page["next_cursor"]}

    everyone = {"honest 0", "honest 1", "flip 12", "flip 13"}
    assert listed(sort="name") == sorted(everyone)
    assert listed(sort="date") == ["flip 13", "flip 12", "honest 1", "honest 0"]
    assert {*listed(sort="votes")} == {*listed()} == everyone
    assert listed(rule="coin")[-1] == "honest 0"
    assert listed(rule="side") == ["honest 1"]
    assert listed(rule="", min_share=1 / 15) == listed()
    assert listed(min_share=0.1) == []
    by_name = ask("GET", "/reviews?sort=name&limit=1").json()["next_cursor"]
    assert_problem(ask("GET", "/reviews", params={"cursor": by_name}), 422, "invalid")
    for wrong in ({"sort": "luck"}, {"rule": "luck"}, {"min_share": 2}):
        assert_problem(ask("GET", "/reviews", params=wrong), 422, "invalid")


def test_several_are_decided_on_at_once(ask: Ask, assert_problem: Ask, found: Ask) -> None:
    ids = [ask("GET", f"/annotators/{name}").json()["id"] for name in ("flip 12", "flip 13", "honest 2")]
    body = {"annotators": ids, "action": "exclude", "reason": "a test"}
    impact = ask("GET", "/reviews/impact", params={"annotator": ["flip 12", "flip 13"]}).json()
    assert (impact["what"], impact["how"], impact["votes"], impact["snapshot"]) == ("left out", "refit", 240, 1)
    path = "/reviews/decisions"
    assert_problem(ask("POST", path, json={**body, "action": "dismiss"}), 409, "conflict")
    assert standings(ask, "flip 12", "flip 13", "honest 2") == ["flagged", "flagged", "active"], "all or none"
    taken = ask("POST", path, scope="review", json=body)
    assert taken.status_code == 201, taken.text
    assert standings(ask, "flip 12", "flip 13", "honest 2") == ["excluded"] * 3
    undo = f"/reviews/groups/decisions/{taken.json()['group_id']}/undo"
    assert ask("POST", undo, scope="review").status_code == 201
    assert standings(ask, "flip 12", "flip 13", "honest 2") == ["flagged", "flagged", "active"]
    assert_problem(ask("POST", path, json={**body, "annotators": []}), 422, "invalid")
    thrice = assert_problem(ask("POST", path, json={**body, "annotators": [ids[0], ids[1], ids[0]]}), 422, "invalid")
    assert [error["pointer"] for error in thrice["errors"]] == ["/annotators"]
    assert_problem(ask("POST", path, json={**body, "annotators": [str(uuid4())]}), 404, "not-found")
    assert_problem(ask("GET", "/reviews/impact"), 422, "invalid")
    assert_problem(ask("GET", "/reviews/impact?annotator=nobody"), 404, "not-found")
    for scope, status, code in (("review:read", 403, "scope-missing"), (None, 401, "not-authenticated")):
        assert_problem(ask("POST", path, scope=scope, json=body), status, code)
    assert_problem(ask("GET", "/reviews/impact?annotator=x", scope="read"), 403, "scope-missing")


def test_chosen_annotators_are_one_page_one_decision_and_one_undo(ask: Ask, found: Ask, reviewer: Visitor) -> None:
    page = reviewer.page("/console/reviews?rule=coin")
    assert page.one(".//select[@id='rule']/option[@selected]").get("value") == "coin"
    boxes = page.all(".//input[@form='several']")
    assert len(boxes) == 2
    assert reviewer.get("/console/reviews/chosen").headers["location"] == "/console/reviews"
    chosen = reviewer.page("/console/reviews/chosen?" + "&".join(f"annotators={box.get('value')}" for box in boxes))
    assert sorted(chosen.texts(".//a[@data-row]")) == ["flip 12", "flip 13"]
    address = next(one.get("hx-get") or "" for one in chosen.root.iter() if one.get("hx-trigger") == "load")
    assert "If the votes were left out" in reviewer.page(address).text(".//section[@id='impact']/h2")
    answer = reviewer.submit(chosen, "/console/reviews/decisions", action="exclude", reason="they vote at random")
    page = reviewer.page(answer.headers["location"])
    assert "2 annotators: each is excluded" in page.text(".//div[@role='status']")
    assert standings(ask, "flip 12", "flip 13") == ["excluded"] * 2
    reviewer.submit(page, page.one(".//div[@role='status']/form").get("action") or "")
    assert standings(ask, "flip 12", "flip 13") == ["flagged"] * 2


def test_a_group_that_changed_is_decided_by_no_click(ask: Ask, found: Ask, reviewer: Visitor) -> None:
    found("honest 0", "honest 1", "honest 2")
    group = reviewer.page(ADDRESS)
    ask("POST", "/annotators/honest 1/decisions", json={"action": "trust", "reason": "a test"})
    late = reviewer.submit(group, DECISIONS, action="exclude", reason="a test")
    assert (late.status_code, Page(late).text(".//h1")) == (409, "The group has changed")
    assert standings(ask, "honest 0", "honest 1", "honest 2") == ["flagged", "trusted", "flagged"]


def test_an_onlooker_decides_nothing(ask: Ask, found: Ask, sign_in: SignIn) -> None:
    found("honest 0", "honest 1")
    onlooker = sign_in("review:read")
    page = onlooker.page(ADDRESS)
    assert [form.get("action") for form in page.all(".//form[@method='post']")] == ["/console/sign-out"]
    token = page.all(".//input[@name='csrf_token']")[0].get("value") or ""
    members = [member["id"] for member in groups(ask)[0]["annotators"]]
    fields = {"csrf_token": token, **BODY, "annotators": members}
    for path in (DECISIONS, f"{DECISIONS}/{uuid4()}/undo"):
        assert onlooker.post(path, fields).status_code == 403


def test_the_watch_list_stands_below_the_queue(ask: Ask, found: Ask, reviewer: Visitor, database: Database) -> None:
    assert not reviewer.page("/console/reviews").all(".//h2[@id='watch']")
    assert "The watch list is empty" in reviewer.page("/console/reviews?watch=1").text(".//div[@class='empty']")
    ask("POST", "/annotators/flip 12/decisions", json={"action": "trust", "reason": "a test"})
    page = reviewer.page("/console/reviews")
    section = page.text(".//section[@aria-labelledby='watch']")
    assert "flip 12" in section
    assert "Not flagged: an admin trusts this annotator." in section
    assert reviewer.page("/console/reviews?watch=1").texts(".//a[@data-row]") == ["flip 12"]
    shown = reviewer.page(f"/console/annotators/{ask('GET', '/annotators/flip 12').json()['id']}")
    assert "Not flagged: an admin trusts this annotator." in shown.text(".//main")

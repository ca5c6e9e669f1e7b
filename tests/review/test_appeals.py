from collections.abc import Callable
from typing import Any

import pytest

Ask = Callable[..., Any]

NOTE = {"note": " I was ill that day. "}


def test_an_appeal_waits_for_a_decision(ask: Ask, crowd: list[str]) -> None:
    made = ask("POST", f"/annotators/{crowd[0]}/appeals", scope="ingest", json=NOTE)
    assert made.status_code == 201
    assert made.json()["note"] == "I was ill that day."
    assert (made.json()["open"], made.json()["annotator"]) == (True, crowd[0])
    assert ask("GET", "/appeals", scope="review").json()["items"] == [made.json()]
    body = {"action": "trust", "reason": "heard"}
    assert ask("POST", f"/annotators/{crowd[1]}/decisions", json=body).status_code == 201
    assert ask("GET", "/appeals").json()["items"] == [made.json()]
    assert ask("POST", f"/annotators/{crowd[0]}/decisions", json=body).status_code == 201
    assert ask("GET", "/appeals").json()["items"] == []
    answered = ask("GET", "/appeals?answered=true").json()["items"]
    assert answered == [{**made.json(), "open": False}]


def test_by_annotator_and_in_pages(ask: Ask, crowd: list[str]) -> None:
    made = [ask("POST", f"/annotators/{crowd[i % 2]}/appeals", json={"note": f"{i}"}).json() for i in range(6)]
    mine = ask("GET", "/appeals", params={"annotator": made[1]["annotator_id"]}).json()["items"]
    assert [one["note"] for one in mine] == ["1", "3", "5"]
    page = ask("GET", "/appeals?limit=4").json()
    rest = ask("GET", "/appeals", params={"limit": 4, "cursor": page["next_cursor"]}).json()
    assert page["items"] + rest["items"] == made
    assert rest["next_cursor"] is None


def test_nobody_fills_the_queue(ask: Ask, assert_problem: Ask, crowd: list[str]) -> None:
    for _ in range(5):
        assert ask("POST", f"/annotators/{crowd[0]}/appeals", json=NOTE).status_code == 201
    assert_problem(ask("POST", f"/annotators/{crowd[0]}/appeals", json=NOTE), 409, "conflict")
    assert ask("POST", f"/annotators/{crowd[1]}/appeals", json=NOTE).status_code == 201


@pytest.mark.parametrize("body", [{}, {"note": " "}, {"note": "x" * 2001}, {"note": "\x00"}, {"note": "a", "b": 1}])
def test_what_is_no_note(ask: Ask, assert_problem: Ask, crowd: list[str], body: dict[str, Any]) -> None:
    assert_problem(ask("POST", f"/annotators/{crowd[0]}/appeals", json=body), 422, "invalid")


def test_nobody_of_that_name(ask: Ask, assert_problem: Ask) -> None:
    assert_problem(ask("POST", "/annotators/nobody/appeals", json=NOTE), 404, "not-found")
    assert_problem(ask("GET", "/appeals?annotator=nobody"), 404, "not-found")


def test_who_may(ask: Ask, assert_problem: Ask) -> None:
    assert_problem(ask("POST", "/annotators/a/appeals", scope=None, json=NOTE), 401, "not-authenticated")
    assert_problem(ask("POST", "/annotators/a/appeals", scope="read", json=NOTE), 403, "scope-missing")
    assert_problem(ask("GET", "/appeals", scope="ingest"), 403, "scope-missing")
    assert_problem(ask("GET", "/appeals?cursor=x"), 422, "invalid")

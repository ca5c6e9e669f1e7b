from collections.abc import Callable
from typing import Any
from uuid import uuid4

Ask = Callable[..., Any]


def test_a_refit_from_request_to_snapshot(ask: Ask, crowd: list[str], refit: Ask) -> None:
    done = refit()
    assert (done["state"], done["detail"], done["trigger"]) == ("done", None, "request")
    assert done["snapshot_number"] == 1
    assert done["requested_at"] <= done["started_at"] <= done["finished_at"]
    assert ask("GET", f"/snapshots/{done['snapshot_id']}").json()["refit_id"] == done["id"]


def test_asking_names_the_place_to_look(ask: Ask) -> None:
    asked = ask("POST", "/refits")
    assert asked.status_code == 202
    assert asked.json()["state"] == "queued"
    assert asked.headers["location"] == f"/api/v1/refits/{asked.json()['id']}"
    assert ask("GET", f"/refits/{asked.json()['id']}", scope="read").json() == asked.json()


def test_asking_again_finds_the_one_that_waits(ask: Ask) -> None:
    first = ask("POST", "/refits").json()
    assert not first["accept_exclusions"]
    again = ask("POST", "/refits", json={"accept_exclusions": True}).json()
    assert again["id"] == first["id"]
    assert again["accept_exclusions"]


def test_too_few_votes_fail_in_one_line(ask: Ask, vote: Ask, refit: Ask) -> None:
    vote()
    ended = refit()
    assert ended["state"] == "failed"
    assert ended["snapshot_id"] is None
    assert "\n" not in ended["detail"]
    assert ask("GET", "/leaderboard").status_code == 404


def test_a_large_exclusion_needs_an_admin(ask: Ask, crowd: list[str], refit: Ask, change_policy: Ask) -> None:
    change_policy(on_low_ability="exclude")
    assert refit()["state"] == "needs_review"
    assert ask("GET", "/snapshots").json()["items"] == []
    assert refit(accept_exclusions=True)["state"] == "done"
    assert ask("GET", "/leaderboard").json()["snapshot"]["votes_used"] == 12 * 120
    assert refit()["state"] == "done", "who was excluded already was accepted then"


def test_whoever_accepts_exclusions_is_on_the_audit_log(
    ask: Ask, crowd: list[str], refit: Ask, change_policy: Ask, assert_problem: Ask
) -> None:
    change_policy(on_low_ability="exclude")
    assert refit()["state"] == "needs_review"
    done = refit(accept_exclusions=True, reason=" looked at each of them ")
    entry, before = ask("GET", "/audit").json()["items"][:2]
    assert (entry["actor"], entry["action"], entry["subject"]) == (
        "admin key",
        "refit.accept_exclusions",
        done["id"],
    )
    assert entry["detail"] == {"reason": "looked at each of them"}
    assert before["action"] == "policy.set", "a refit that accepts nothing is none"
    witness = ask("GET", f"/snapshots/{done['snapshot_id']}").json()["diagnostics"]["audit"]
    assert witness == {"number": entry["number"], "hash": entry["hash"]}
    waiting = ask("POST", "/refits").json()
    ask("POST", "/refits", json={"accept_exclusions": True})
    latest = ask("GET", "/audit").json()["items"][0]
    assert (latest["action"], latest["subject"], latest["detail"]) == ("refit.accept_exclusions", waiting["id"], {})
    for body in ({"reason": "why"}, {"accept_exclusions": True, "reason": " "}):
        problem = assert_problem(ask("POST", "/refits", json=body), 422, "invalid")
        assert [fault["pointer"] for fault in problem["errors"]] == ["/reason"]
    assert ask("GET", "/audit").json()["items"][0] == latest


def test_refits_are_listed_newest_first_page_by_page(ask: Ask, refit: Ask) -> None:
    ids = [refit()["id"] for _ in range(5)]
    seen: list[str] = []
    cursor: dict[str, str] = {}
    while True:
        page = ask("GET", "/refits", params={"limit": 2, **cursor}).json()
        seen += [item["id"] for item in page["items"]]
        if page["next_cursor"] is None:
            break
        cursor = {"cursor": page["next_cursor"]}
    assert seen == ids[::-1]


def test_what_is_refused(ask: Ask, assert_problem: Ask) -> None:
    assert_problem(ask("GET", f"/refits/{uuid4()}"), 404, "not-found")
    assert_problem(ask("GET", "/refits/first"), 422, "invalid")
    assert_problem(ask("GET", "/refits", params={"cursor": "%%"}), 422, "invalid")
    assert_problem(ask("GET", "/refits", params={"cursor": "WzFd"}), 422, "invalid")
    assert_problem(ask("GET", "/refits", params={"limit": 0}), 422, "invalid")
    assert_problem(ask("POST", "/refits", json={"force": True}), 422, "invalid")


def test_who_may(ask: Ask, assert_problem: Ask) -> None:
    for path in ("/refits", f"/refits/{uuid4()}"):
        assert_problem(ask("GET", path, scope=None), 401, "not-authenticated")
        assert_problem(ask("GET", path, scope="ingest"), 403, "scope-missing")
    assert_problem(ask("POST", "/refits", scope=None), 401, "not-authenticated")
    assert_problem(ask("POST", "/refits", scope="review"), 403, "scope-missing")


def test_cancelling(ask: Ask, assert_problem: Ask) -> None:
    asked = ask("POST", "/refits").json()
    path = f"/refits/{asked['id']}/cancel"
    assert_problem(ask("POST", path, scope=None), 401, "not-authenticated")
    assert_problem(ask("POST", path, scope="review"), 403, "scope-missing")
    cancelled = ask("POST", path)
    assert cancelled.status_code == 200
    assert (cancelled.json()["state"], cancelled.json()["progress"]) == ("cancelled", 1.0)
    assert_problem(ask("POST", path), 409, "conflict")
    assert_problem(ask("POST", f"/refits/{uuid4()}/cancel"), 404, "not-found")
    assert_problem(ask("POST", "/refits/7/cancel"), 422, "invalid")

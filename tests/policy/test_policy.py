import json
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from pydantic import ValidationError
from sqlalchemy import insert

from app.database.engine import Database
from app.database.tables import policies
from app.policy.schemas import REMOVED, PolicyChange

Ask = Callable[..., Any]

DEFAULTS = {
    "min_votes": 50,
    "min_ability": 0.2,
    "min_probability": 0.95,
    "prior_sd": "estimated",
    "influence_limit": 1.25,
    "flag_rule": "evidence",
    "evidence_ratio": 100.0,
    "evidence_tests": ["coin", "equal", "follower", "favour", "against", "side"],
    "release_margin": 0.1,
    "on_low_ability": "flag",
    "max_excluded_share": 0.1,
    "interval": "clustered",
    "decision_confidence": 0.95,
    "equal_margin": 20.0,
    "min_board_annotators": 5,
    "min_board_votes": 200,
    "min_model_votes": 30,
    "min_model_annotators": 5,
    "max_interval_width": 800.0,
    "base": 1000.0,
    "anchor": None,
    "max_unreleased": None,
    "refit_interval_seconds": 600,
    "refit_after_votes": None,
    "on_conflict": "reject",
    "max_votes_per_day": None,
    "stale_after_seconds": 7200,
    "dimensions": {},
    "category_weights": {},
    "max_tag_boards": 20,
    "battle_policy": "mixed",
    "battle_floor": 0.1,
    "battle_top_k": 3,
    "battle_repeat_gap": 20,
    "calibration_share": 0.2,
    "leaderboard_of": "people",
    "style_features": [],
    "sealed_only": False,
}


def test_the_policy_at_the_start(ask: Ask) -> None:
    answer = ask("GET", "/policy", scope="read")
    assert answer.status_code == 200
    assert answer.json()["settings"] == DEFAULTS
    assert answer.json()["version"] == 1


def test_a_change_is_a_new_version(ask: Ask) -> None:
    settings = {**DEFAULTS, "min_votes": 20, "prior_sd": 0.5, "refit_after_votes": 1000}
    changed = ask("PUT", "/policy", json={"settings": settings, "reason": "  a small arena "})
    assert changed.status_code == 200
    assert changed.json()["settings"] == settings
    assert (changed.json()["version"], changed.json()["reason"]) == (2, "a small arena")
    assert ask("GET", "/policy").json() == changed.json()


def test_what_is_read_can_be_changed_and_put_back(ask: Ask) -> None:
    read = ask("GET", "/policy", scope="read")
    body = {**read.json(), "reason": "a smaller arena"}
    body["settings"]["min_votes"] = 20
    put = ask("PUT", "/policy", json=body, headers={"If-Match": read.headers["ETag"]})
    assert put.status_code == 200
    assert (put.json()["version"], put.json()["settings"]["min_votes"]) == (2, 20)
    assert put.json()["created_by"] != read.json()["created_by"]
    assert put.headers["ETag"] == ask("GET", "/policy").headers["ETag"] != read.headers["ETag"]


def test_a_policy_that_changed_meanwhile_is_not_replaced(ask: Ask, assert_problem: Ask) -> None:
    first = ask("GET", "/policy")
    body, tag = {**first.json(), "reason": "a test"}, first.headers["ETag"]
    second = ask("PUT", "/policy", json=body, headers={"If-Match": f'"0", W/{tag}'})
    assert second.status_code == 200
    refused = ask("PUT", "/policy", json=body, headers={"If-Match": tag})
    assert assert_problem(refused, 412, "precondition-failed")["version"] == 2
    assert ask("GET", "/policy").json() == second.json()
    assert ask("PUT", "/policy", json=body, headers={"If-Match": "*"}).status_code == 200


def test_of_two_who_replace_the_same_version_one_does(ask: Ask) -> None:
    first = ask("GET", "/policy")
    body, headers = {**first.json(), "reason": "a test"}, {"If-Match": first.headers["ETag"]}
    with ThreadPoolExecutor(4) as pool:
        answers = list(pool.map(lambda _: ask("PUT", "/policy", json=body, headers=headers).status_code, range(8)))
    assert sorted(answers) == [200] + [412] * 7


@pytest.mark.parametrize(
    "change",
    [
        {"settings": {**DEFAULTS, "min_votes": -1}},
        {"settings": {**DEFAULTS, "min_vote": 1}},
        {"settings": {**DEFAULTS, "ability_cap": 1.75}},
        {"settings": {**DEFAULTS, "prior_sd": 0.04}},
        {"settings": {**DEFAULTS, "prior_sd": 0.61}},
        {"settings": {**DEFAULTS, "max_excluded_share": 1.5}},
        {"settings": {**DEFAULTS, "on_low_ability": "warn"}},
        {"settings": {**DEFAULTS, "flag_rule": "a feeling"}},
        {"settings": {**DEFAULTS, "evidence_tests": ["copy"]}},
        {"settings": {**DEFAULTS, "style_features": ["side", "side"]}},
        {"settings": {**DEFAULTS, "style_features": ["side"], "interval": "sandwich"}},
        {"settings": {**DEFAULTS, "evidence_tests": []}},
        {"settings": {**DEFAULTS, "max_tag_boards": 32}},
        {"settings": {**DEFAULTS, "dimensions": {"task": [str(i) for i in range(32)]}}},
        {"settings": {**DEFAULTS, "dimensions": {"task": []}}},
        {"settings": {**DEFAULTS, "dimensions": {"task": ["code", "code"]}}},
        {"settings": {**DEFAULTS, "dimensions": {"a=b": ["c"]}}},
        {"settings": {**DEFAULTS, "dimensions": {"task": ["c" * 496]}}},
        {"settings": {**DEFAULTS, "category_weights": {"task=code": 1}}},
        {"settings": {**DEFAULTS, "category_weights": {"criterion=": 1}}},
        {
            "settings": {
                **DEFAULTS,
                "dimensions": {"task": ["code"]},
                "category_weights": {"task=code": 1, "criterion=clear": 1},
            }
        },
        {"settings": {**DEFAULTS, "dimensions": {"task": ["code"]}, "category_weights": {"task=code": 0}}},
        {"settings": {**DEFAULTS, "dimensions": {"task": ["code"]}, "category_weights": {"task=code": 1e308}}},
        {"settings": {**DEFAULTS, "interval": "wide"}},
        {"settings": {**DEFAULTS, "flag_rule": "probability"}},
        {"settings": {**DEFAULTS, "refit_interval_seconds": 0}},
        {"settings": {**DEFAULTS, "base": 1e308}},
        {"settings": {**DEFAULTS, "anchor": {"model": "a", "score": "1000"}}},
        {"settings": {**DEFAULTS, "anchor": {"model": "a", "score": 1e7}}},
        {"settings": {**DEFAULTS, "anchor": {"model": "a"}}},
        {"settings": {**DEFAULTS, "anchor": "a"}},
        {"settings": {**DEFAULTS, "max_unreleased": -1}},
        {"settings": {**DEFAULTS, "prior_sd": 1e-300}},
        {"settings": {**DEFAULTS, "prior_sd": 1e300}},
        {"settings": {**DEFAULTS, "min_ability": 1e308}},
        {"settings": {**DEFAULTS, "min_probability": 0.4}},
        {"settings": {**DEFAULTS, "min_probability": 0.9995}},
        {"settings": {**DEFAULTS, "min_probability": "0.9"}},
        {"settings": {**DEFAULTS, "influence_limit": 1e300}},
        {"settings": {**DEFAULTS, "min_votes": True}},
        {"settings": {**DEFAULTS, "min_votes": "7"}},
        {"settings": {**DEFAULTS, "base": "1000"}},
        {"settings": {**DEFAULTS, "sealed_only": 1}},
        {"settings": {key: value for key, value in DEFAULTS.items() if key != "base"}},
        {"reason": " "},
        {"reason": "nul \x00"},
        {"reason": None},
        {"reason": "x" * 2001},
        {"extra": 1},
    ],
)
def test_what_is_no_policy(change: dict[str, Any]) -> None:
    body = {"settings": DEFAULTS, "reason": "a test"}
    PolicyChange.model_validate_json(json.dumps(body))
    with pytest.raises(ValidationError):
        PolicyChange.model_validate_json(json.dumps({**body, **change}))


def test_what_is_no_policy_changes_nothing(ask: Ask, assert_problem: Ask) -> None:
    body = {"settings": {**DEFAULTS, "prior_sd": 1.0}, "reason": "a test"}
    assert_problem(ask("PUT", "/policy", json=body), 422, "invalid")
    assert ask("GET", "/policy").json()["version"] == 1


def test_nan_is_no_setting(ask: Ask, assert_problem: Ask) -> None:
    body = '{"settings": {"base": NaN}, "reason": "a test"}'
    refused = ask("PUT", "/policy", content=body, headers={"Content-Type": "application/json"})
    assert_problem(refused, 422, "invalid")
    assert refused.json()["errors"][0]["pointer"] == "/settings/base"


def test_who_may(ask: Ask, assert_problem: Ask) -> None:
    body = {"settings": DEFAULTS, "reason": "a test"}
    assert_problem(ask("GET", "/policy", scope=None), 401, "not-authenticated")
    assert_problem(ask("GET", "/policy", scope="ingest"), 403, "scope-missing")
    assert_problem(ask("PUT", "/policy", scope=None, json=body), 401, "not-authenticated")
    assert_problem(ask("PUT", "/policy", scope="review", json=body), 403, "scope-missing")


def test_half_a_surrogate_pair_is_no_reason(ask: Ask, assert_problem: Ask) -> None:
    body = json.dumps({"settings": DEFAULTS, "reason": "\ud800"})
    assert_problem(ask("PUT", "/policy", content=body, headers={"Content-Type": "application/json"}), 422, "invalid")


def test_a_removed_setting_and_a_removed_rule_are_refused(ask: Ask, assert_problem: Ask) -> None:
    settings = {**DEFAULTS, "flag_rule": "probability", "flag_probability": 0.95}
    answer = ask("PUT", "/policy", json={"settings": settings, "reason": "a test"})
    errors = assert_problem(answer, 422, "invalid")["errors"]
    assert {error["pointer"] for error in errors} == {"/settings/flag_rule", "/settings/flag_probability"}


def test_settings_of_the_release_before_are_refused_by_name(ask: Ask, assert_problem: Ask) -> None:
    settings = {**DEFAULTS, "ability_cap": 1.75, "bias_correction": True}
    errors = assert_problem(ask("PUT", "/policy", json={"settings": settings, "reason": "a test"}), 422, "invalid")[
        "errors"
    ]
    assert {error["pointer"]: error["detail"] for error in errors} == {
        f"/settings/{name}": detail for name, detail in REMOVED.items()
    }


def test_a_policy_of_an_earlier_version_s_rules_can_be_read_and_replaced(
    ask: Ask, crowd: list[str], refit: Ask, database: Database
) -> None:
    refit()
    tests = [*DEFAULTS["evidence_tests"], "group"]  # a test that no longer exists
    stored = {**DEFAULTS, "evidence_tests": tests, "flag_rule": "threshold", "prior_sd": 1.0}
    removed = {"ability_cap": 1.75, "bias_correction": True}
    for name in ("max_tag_boards", "min_probability"):
        del stored[name]  # which it did not have
    with database.begin() as conn:
        conn.execute(insert(policies).values(settings=stored | removed, reason="long ago", created_by="somebody"))
    assert ask("GET", "/policy").json()["settings"] == {
        **stored, "max_tag_boards": DEFAULTS["max_tag_boards"], "evidence_tests": DEFAULTS["evidence_tests"],
        "min_probability": 0.95,
    }  # fmt: skip
    assert ask("GET", "/leaderboard").status_code == 200
    assert refit()["state"] == "failed"
    assert ask("PUT", "/policy", json={"settings": DEFAULTS, "reason": "a test"}).status_code == 200
    assert refit()["state"] == "done"
    assert ask("GET", "/snapshots/1/diff/2").status_code == 200


def test_a_policy_with_a_test_that_no_longer_exists_is_in_force_without_it(
    ask: Ask, crowd: list[str], refit: Ask, database: Database
) -> None:
    for tests, left in ((["coin", "group"], ["coin"]), (["group"], DEFAULTS["evidence_tests"])):
        stored = {**DEFAULTS, "evidence_tests": tests}
        with database.begin() as conn:
            conn.execute(insert(policies).values(settings=stored, reason="long ago", created_by="somebody"))
        assert ask("GET", "/policy").json()["settings"] == {**DEFAULTS, "evidence_tests": left}
        assert refit()["state"] == "done"


@pytest.mark.parametrize("bounds", [{}, {"prior_sd": 1.0}])
def test_a_policy_with_a_rule_that_no_longer_exists_is_read_with_the_default(
    ask: Ask, database: Database, bounds: dict[str, float]
) -> None:
    stored = {**DEFAULTS, **bounds, "flag_rule": "probability", "flag_probability": 0.9}
    with database.begin() as conn:
        conn.execute(insert(policies).values(settings=stored, reason="long ago", created_by="somebody"))
    assert ask("GET", "/policy").json()["settings"] == {**DEFAULTS, **bounds}

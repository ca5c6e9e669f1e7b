import csv
import io
from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.review.service import split_exactly

Ask = Callable[..., Any]

positive = st.floats(min_value=1e-6, max_value=2, allow_nan=False).map(Fraction)


@given(st.integers(0, 10**9), st.lists(positive, min_size=1, max_size=50))
def test_parts_add_up_and_are_fair(whole: int, weights: list[Fraction]) -> None:
    parts = split_exactly(whole, weights)
    assert sum(parts) == whole
    for part, weight in zip(parts, weights, strict=True):
        assert abs(part - whole * weight / sum(weights)) < 1


def test_the_first_of_equals_gets_the_cent() -> None:
    assert split_exactly(10, [Fraction(1)] * 3) == [4, 3, 3]


@pytest.mark.parametrize("budget", ["1000", "0.07", "99999.99"])
def test_amounts_follow_ability_and_votes(ask: Ask, crowd: list[str], refit: Ask, budget: str) -> None:
    refit()
    answer = ask("GET", "/rewards", scope="review", params={"budget": budget})
    assert answer.status_code == 200
    rewards = answer.json()["rewards"]
    assert sum(Decimal(row["amount"]) for row in rewards) == Decimal(budget)
    listed = ask("GET", "/annotators", params={"limit": 200}).json()["items"]
    earned = {one["annotator"]: one["ability"] * one["votes"] for one in listed if one["ability"] > 0}
    assert {row["annotator"] for row in rewards} == earned.keys() == {key for key in crowd if "honest" in key}
    for row in rewards:
        exact = float(budget) * earned[row["annotator"]] / sum(earned.values())
        assert abs(float(row["amount"]) - exact) < 0.01 + 1e-9
        assert row["share"] == pytest.approx(exact / float(budget))


def test_csv(ask: Ask, crowd: list[str], refit: Ask) -> None:
    refit()
    answer = ask("GET", "/rewards", params={"budget": "12.34", "format": "csv"})
    assert answer.headers["content-type"].startswith("text/csv")
    rows = list(csv.DictReader(io.StringIO(answer.text)))
    assert len(rows) == sum("honest" in key for key in crowd)
    assert sum(Decimal(row["amount"]) for row in rows) == Decimal("12.34")


def test_the_excluded_earn_nothing(ask: Ask, crowd: list[str], refit: Ask) -> None:
    body = {"action": "exclude", "reason": "a test"}
    assert ask("POST", "/annotators/honest 0/decisions", json=body).status_code == 201
    refit()
    rewards = ask("GET", "/rewards", params={"budget": "10"}).json()["rewards"]
    assert "honest 0" in crowd
    assert "honest 0" not in {row["annotator"] for row in rewards}


@pytest.mark.parametrize("budget", ["0", "-1", "1.001", "NaN", "Infinity", "1e13", "ten", ""])
def test_what_is_no_budget(ask: Ask, assert_problem: Ask, budget: str) -> None:
    assert_problem(ask("GET", "/rewards", params={"budget": budget}), 422, "invalid")


def test_who_may(ask: Ask, assert_problem: Ask) -> None:
    assert_problem(ask("GET", "/rewards?budget=1", scope=None), 401, "not-authenticated")
    assert_problem(ask("GET", "/rewards?budget=1", scope="read"), 403, "scope-missing")


def test_before_the_first_snapshot(ask: Ask, assert_problem: Ask) -> None:
    assert_problem(ask("GET", "/rewards?budget=1"), 404, "no-snapshot")

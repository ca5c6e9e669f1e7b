"""The leaderboard `weighted` of criteria, as a policy declares it."""

from collections.abc import Callable
from typing import Any

import pytest
from httpx import Client
from sqlalchemy import text

from app.database.engine import Database
from app.refits.fit.interface import FitInput
from app.refits.load import load_fit_input
from app.refits.reproduce import reproduce
from app.refits.schemas import Refit
from app.snapshots.service import find_snapshot
from tests.fixtures.crowds import RANK_EVERYTHING

Ask = Callable[..., Any]
ChangePolicy = Callable[..., None]

COPY = """
INSERT INTO votes (id, annotator_id, model_a_id, model_b_id, outcome, criterion)
SELECT gen_random_uuid(), annotator_id, model_a_id, model_b_id,
    CASE WHEN model_a_id = 1 AND annotator_id < 10 THEN 0 WHEN model_b_id = 1 AND annotator_id < 10 THEN 1
    ELSE outcome END, :criterion
FROM votes WHERE criterion IS NULL
"""


@pytest.fixture
def judged(database: Database, stored_crowd: None) -> None:
    """Every annotator votes by `clear` as overall, but most for the first model."""
    with database.begin() as conn:
        conn.execute(text(COPY), {"criterion": "clear"})


def scores(ask: Ask, **params: str) -> dict[str, float]:
    rows = ask("GET", "/leaderboard", params=params).json()["models"]
    return {row["model"]: row["score"] for row in rows}


@pytest.mark.comparisons
def test_a_policy_weighs_criteria(
    database: Database, judged: None, run_refit: Callable[..., Refit], store_policy: ChangePolicy, ask: Ask,
    client: Client,
) -> None:  # fmt: skip
    store_policy(**RANK_EVERYTHING, category_weights={"criterion=clear": 1.0, "criterion=overall": 3.0})
    run_refit()
    whole, clear, weighted = scores(ask), scores(ask, tag="criterion=clear"), scores(ask, method="weighted")
    assert clear["model 0"] > whole["model 0"] + 50
    gap = {name: 0.75 * whole[name] + 0.25 * clear[name] - weighted[name] for name in whole}
    assert max(gap.values()) - min(gap.values()) < 0.01
    rows = ask("GET", "/leaderboard", params={"method": "weighted"}).json()["models"]
    own = {row["model"]: row for row in ask("GET", "/leaderboard").json()["models"]}
    for row in rows:
        assert row["votes"] == 2 * own[row["model"]]["votes"]
        half, alone = (one["upper"] - one["lower"] for one in (row, own[row["model"]]))
        assert half > 0.8 * alone, "the same annotators say nearly the same again"
    page = client.get("/?method=weighted")
    assert page.status_code == 200
    assert "weighted" in page.text
    assert "model 0" in ask("GET", "/leaderboard", params={"method": "weighted", "format": "csv"}).text
    assert reproduce(database, "1").largest_difference == 0.0


def test_a_prompt_has_one_number_in_all_criteria(database: Database, judged: None) -> None:
    first = "10 + CASE WHEN criterion IS NULL THEN 0 ELSE 2 END"
    with database.begin() as conn:
        conn.execute(text(f"UPDATE votes SET prompt = {first} + annotator_id % 4 WHERE annotator_id % 5 > 0"))
        task = load_fit_input(conn)
    numbers = {
        name: key_of_number(one, start) for name, one, start in (("", task, 10), ("clear", task.criteria["clear"], 12))
    }
    assert sorted(numbers[""].values()) == [10, 11, 12, 13]
    assert sorted(numbers["clear"].values()) == [12, 13, 14, 15]
    for number in numbers[""].keys() & numbers["clear"].keys():
        assert numbers[""][number] == numbers["clear"][number]
    assert len(numbers[""] | numbers["clear"]) == 6


def key_of_number(task: FitInput, start: int) -> dict[int, int]:
    """Return the key of each prompt's number; every fifth annotator's votes have none."""
    assert task.prompts is not None
    annotator = task.annotator_ids[task.annotator]
    assert ((task.prompts < 0) == (annotator % 5 == 0)).all()
    asked = task.prompts >= 0
    pairs = set(zip(task.prompts[asked].tolist(), (start + annotator[asked] % 4).tolist(), strict=True))
    assert len(pairs) == len(dict(pairs)), "a number stands for one prompt"
    return dict(pairs)


@pytest.mark.comparisons
@pytest.mark.parametrize("tag", ["criterion=kind", "criterion=Clear"])
def test_a_weight_of_an_unknown_criterion_leaves_the_board_out(
    database: Database, judged: None, run_refit: Callable[..., Refit], store_policy: ChangePolicy, tag: str
) -> None:
    store_policy(**RANK_EVERYTHING, category_weights={"criterion=clear": 1.0, tag: 1.0})
    run_refit()
    with database.read() as conn:
        snapshot = find_snapshot(conn)
    notices = {one["code"]: one["detail"] for one in snapshot.diagnostics["warnings"]}
    assert tag in notices["method-board-omitted"]

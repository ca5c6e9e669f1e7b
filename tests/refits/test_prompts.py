"""Votes that say what the models were asked, from the ways in to the leaderboard: only intervals differ."""

import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import polars as pl
import pytest
from httpx import Client
from sqlalchemy import text

from app.database.engine import Database
from app.exports.runner import ExportRunner
from app.imports.runner import ImportRunner
from app.policy.schemas import Policy
from app.refits.fit.fit import fit_snapshot
from app.refits.fit.process import FitProcess
from app.refits.fragility import measure_newest
from app.refits.reproduce import reproduce
from app.votes.prompts import MAX_PROMPT_LENGTH, key_text, prompt_key
from stable_arena import AmElo
from tests.fixtures.crowds import RANK_EVERYTHING, crowd_votes
from tests.fixtures.fit_inputs import make_input_with_everything

Ask = Callable[..., Any]
PROMPTS = 12


def prompted() -> list[dict[str, str]]:
    """Votes of a crowd, some of which model 0 wins or loses by the prompt alone."""
    votes, asked = [], np.random.default_rng(8).integers(0, PROMPTS, 2000).tolist()
    for vote, prompt in zip(crowd_votes(honest=14), asked, strict=False):
        winner = vote["winner"]
        if "model 0" in (vote["model_a"], vote["model_b"]) and prompt % 3:
            winner = "model_a" if (vote["model_a"] == "model 0") == (prompt % 3 == 1) else "model_b"
        votes.append({**vote, "winner": winner, "prompt": f"¿Qué es {prompt}?"})
    return votes


def rated(votes: list[dict[str, str]]) -> AmElo:
    loop = Policy.model_validate(RANK_EVERYTHING).loop_settings("am-elo")
    parameters = {name: getattr(loop, name) for name in AmElo().get_params() if hasattr(loop, name)}
    columns = {name: [vote[name] for vote in votes] for name in votes[0]}
    return AmElo(**parameters).fit(columns)


@pytest.mark.filterwarnings("ignore::app.rating.errors.RatingWarning")
@pytest.mark.comparisons
def test_the_leaderboard_is_that_of_the_estimator(
    ask: Ask, client: Client, database: Database, change_policy: Ask, refit: Ask, fit_process: FitProcess
) -> None:
    change_policy(**RANK_EVERYTHING)
    votes = prompted()
    assert ask("POST", "/votes/batch", json={"votes": votes}).json()["counts"]["created"] == len(votes)
    refit()
    board = ask("GET", "/leaderboard").json()
    expected, plain = rated(votes), rated([{**vote, "prompt": ""} for vote in votes])
    for served, row, other in zip(
        board["models"], expected.leaderboard.to_dicts(), plain.leaderboard.to_dicts(), strict=True
    ):
        assert served["model"] == row["model"] == other["model"]
        assert [served[name] for name in ("score", "lower", "upper")] == pytest.approx(
            [row[name] for name in ("score", "lower", "upper")], abs=1e-9
        )
        assert served["score"] == pytest.approx(other["score"], abs=1e-9)
        assert served["upper"] - served["lower"] > 1.1 * (other["upper"] - other["lower"])
    diagnostics = board["diagnostics"]
    assert diagnostics["prompts"] == PROMPTS
    assert diagnostics["prompt_share"] == pytest.approx(expected.result_.diagnostics.prompt_share)
    assert reproduce(database, str(board["snapshot"]["number"])).reproduced
    vote = ask("GET", f"/votes/{first_vote(database)}").json()
    assert vote["prompt"] == key_text(prompt_key(votes[0]["prompt"]) or 0)

    assert measure_newest(database, fit_process, lease_seconds=30)
    best = ask("GET", "/leaderboard").json()["diagnostics"]["fragility_of_best"]
    assert all(row["prompts"] is None or 1 <= row["prompts"] <= PROMPTS for row in best)
    assert any(row["prompts"] for row in best)
    shown = client.get("/").text
    assert f"The votes are on {PROMPTS} prompts." in shown
    assert "of the variance of the scores." in shown


@pytest.mark.comparisons
def test_every_leaderboard_with_intervals_allows_for_prompts() -> None:
    made = make_input_with_everything()
    prompts = np.random.default_rng(2).integers(-1, 6, len(made.outcome))
    plain, found = (fit_snapshot(replace(made, prompts=known)) for known in (None, prompts))
    assert (plain.diagnostics.prompts, found.diagnostics.prompts) == (None, 6)
    names = [name for name in plain.leaderboards if name.method not in ("elo", "judges") and "=" not in name.tag]
    assert {name.method for name in names} == {"am-elo", "m-elo", "m-elo-all", "style", "weighted", "people", "all"}
    for name in names:
        before, after = plain.leaderboards[name], found.leaderboards[name]
        assert np.nanmax(after.se / before.se) > 1.01, name
        pooled = bool(name.tag) or name.method == "weighted"  # with more noise, categories are drawn to each other more
        assert after.score == pytest.approx(before.score, abs=5.0 if pooled else 1e-6, nan_ok=True), name
    kept = fit_snapshot(replace(made, prompts=np.arange(len(made.outcome))))
    for name in names:
        assert np.array_equal(kept.leaderboards[name].se, plain.leaderboards[name].se, equal_nan=True), name


def first_vote(database: Database) -> str:
    with database.read() as conn:
        return str(conn.execute(text("SELECT id FROM votes ORDER BY id LIMIT 1")).scalar_one())


def keys_on_record(database: Database) -> list[int | None]:
    with database.read() as conn:
        return list(conn.execute(text("SELECT prompt FROM votes ORDER BY id")).scalars())


def test_a_prompt_in_a_request_and_in_a_file_has_the_same_key(ask: Ask, database: Database) -> None:
    vote = {"model_a": "x", "model_b": "y", "winner": "tie", "annotator": "k"}
    for prompt in ("¿Qué?", " ¿Qué?\n", "  ", None):
        assert ask("POST", "/votes", json={**vote, "prompt": prompt}).status_code == 201
    ranked = {"ranking": [["x"], ["y", "z"]], "annotator": "k", "prompt": "¿Qué?"}
    assert ask("POST", "/votes", json=ranked).status_code == 201
    lines = "\n".join(json.dumps({**vote, "annotator": f"{k}", "question_id": "¿Qué?"}) for k in range(3))
    headers = {"Content-Type": "application/x-ndjson"}
    ask("POST", "/imports", content=lines.encode(), headers=headers, params={"filename": "votes.jsonl"})
    ImportRunner(database, lease_seconds=30).run_next()
    key = prompt_key("¿Qué?")
    assert keys_on_record(database) == [key, key, None, None, key, key, key, key]


def test_a_prompt_that_is_too_long_is_refused(ask: Ask, assert_problem: Ask, database: Database) -> None:
    vote = {"model_a": "x", "model_b": "y", "winner": "tie", "annotator": "k"}
    longest = {**vote, "prompt": "é" * MAX_PROMPT_LENGTH}
    assert ask("POST", "/votes", json=longest).status_code == 201
    assert_problem(ask("POST", "/votes", json={**vote, "prompt": longest["prompt"] + "é"}), 422, "invalid")
    assert_problem(ask("POST", "/votes", json={**vote, "prompt": 7}), 422, "invalid")
    assert keys_on_record(database) == [prompt_key(longest["prompt"])]


def test_what_was_exported_has_the_same_keys_when_it_is_imported(ask: Ask, database: Database) -> None:
    votes = prompted()[:5]
    ask("POST", "/votes/batch", json={"votes": votes})
    asked = ask("POST", "/exports", json={"what": "votes", "format": "csv", "filters": {}}).json()
    ExportRunner(database, lease_seconds=30, keep_days=7).run_next()
    exported = pl.read_csv(ask("GET", f"/exports/{asked['id']}/file").content)
    content = exported.select("annotator", "model_a", "model_b", "winner", "prompt").write_csv()
    ask("POST", "/imports", content=content.encode(), headers={"Content-Type": "text/csv"},
        params={"filename": "votes.csv", "allow_repeats": "true", "annotator_prefix": "again "})  # fmt: skip
    ImportRunner(database, lease_seconds=30).run_next()
    keys = keys_on_record(database)
    assert keys == [prompt_key(vote["prompt"]) for vote in votes] * 2

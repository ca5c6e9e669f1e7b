"""Words that other arenas use for the same things."""

from collections.abc import Callable
from datetime import datetime
from typing import Any

import pytest

Ask = Callable[..., Any]
VOTE = {"model_a": "a", "model_b": "b", "annotator": "k", "battle_id": "b1"}
BOTH_BAD = ("tie (bothbad)", "both_bad", "bothbad")


@pytest.mark.parametrize("word", BOTH_BAD)
def test_both_bad_has_three_spellings(ask: Ask, word: str) -> None:
    first = ask("POST", "/votes", scope="ingest", json={**VOTE, "winner": word})
    assert first.status_code == 201, first.text
    assert ask("GET", f"/votes/{first.json()['id']}").json()["winner"] == "tie (bothbad)"
    again = ask("POST", "/votes/batch", scope="ingest", json={"votes": [{**VOTE, "winner": w} for w in BOTH_BAD]})
    assert again.json()["counts"]["duplicate"] == 3


def test_both_bad_of_a_sealed_battle(ask: Ask) -> None:
    for name in ("a", "b"):
        ask("POST", "/models", json={"name": name})
    token = ask("POST", "/battles", scope="ingest", json={"annotator": "k"}).json()["token"]
    cast = ask("POST", "/votes", scope=None, json={"token": token, "winner": "both_bad"})
    assert cast.status_code == 201, cast.text
    assert ask("POST", "/votes", scope=None, json={"token": token, "winner": "bothbad"}).status_code == 200
    assert ask("GET", f"/votes/{cast.json()['id']}").json()["winner"] == "tie (bothbad)"


def test_a_timestamp_is_when_the_vote_was_cast(ask: Ask, assert_problem: Ask) -> None:
    at = "2026-05-01T12:00:00+02:00"
    first = ask("POST", "/votes", scope="ingest", json={**VOTE, "winner": "tie", "timestamp": at})
    kept = ask("GET", f"/votes/{first.json()['id']}").json()["voted_at"]
    assert datetime.fromisoformat(kept) == datetime.fromisoformat(at)
    both = {**VOTE, "winner": "tie", "timestamp": at, "voted_at": at}
    problem = assert_problem(ask("POST", "/votes", scope="ingest", json=both), 422, "invalid")
    assert [one["pointer"] for one in problem["errors"]] == ["/timestamp"]
    wrong = {**VOTE, "winner": "tie", "timestamp": "yesterday"}
    assert_problem(ask("POST", "/votes", scope="ingest", json=wrong), 422, "invalid")

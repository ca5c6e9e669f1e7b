"""The loop as these tests drive it: votes and requests over HTTP, refits run by a runner of the test's own."""

import pickle
from collections.abc import Callable
from typing import Any
from uuid import UUID

import pytest
from httpx import Client

from app.arena.review.fits import ReviewFits
from app.arena.runner import RefitRunner
from app.lab.simulate import simulate_votes

WINNERS = {1.0: "model_a", 0.0: "model_b", 0.5: "tie"}

Ask = Callable[..., Any]


@pytest.fixture
def ask(client: Client, keys: dict[str, str]) -> Ask:
    """Send a request with a key of this scope (none for no key) and return the response."""

    def send(
        method: str, path: str, *, scope: str | None = "admin", headers: dict[str, str] | None = None, **rest: Any
    ) -> Any:
        shown = {"Authorization": f"Bearer {keys[scope]}"} if scope else {}
        return client.request(method, f"/api/v1{path}", headers={**shown, **(headers or {})}, **rest)

    return send


@pytest.fixture
def crowd(ask: Ask) -> list[str]:
    """12 honest annotators and 2 who vote against the truth, 120 votes each on 6 models; returns their keys."""
    simulated = simulate_votes(5, n_models=6, roles={"honest": 12, "flip": 2}, votes_each=120)
    keys = [f"{role} {i}" for i, role in enumerate(simulated.world.role)]
    rows = zip(simulated.annotator, simulated.model_a, simulated.model_b, simulated.outcome, strict=True)
    votes = [
        {"model_a": f"model {a}", "model_b": f"model {b}", "winner": WINNERS[float(w)], "annotator": keys[k]}
        for k, a, b, w in rows
    ]
    assert ask("POST", "/votes/batch", json={"votes": votes}).status_code == 200
    return keys


@pytest.fixture
def vote(ask: Ask) -> Callable[..., None]:
    """Record one more vote."""

    def send(**changes: str) -> None:
        body = {"model_a": "model 0", "model_b": "model 1", "winner": "tie", "annotator": "honest 0", **changes}
        assert ask("POST", "/votes", json=body).status_code == 201

    return send


@pytest.fixture
def refit(ask: Ask, runner: RefitRunner) -> Ask:
    """Ask for a refit, run it, and return what is on record about it then."""

    def run(**body: Any) -> Any:
        asked = ask("POST", "/refits", json=body)
        assert asked.status_code == 202, asked.text
        assert runner.run_next(scheduled=False) == UUID(asked.json()["id"])
        return ask("GET", f"/refits/{asked.json()['id']}").json()

    return run


@pytest.fixture
def change_policy(ask: Ask) -> Ask:
    """Put a policy in force that differs from the present one in these settings."""

    def change(**settings: Any) -> Any:
        complete = {**ask("GET", "/policy").json()["settings"], **settings}
        changed = ask("PUT", "/policy", json={"settings": complete, "reason": "a test"})
        assert changed.status_code == 200, changed.text
        return changed.json()

    return change


@pytest.fixture
def without_a_child(monkeypatch: pytest.MonkeyPatch) -> None:
    """Answer here what reviewers' child would be asked, passed to it and back: starting one is what takes long."""

    def passed_on(it: Any) -> Any:
        return pickle.loads(pickle.dumps(it))  # noqa: S301  our own

    def call(_: ReviewFits, question: Callable[[], Any]) -> Any:
        return passed_on(passed_on(question)())

    monkeypatch.setattr(ReviewFits, "_call", call)

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
def gather(ask: Ask) -> Callable[..., list[str]]:
    """Record the votes of so many annotators of each role, 120 each on 6 models; return their keys."""

    def send(**roles: int) -> list[str]:
        simulated = simulate_votes(5, n_models=6, roles=roles, votes_each=120)
        keys = [f"{role} {i}" for i, role in enumerate(simulated.world.role)]
        rows = zip(simulated.annotator, simulated.model_a, simulated.model_b, simulated.outcome, strict=True)
        votes = [
            {"model_a": f"model {a}", "model_b": f"model {b}", "winner": WINNERS[float(w)], "annotator": keys[k]}
            for k, a, b, w in rows
        ]
        assert ask("POST", "/votes/batch", json={"votes": votes}).status_code == 200
        return keys

    return send


@pytest.fixture
def crowd(gather: Callable[..., list[str]]) -> list[str]:
    """12 honest annotators and 2 who vote against the truth; returns their keys."""
    return gather(honest=12, flip=2)


@pytest.fixture
def halves(ask: Ask, change_policy: Ask) -> None:
    """Two halves of 4 models, which 12 annotators judge with 12 votes each; the 13th of three of them joins the halves.

    Of the first five votes of each the last alone is on b0 to b3, where the lower number wins.
    """
    change_policy(min_votes=0)
    pairs = [(0, 1), (1, 2), (2, 3), (0, 2), (1, 3), (0, 3)]
    of_a, of_b = ([(f"{half}{i}", f"{half}{j}") for i, j in pairs] for half in "ab")
    votes = []
    for k in range(12):
        chain = of_b[k % 3]
        judged = [*of_a[:4], chain, *of_a[4:], *(pair for pair in of_b if pair != chain)]
        for place, (model_a, model_b) in enumerate(judged):
            upset = (model_a, model_b) != chain and (k + place) % 4 == 0
            votes.append((k, model_a, model_b, "model_b" if upset else "model_a"))
    bridges = [(0, "a0", "b0", "model_a"), (1, "a1", "b1", "model_b"), (2, "a2", "b2", "tie")]
    bodies = [
        {"annotator": f"judge {k}", "model_a": a, "model_b": b, "winner": winner} for k, a, b, winner in votes + bridges
    ]
    assert ask("POST", "/votes/batch", json={"votes": bodies}).status_code == 200


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

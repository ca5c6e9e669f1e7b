"""Votes over HTTP against a model of what the service promises: whatever is sent, in whatever order, however often."""

import secrets
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)
from sqlalchemy import text

from app.database.engine import Database

Ask = Callable[..., Any]
Pair = tuple[str, str]

VOTES = st.fixed_dictionaries(
    {
        "models": st.sampled_from([("a", "b"), ("b", "a"), ("a", "c")]),
        "winner": st.sampled_from(["model_a", "model_b", "tie", "tie (bothbad)"]),
        "annotator": st.sampled_from(["k", "l"]),
        "battle": st.sampled_from([None, "1", "2"]),
    }
)
KEYS = st.sampled_from([None, "x", "y", "z"])


def verdict_of(vote: dict[str, Any]) -> tuple[Any, ...]:
    better = {"model_a": vote["models"][0], "model_b": vote["models"][1]}.get(vote["winner"], vote["winner"])
    return (*sorted(vote["models"]), better)


class Arena(RuleBasedStateMachine):
    """The record as it must be: the latest verdict of each pair, every id ever made, every answer under a key."""

    def __init__(self, ask: Ask, change_policy: Ask, database: Database) -> None:
        super().__init__()
        self.ask, self.change_policy, self.database = ask, change_policy, database
        self.name = secrets.token_hex(4)
        self.latest: dict[Pair, tuple[tuple[Any, ...], str]] = {}
        self.created: list[str] = []
        self.void: set[str] = set()
        self.retracted: set[str] = set()
        self.retractions: dict[str, str] = {}
        self.votes: dict[str, tuple[tuple[Any, ...], Pair | None]] = {}
        self.kept: dict[str, tuple[Any, int, bytes]] = {}
        self.sent: list[tuple[dict[str, Any], str | None]] = []
        self.replacing = False

    @initialize()
    def begin(self) -> None:
        self.change_policy(on_conflict="reject")

    def body(self, vote: dict[str, Any]) -> dict[str, Any]:
        model_a, model_b = vote["models"]
        body = {"model_a": model_a, "model_b": model_b, "winner": vote["winner"], "tags": [self.name]}
        if vote["battle"] is not None:
            body["battle_id"] = f"{self.name}-{vote['battle']}"
        return body | {"annotator": f"{self.name}-{vote['annotator']}"}

    def post(self, path: str, body: Any, key: str | None) -> Any:
        headers = {"Idempotency-Key": f"{self.name}-{key}"} if key else {}
        return self.ask("POST", path, json=body, headers=headers)

    def expect(self, vote: dict[str, Any], status: str, id_: str | None, replaces: str | None) -> None:
        """Compare what became of a vote with what must have, and go on from there."""
        pair = (vote["battle"], vote["annotator"])
        earlier = self.latest.get(pair) if vote["battle"] else None
        if earlier is not None and earlier[1] in self.retracted:
            earlier = None  # it does not keep its battle
        if earlier is None or (self.replacing and earlier[0] != verdict_of(vote)):
            assert status == "created"
            assert id_ not in self.created
            assert replaces == (earlier[1] if earlier else None)
            self.created.append(str(id_))
            self.votes[str(id_)] = (verdict_of(vote), pair if vote["battle"] else None)
            if earlier:
                self.void.add(earlier[1])
            if vote["battle"]:
                self.latest[pair] = (verdict_of(vote), str(id_))
        else:
            assert status == ("duplicate" if earlier[0] == verdict_of(vote) else "conflict")
            assert id_ == earlier[1]

    def is_settled(self, response: Any, request: Any, key: str | None) -> bool:
        """Whether the key alone says what must be answered; if so, it was."""
        if key is None or key not in self.kept:
            return False
        first, status, content = self.kept[key]
        if first == request:
            assert (response.status_code, response.content) == (status, content)
            assert response.headers["idempotency-replayed"] == "true"
        else:
            assert response.status_code == 422
            assert response.json()["type"] == "/problems/idempotency-key-reused"
        return True

    @rule(vote=VOTES, key=KEYS)
    def send(self, vote: dict[str, Any], key: str | None) -> None:
        response = self.post("/votes", self.body(vote), key)
        self.sent.append((vote, key))
        if self.is_settled(response, vote, key):
            return
        answer = response.json()
        status = {201: "created", 200: "duplicate", 409: "conflict"}[response.status_code]
        assert answer["status"] == (409 if status == "conflict" else status)
        self.expect(vote, status, answer["id"], answer.get("replaces"))
        if key:
            self.kept[key] = (vote, response.status_code, response.content)

    @precondition(lambda self: self.sent)
    @rule(data=st.data())
    def send_an_earlier_one_again(self, data: st.DataObject) -> None:
        self.send(*data.draw(st.sampled_from(self.sent)))

    @rule(votes=st.lists(VOTES, min_size=1, max_size=5), key=KEYS)
    def send_a_batch(self, votes: list[dict[str, Any]], key: str | None) -> None:
        response = self.post("/votes/batch", {"votes": [self.body(vote) for vote in votes]}, key)
        if self.is_settled(response, votes, key):
            return
        assert response.status_code == 200
        results = response.json()["results"]
        # The votes of a batch are added first, then those compared whose battle was judged: one after the other.
        for vote, result in zip(votes, results, strict=True):
            self.expect(vote, result["status"], result["id"], result.get("replaces"))
        if key:
            self.kept[key] = (votes, 200, response.content)

    @rule(vote=VOTES, key=st.sampled_from(["r", "s"]))
    def race(self, vote: dict[str, Any], key: str) -> None:
        """The same request several times at once is one request."""
        with ThreadPoolExecutor(4) as pool:
            responses = list(pool.map(lambda _: self.post("/votes", self.body(vote), key), range(4)))
        busy = [each for each in responses if each.status_code == 409 and each.json()["type"].endswith("in-flight")]
        answered = [each for each in responses if each not in busy]
        if key not in self.kept:
            (first,) = (each for each in answered if each.status_code < 500 and self.is_first(each))
            answered.remove(first)
            answer = first.json()
            status = {201: "created", 200: "duplicate", 409: "conflict"}[first.status_code]
            self.expect(vote, status, answer["id"], answer.get("replaces"))
            self.kept[key] = (vote, first.status_code, first.content)
        for each in answered:
            assert self.is_settled(each, vote, key)

    @staticmethod
    def is_first(response: Any) -> bool:
        return "idempotency-replayed" not in response.headers

    @precondition(lambda self: self.created)
    @rule(data=st.data())
    def retract(self, data: st.DataObject) -> None:
        """A void vote stays on record and frees its battle."""
        id_ = data.draw(st.sampled_from(self.created))
        response = self.ask("POST", f"/votes/{id_}/retract", json={"reason": "a test"})
        replaced = id_ in self.void - self.retracted
        assert response.status_code == (409 if replaced else 200 if id_ in self.retracted else 201)
        if not replaced:
            self.retracted.add(id_)
            self.void.add(id_)
            self.retractions[id_] = response.json()["id"]

    @precondition(lambda self: self.retracted)
    @rule(data=st.data())
    def take_a_retraction_back(self, data: st.DataObject) -> None:
        """The vote counts again, and is what is on record, unless its battle has another vote."""
        id_ = data.draw(st.sampled_from(sorted(self.retracted)))
        response = self.ask("POST", f"/retractions/{self.retractions[id_]}/withdraw", json={"reason": "a test"})
        vote, pair = self.votes[id_]
        latest = self.latest.get(pair) if pair else None
        if latest is not None and latest[1] != id_ and latest[1] not in self.retracted:
            assert (response.status_code, response.json()["id"]) == (409, latest[1])
        else:
            assert response.status_code == 200
            self.retracted.remove(id_)
            self.void.remove(id_)
            if pair:
                self.latest[pair] = (vote, id_)

    @rule(replacing=st.booleans())
    def change_what_conflicts_do(self, replacing: bool) -> None:
        self.change_policy(on_conflict="replace" if replacing else "reject")
        self.replacing = replacing

    @invariant()
    def the_record_is_the_model(self) -> None:
        statement = """
        SELECT v.id, EXISTS (
            SELECT FROM retracted_votes r WHERE r.vote_id = v.id
            AND NOT EXISTS (SELECT FROM withdrawn_retractions w WHERE w.retraction_id = r.retraction_id)
        ) FROM votes v WHERE v.tags = ARRAY[:name]
        """
        with self.database.read() as conn:
            rows = {str(id_): void for id_, void in conn.execute(text(statement), {"name": self.name})}
        assert Counter(rows.keys()) == Counter(self.created)
        assert {id_ for id_, void in rows.items() if void} == self.void


@pytest.mark.parametrize("examples", [3, pytest.param(30, marks=pytest.mark.campaign)])
def test_votes_are_recorded_as_promised(ask: Ask, change_policy: Ask, database: Database, examples: int) -> None:
    run_state_machine_as_test(
        lambda: Arena(ask, change_policy, database),
        settings=settings(
            max_examples=examples,
            stateful_step_count=25,
            suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
        ),
    )

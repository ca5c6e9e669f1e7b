"""Attackers, from their votes to their exclusion, and one who betters himself: over HTTP, refit by refit."""

from typing import Any
from uuid import UUID

import numpy as np
import pytest
from httpx import Client

from app.rating.simulation.worlds import World, draw_pairs, simulate_votes
from app.refits.runner import RefitRunner
from stable_arena_lab.attacks.strategies import Scene, Strategy, coin, flip, mimic

pytestmark = pytest.mark.campaign

WINNERS = {1.0: "model_a", 0.0: "model_b", 0.5: "tie"}
N_MODELS, N_HONEST, EACH, MEMBERS = 8, 24, 150, 2
ATTACKS: dict[str, Strategy] = {"flip": flip, "coin": coin, "mimic": mimic}
ATTACKERS = {f"{name} {i}" for name in ATTACKS for i in range(MEMBERS)}


class Arena:
    """The service as its operator sees it."""

    def __init__(self, client: Client, keys: dict[str, str], runner: RefitRunner) -> None:
        self._client, self._runner = client, runner
        self._headers = {"Authorization": f"Bearer {keys['admin']}"}

    def ask(self, method: str, path: str, body: Any = None) -> Any:
        response = self._client.request(method, f"/api/v1{path}", json=body, headers=self._headers)
        assert response.is_success, response.text
        return response.json()

    def vote(self, who: list[str], a: Any, b: Any, outcome: Any) -> None:
        rows = zip(who, a, b, outcome, strict=True)
        votes = [
            {"annotator": k, "model_a": f"model {i}", "model_b": f"model {j}", "winner": WINNERS[float(w)]}
            for k, i, j, w in rows
        ]
        assert self.ask("POST", "/votes/batch", {"votes": votes})["counts"]["created"] == len(votes)

    def refit(self) -> dict[str, Any]:
        asked = self.ask("POST", "/refits", {})["id"]
        assert self._runner.run_next(scheduled=False) == UUID(asked)
        ended = self.ask("GET", f"/refits/{asked}")
        assert ended["state"] == "done", ended
        board: dict[str, Any] = self.ask("GET", "/leaderboard")
        return board

    def change_policy(self, **settings: Any) -> None:
        complete = {**self.ask("GET", "/policy")["settings"], **settings}
        self.ask("PUT", "/policy", {"settings": complete, "reason": "attackers"})

    def annotators(self) -> dict[str, dict[str, Any]]:
        return {one["annotator"]: one for one in self.ask("GET", "/annotators?limit=200")["items"]}

    def standing(self, which: str) -> set[str]:
        return {key for key, one in self.annotators().items() if one["standing"] == which}


@pytest.fixture
def arena(client: Client, keys: dict[str, str], runner: RefitRunner) -> Arena:
    return Arena(client, keys, runner)


@pytest.fixture
def world(arena: Arena) -> World:
    """A crowd of honest annotators, who have voted."""
    votes = simulate_votes(3, n_models=N_MODELS, roles={"honest": N_HONEST}, votes_each=EACH)
    arena.vote([f"honest {k}" for k in votes.annotator], votes.model_a, votes.model_b, votes.outcome)
    return votes.world


def attack(arena: Arena, world: World, board: dict[str, Any]) -> None:
    """Every strategy's attackers vote; they see the board and push its worst but one."""
    generator = np.random.default_rng(4)
    scores = {row["model"]: row["score"] for row in board["models"]}
    public = np.array([scores[f"model {i}"] for i in range(N_MODELS)])
    for name, strategy in ATTACKS.items():
        member = np.repeat(np.arange(MEMBERS), EACH)
        a, b = draw_pairs(generator, N_MODELS, len(member))
        honest = world.vote(np.zeros(len(member), int), a, b, generator)
        age = np.tile(np.linspace(0, 1, EACH), MEMBERS)
        scene = Scene(member, a, b, honest, age, public, int(np.argsort(public)[1]), world.tie_share)
        arena.vote([f"{name} {k}" for k in member], a, b, strategy(scene, generator))


def outside(board: dict[str, Any], clean: dict[str, Any]) -> set[str]:
    """The models whose score is not within its interval on the clean board."""
    bounds = {row["model"]: (row["lower"], row["upper"]) for row in clean["models"]}
    return {
        row["model"]
        for row in board["models"]
        if not bounds[row["model"]][0] <= row["score"] <= bounds[row["model"]][1]
    }


def test_attackers_are_flagged_then_excluded_and_the_board_comes_back(arena: Arena, world: World) -> None:
    clean = arena.refit()
    attack(arena, world, clean)
    arena.refit()
    beside = arena.standing("flagged") - ATTACKERS
    assert arena.standing("flagged") >= ATTACKERS
    assert len(beside) <= 1, "beside attackers an honest annotator's votes on their model may look like theirs"

    arena.change_policy(on_low_ability="exclude", max_excluded_share=0.5)
    arena.refit()
    mimics = {one for one in ATTACKERS if one.startswith("mimic")}
    assert arena.standing("excluded") == ATTACKERS - mimics
    assert mimics <= arena.standing("flagged") <= mimics | beside, "a taste never excludes: an admin decides"
    known = arena.annotators()
    for one in mimics:
        arena.ask("POST", f"/annotators/{known[one]['id']}/decisions", {"action": "exclude", "reason": "paid"})
    board = arena.refit()
    assert arena.standing("excluded") == ATTACKERS, "excluded annotators stay out"
    assert board["snapshot"]["votes_used"] == N_HONEST * EACH
    assert outside(board, clean) == set()


def test_an_excluded_annotator_who_votes_honestly_is_seen_and_can_come_back(arena: Arena, world: World) -> None:
    attack(arena, world, arena.refit())
    # With the usual margin the rule itself would let him back in: here nobody comes back but by a decision.
    arena.change_policy(on_low_ability="exclude", max_excluded_share=0.5, release_margin=10)
    arena.refit()
    without = arena.refit()
    before = arena.annotators()["flip 0"]
    assert (before["standing"], before["ability"]) == ("excluded", None)
    assert before["shadow_ability"] < 0

    generator = np.random.default_rng(5)
    a, b = draw_pairs(generator, N_MODELS, 4 * EACH)
    arena.vote(["flip 0"] * len(a), a, b, world.vote(np.zeros(len(a), int), a, b, generator))
    board = arena.refit()
    after = arena.annotators()["flip 0"]
    assert board["snapshot"]["votes_used"] == without["snapshot"]["votes_used"], "being seen to recover counts nothing"
    assert after["ability"] is None
    assert after["shadow_ability"] > max(before["shadow_ability"] + 0.5, 0.2)

    arena.ask("POST", f"/annotators/{after['id']}/decisions", {"action": "reinstate", "reason": "votes well now"})
    board = arena.refit()
    back = arena.annotators()["flip 0"]
    assert (back["standing"], back["override"]) == ("active", "active")
    assert back["ability"] > 0.2
    assert board["snapshot"]["votes_used"] == without["snapshot"]["votes_used"] + 5 * EACH

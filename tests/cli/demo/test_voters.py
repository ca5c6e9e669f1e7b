"""The demo's voters and what its screen says of it, without the service between."""

import asyncio
import inspect
import json
from typing import Any

import httpx
import numpy as np
import pytest
from scipy.stats import spearmanr

from app.cli.demo.command import POLICY, demo
from app.cli.demo.screen import View, agreement, draw, summary
from app.cli.demo.voters import HONEST_VOTES, MODEL_NAMES, SENDERS, Voters
from app.cli.tables import render
from app.policy.schemas import Policy
from app.rating.verdict.round import run_round
from app.rating.votes.cells import aggregate

OUTCOME = {"left": 1.0, "right": 0.0, "tie": 0.5}


class Ended(BaseException):
    """Enough votes."""


class Arena:
    """Draws battles uniformly, and keeps the votes until there are enough."""

    def __init__(self, enough: int) -> None:
        self.enough, self.skipped = enough, 0
        self.votes: list[dict[str, Any]] = []
        self._generator, self._battles = np.random.default_rng(0), dict[str, dict[str, Any]]()

    def answer(self, request: httpx.Request) -> httpx.Response:
        body, path = json.loads(request.content), request.url.path
        if path == "/battles":
            left, right = self._generator.choice(MODEL_NAMES, 2, replace=False).tolist()
            token = str(len(self._battles))
            self._battles[token] = {"annotator": body["annotator"], "left": left, "right": right}
            return httpx.Response(201, json={"battle_id": token, "token": token, "left": left, "right": right})
        if path == "/votes":
            if len(self.votes) == self.enough:
                raise Ended
            self.votes.append({**self._battles[body["token"]], "winner": body["winner"]})
            return httpx.Response(201)
        assert path.endswith("/skip")
        self.skipped += 1
        return httpx.Response(200)


def crowd_after(votes: int) -> tuple[Voters, Arena]:
    """Return the demo's own voters and the arena that it has cast so many votes in."""
    arena = Arena(votes)

    async def vote() -> Voters:
        seed = inspect.signature(demo).parameters["seed"].default
        transport = httpx.MockTransport(arena.answer)
        async with httpx.AsyncClient(transport=transport, base_url="http://demo") as client:
            voters = Voters(client, seed=seed, votes_per_second=1e9)
            try:
                await voters.vote_until_cancelled()
            except BaseExceptionGroup:
                return voters
        raise AssertionError

    return asyncio.run(vote()), arena


@pytest.mark.campaign
def test_all_bad_annotators_are_flagged_after_twenty_seconds() -> None:
    voters, arena = crowd_after(4_000)
    sent = arena.votes
    assert arena.skipped > 0, "the clique waits for its target"
    first = {voters.role_of(vote["annotator"]) for vote in sent[: HONEST_VOTES - SENDERS]}
    assert first == {"honest"}, "the attackers join later"
    cells = aggregate(
        np.array([int(vote["annotator"].removeprefix("voter-")) for vote in sent], dtype=np.int32),
        np.array([MODEL_NAMES.index(vote["left"]) for vote in sent], dtype=np.int32),
        np.array([MODEL_NAMES.index(vote["right"]) for vote in sent], dtype=np.int32),
        np.array([OUTCOME[vote["winner"]] for vote in sent]),
        n_annotators=len(voters.world.role),
        n_models=len(MODEL_NAMES),
    )
    rating = run_round(cells, Policy(min_votes=POLICY["min_votes"]).loop_settings("am-elo"))
    flagged = {number for number, standing in enumerate(rating.annotators.standing) if str(standing) == "flagged"}
    assert flagged == set(np.flatnonzero(voters.world.role != "honest"))

    rows = [{"model": name, "score": rating.models.score[i]} for i, name in enumerate(MODEL_NAMES)]
    view = View({"snapshot": {"number": 7}, "models": rows}, [{"annotator": voters.annotator(k)} for k in flagged])
    assert agreement(view, voters) == pytest.approx(spearmanr(rating.models.score, voters.world.score).statistic)
    assert "bad annotators flagged 15 of 15, honest ones 0 of 40" in summary(view, voters)


def test_a_model_without_a_rank_has_none_on_the_screen() -> None:
    voters, _ = crowd_after(1)
    row = {"model": MODEL_NAMES[0], "score": None, "se": None, "rank": None, "votes": 3}
    shown = render([draw(View({"snapshot": {"number": 7}, "models": [row]}, []), voters)])
    assert [line.split()[0] for line in shown.splitlines() if MODEL_NAMES[0] in line] == ["–"]


def test_before_the_first_leaderboard() -> None:
    voters, _ = crowd_after(1)
    assert summary(View(None, []), voters).endswith("no leaderboard yet")
    assert np.isnan(agreement(View(None, []), voters))

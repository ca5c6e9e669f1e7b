"""The demo's crowd and what its screen says of it, without the service between."""

import asyncio
import inspect
from typing import Any

import httpx
import numpy as np
import pytest
from scipy.stats import spearmanr

from app.cli.demo.command import POLICY, demo
from app.cli.demo.crowd import MODEL_NAMES, Crowd
from app.cli.demo.screen import View, agreement, summary
from app.policy.schemas import Policy
from app.rating.data.votes import aggregate
from app.rating.loop.round import run_round

OUTCOME = {"model_a": 1.0, "model_b": 0.0, "tie": 0.5}


class Ended(BaseException):
    """Enough votes."""


def crowd_after(votes: int) -> tuple[Crowd, list[dict[str, Any]]]:
    """Return the demo's own crowd and what it sends until it has voted so often."""
    sent: list[dict[str, Any]] = []

    def take(request: httpx.Request) -> httpx.Response:
        if len(sent) == votes:
            raise Ended
        sent.append(httpx.Response(200, content=request.content).json())
        return httpx.Response(201)

    async def vote() -> Crowd:
        seed = inspect.signature(demo).parameters["seed"].default
        async with httpx.AsyncClient(transport=httpx.MockTransport(take), base_url="http://demo") as client:
            crowd = Crowd(client, seed=seed, votes_per_second=1e9)
            try:
                await crowd.vote_until_cancelled()
            except BaseExceptionGroup:
                return crowd
        raise AssertionError

    return asyncio.run(vote()), sent


def test_all_bad_annotators_are_flagged_after_twenty_seconds() -> None:
    crowd, sent = crowd_after(4_000)
    cells = aggregate(
        np.array([int(vote["annotator"].removeprefix("voter-")) for vote in sent], dtype=np.int32),
        np.array([MODEL_NAMES.index(vote["model_a"]) for vote in sent], dtype=np.int32),
        np.array([MODEL_NAMES.index(vote["model_b"]) for vote in sent], dtype=np.int32),
        np.array([OUTCOME[vote["winner"]] for vote in sent]),
        n_annotators=len(crowd.world.role),
        n_models=len(MODEL_NAMES),
    )
    rating = run_round(cells, Policy(min_votes=POLICY["min_votes"]).loop_settings("am-elo")).rating
    flagged = {number for number, standing in enumerate(rating.annotators.standing) if str(standing) == "flagged"}
    assert flagged == set(np.flatnonzero(crowd.world.role != "honest"))

    rows = [{"model": name, "score": rating.models.score[i]} for i, name in enumerate(MODEL_NAMES)]
    view = View({"snapshot": {"number": 7}, "models": rows}, [{"annotator": crowd.annotator(k)} for k in flagged])
    assert agreement(view, crowd) == pytest.approx(spearmanr(rating.models.score, crowd.world.score).statistic)
    assert "bad annotators flagged 15 of 15, honest ones 0 of 40" in summary(view, crowd)


def test_before_the_first_leaderboard() -> None:
    crowd, _ = crowd_after(1)
    assert summary(View(None, []), crowd).endswith("no leaderboard yet")
    assert np.isnan(agreement(View(None, []), crowd))

"""The simulated crowd: annotators who vote over HTTP, most of them honestly."""

import asyncio
import time
from dataclasses import dataclass, field
from typing import Any

import httpx
import numpy as np

from app.rating.simulation.worlds import Role, World, make_world

SENDERS = 8
MODEL_NAMES = (
    "amber", "birch", "cobalt", "dune", "ember", "fjord", "garnet", "heron", "indigo", "juniper", "kestrel", "larch",
)  # fmt: skip
WINNERS = {1.0: "left", 0.0: "right", 0.5: "tie"}
PATIENCE = 20  # battles that a member of the clique skips in a row
HONEST_VOTES = 1_500
"""The attackers join after so many votes of the others."""
ROLES: dict[Role, int] = {"honest": 40, "random": 4, "flip": 4, "equal": 3, "clique": 4}


@dataclass
class Tally:
    """How many votes the voters has sent so far."""

    sent: int = 0
    refused: int = 0
    started: float = field(default_factory=time.monotonic)

    @property
    def per_second(self) -> float:
        """Accepted votes a second since the start."""
        return self.sent / max(time.monotonic() - self.started, 1e-9)


class Voters:
    """A simulated world whose annotators judge sealed battles at a steady pace.

    Members of the clique vote only in battles of their target, whose answers they recognise, and always for it. They
    skip other battles until one comes. The others judge what they are shown. The honest annotators begin, and the
    attackers join them later.
    """

    def __init__(self, client: httpx.AsyncClient, *, seed: int, votes_per_second: float) -> None:
        self.generator = np.random.default_rng(seed)
        self.world: World = make_world(self.generator, n_models=len(MODEL_NAMES), roles=ROLES, score_sd=140.0)
        self.tally = Tally()
        self._client = client
        self._pause = SENDERS / votes_per_second

    def annotator(self, index: int) -> str:
        """Return an annotator's key; it does not give the role away."""
        return f"voter-{index:02d}"

    def role_of(self, annotator: str) -> str:
        """Return the true role of the annotator with this key."""
        return str(self.world.role[int(annotator.removeprefix("voter-"))])

    async def vote_until_cancelled(self) -> None:
        """Send votes in several tasks at once, each at its share of the pace."""
        async with asyncio.TaskGroup() as tasks:
            for _ in range(SENDERS):
                tasks.create_task(self._keep_voting())

    async def _keep_voting(self) -> None:
        due = time.monotonic()
        while True:
            due = max(due + self._pause, time.monotonic() - 1.0)
            await self._cast()
            await asyncio.sleep(max(0.0, due - time.monotonic()))

    async def _cast(self) -> None:
        present = len(self.world.ability) if self.tally.sent >= HONEST_VOTES else ROLES["honest"]
        annotator = self.generator.integers(0, present, 1)
        try:
            battle = await self._draw(self.annotator(int(annotator[0])), only_target=self._is_clique(annotator[0]))
            if battle is None:
                return
            left, right = (np.array([MODEL_NAMES.index(battle[side])]) for side in ("left", "right"))
            outcome = self.world.vote(annotator, left, right, self.generator)[0]
            verdict = {"token": battle["token"], "winner": WINNERS[float(outcome)]}
            cast = await self._client.post("/votes", json=verdict)
        except (httpx.TransportError, httpx.HTTPStatusError):
            self.tally.refused += 1
            return
        if cast.status_code == httpx.codes.CREATED:
            self.tally.sent += 1
        else:
            self.tally.refused += 1

    def _is_clique(self, annotator: int) -> bool:
        return str(self.world.role[annotator]) == "clique"

    async def _draw(self, annotator: str, *, only_target: bool) -> dict[str, Any] | None:
        """Ask for a battle; with `only_target` skip those of other models, and give up after a while."""
        target = MODEL_NAMES[self.world.target]
        for _ in range(PATIENCE if only_target else 1):
            drawn = await self._client.post("/battles", json={"annotator": annotator})
            battle: dict[str, Any] = drawn.raise_for_status().json()
            if not only_target or target in (battle["left"], battle["right"]):
                return battle
            skipped = await self._client.post(f"/battles/{battle['battle_id']}/skip", json={"reason": "skip"})
            skipped.raise_for_status()
        return None

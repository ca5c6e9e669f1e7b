"""The simulated crowd: annotators who vote over HTTP, most of them honestly."""

import asyncio
import time
from dataclasses import dataclass, field

import httpx
import numpy as np

from app.lab.simulate import Role, World, draw_pairs, make_world

SENDERS = 8
MODEL_NAMES = (
    "amber", "birch", "cobalt", "dune", "ember", "fjord", "garnet", "heron", "indigo", "juniper", "kestrel", "larch",
)  # fmt: skip
CROWD: dict[Role, int] = {"honest": 40, "random": 4, "flip": 4, "equal": 3, "clique": 4}


@dataclass
class Tally:
    """How many votes the crowd has sent so far."""

    sent: int = 0
    refused: int = 0
    started: float = field(default_factory=time.monotonic)

    @property
    def per_second(self) -> float:
        """Accepted votes a second since the start."""
        return self.sent / max(time.monotonic() - self.started, 1e-9)


class Crowd:
    """A simulated world whose annotators vote at a steady pace.

    Members of the clique vote only in battles of their target, and always for it. The others get random battles.
    """

    def __init__(self, client: httpx.AsyncClient, *, seed: int, votes_per_second: float) -> None:
        self.generator = np.random.default_rng(seed)
        self.world: World = make_world(self.generator, n_models=len(MODEL_NAMES), roles=CROWD, score_sd=140.0)
        self.tally = Tally()
        self._client = client
        self._pause = SENDERS / votes_per_second
        self._battle = 0

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
        annotator = self.generator.integers(0, len(self.world.ability), 1)
        a, b = draw_pairs(self.generator, len(MODEL_NAMES), 1)
        target = self.world.target
        if self.world.role[annotator[0]] == "clique" and target not in (a[0], b[0]):
            a[0] = target
        outcome = self.world.vote(annotator, a, b, self.generator)[0]
        self._battle += 1
        vote = {
            "model_a": MODEL_NAMES[a[0]],
            "model_b": MODEL_NAMES[b[0]],
            "winner": {1.0: "model_a", 0.0: "model_b", 0.5: "tie"}[float(outcome)],
            "annotator": self.annotator(int(annotator[0])),
            "battle_id": f"battle-{self._battle}",
        }
        try:
            response = await self._client.post("/votes", json=vote)
        except httpx.TransportError:
            self.tally.refused += 1
            return
        if response.status_code == httpx.codes.CREATED:
            self.tally.sent += 1
        else:
            self.tally.refused += 1

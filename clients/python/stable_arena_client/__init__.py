"""Send votes to Stable Arena and read its leaderboard.

>>> with StableArena("http://127.0.0.1:8000", key="sa_…") as arena:
...     arena.vote(Vote(model_a="GPT 4", model_b="Claude v1", winner="model_a", annotator="worker-58", battle_id="b17"))
...     [row.model for row in arena.leaderboard(limit=3).models]
"""

from stable_arena_client.async_client import AsyncStableArena
from stable_arena_client.client import StableArena
from stable_arena_client.errors import ArenaError, ArenaUnreachableError, ProblemError
from stable_arena_client.models import Policy, RankedVote, Vote
from stable_arena_client.retries import NO_RETRIES, Retries

__all__ = [
    "NO_RETRIES",
    "ArenaError",
    "ArenaUnreachableError",
    "AsyncStableArena",
    "Policy",
    "ProblemError",
    "RankedVote",
    "Retries",
    "StableArena",
    "Vote",
]

"""The methods by which every snapshot ranks its models."""

from typing import Literal

LeaderboardMethod = Literal["am-elo", "m-elo", "m-elo-all", "elo"]
"""- am-elo: the snapshot's own fit.
- m-elo: Bradley-Terry on the same votes.
- m-elo-all: Bradley-Terry on every vote that counts, those of pending and excluded annotators too.
- elo: the mean of Elo over random orders of the same votes, where that is cheap."""

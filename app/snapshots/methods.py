"""The boards that every snapshot carries."""

from typing import Literal

BoardMethod = Literal["am-elo", "m-elo", "m-elo-all", "elo"]
"""am-elo: the loop's own; m-elo: Bradley-Terry on the votes that the loop kept; m-elo-all: on every vote that counts,
whoever cast it; elo: the mean of Elo over random orders of the kept votes, where that is cheap."""

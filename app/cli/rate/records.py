"""What `rate` is given and what it returns. This module is light: the solver is imported while a file is read."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from app.rating.settings import LoopSettings

OfflineMethod = Literal["am-elo", "m-elo", "elo"]


@dataclass(frozen=True)
class OfflineSettings:
    """How to rate a file.

    Attributes
    ----------
    method : "elo" depends on the order of votes and is averaged over shuffles; the other methods do not.
    loop : all other settings; "elo" uses only min_votes and base, which is its start.
    anchor : (model, Elo points): the scores are shifted so that this model has this score. It replaces `loop.anchor`,
        which is an index.
    shuffles, seed : for "elo" alone.
    inverse_propensity : weigh each vote by the inverse of its propensity; not for "elo".
    scheduler : address of the Dask scheduler whose workers fit, for "am-elo"; None: this process fits.
    """

    method: OfflineMethod
    loop: LoopSettings
    anchor: tuple[str, float] | None = None
    shuffles: int = 1000
    seed: int = 0
    inverse_propensity: bool = False
    scheduler: str | None = None


@dataclass(frozen=True)
class OfflineRating:
    """A leaderboard as plain rows, fields in the order in which `rate --format json` prints them."""

    method: OfflineMethod
    settings: dict[str, Any]
    votes: dict[str, int | float]
    models: Sequence[Mapping[str, Any]]
    annotators: Sequence[Mapping[str, Any]]
    diagnostics: dict[str, Any]

"""How few changes of the votes would swap neighbours on a leaderboard, from the snapshot's diagnostics."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pydantic import BaseModel, ConfigDict, Field
from sqlalchemy import Connection

from app.naming.aliases import read_names


class Gap(BaseModel):
    """The gap between a model and its neighbour on the leaderboard."""

    model_config = ConfigDict(frozen=True)

    neighbour: int = Field(exclude=True, description="The neighbour's number.")
    gap: float = Field(description="Elo points between the two.")
    votes: int | None = Field(
        description="About how many votes, if removed, would swap the two; null where no such number is known."
    )
    flipped_votes: int | None = Field(
        description="The same for votes with the opposite verdict; ties stay as they are."
    )
    added_votes: int | None = Field(
        description="The same for new votes by the annotators who count, each at most as many on a pair as they cast."
    )
    annotators: int | None = Field(description="The same for annotators, each removed with all votes.")
    tied: bool = Field(description="Whether a handful of votes decides the order.")


@dataclass(frozen=True)
class Neighbours:
    """Each model's gap to the one above it and to the one below it, by the model's number.

    `computed` is false until the worker has found the gaps, after the publication.
    """

    above: Mapping[int, Gap]
    below: Mapping[int, Gap]
    computed: bool = True


def read_neighbours(conn: Connection, diagnostics: Mapping[str, Any]) -> Neighbours:
    """Return the gaps between neighbours on the am-elo leaderboard of all votes.

    Snapshots of early versions have none, or fewer figures. The diagnostics name models as they were called then; a
    renamed model has its old name as an alias.
    """
    pairs = diagnostics.get("fragility", [])
    if pairs is None:
        return Neighbours({}, {}, computed=False)
    names = read_names(conn, sorted({pair[side] for pair in pairs for side in ("above", "below")}))
    above, below = {}, {}
    for pair in pairs:
        upper = names.own.get(pair["above"]) or names.number(pair["above"], None)
        lower = names.own.get(pair["below"]) or names.number(pair["below"], None)
        if upper is None or lower is None:
            continue  # its alias was removed
        figures = {name: pair.get(name) for name in Gap.model_fields if name != "neighbour"}
        above[lower] = Gap(neighbour=upper, **figures)
        below[upper] = Gap(neighbour=lower, **figures)
    return Neighbours(above, below)

"""Which neighbours on a board a handful of votes would swap, as the snapshot's diagnostics say."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pydantic import BaseModel, ConfigDict, Field
from sqlalchemy import Connection

from app.naming.aliases import read_names


class Gap(BaseModel):
    """What separates a model from its neighbour on the board."""

    model_config = ConfigDict(frozen=True)

    neighbour: int = Field(exclude=True, description="The neighbour's number.")
    gap: float = Field(description="Elo points between the two.")
    votes: int | None = Field(
        description="So many votes, approximately, would swap the two if they were taken away; null where no number of "
        "them is known to."
    )
    annotators: int | None = Field(description="The same of annotators with all of their votes.")
    tied: bool = Field(description="Whether a handful of votes decides.")


@dataclass(frozen=True)
class Neighbours:
    """Each model's gap to the one above it and to the one below it, by the model's number."""

    above: Mapping[int, Gap]
    below: Mapping[int, Gap]


def read_neighbours(conn: Connection, diagnostics: Mapping[str, Any]) -> Neighbours:
    """Return the gaps between neighbours of the am-elo board of all votes.

    Snapshots made before they were looked into have none. Models are named as they were called then: a renamed one
    has its old name as an alias.
    """
    pairs = diagnostics.get("fragility") or []
    names = read_names(conn, sorted({pair[side] for pair in pairs for side in ("above", "below")}))
    above, below = {}, {}
    for pair in pairs:
        upper = names.own.get(pair["above"]) or names.number(pair["above"], None)
        lower = names.own.get(pair["below"]) or names.number(pair["below"], None)
        if upper is None or lower is None:
            continue  # its alias was taken away
        figures = {name: pair[name] for name in ("gap", "votes", "annotators", "tied")}
        above[lower] = Gap(neighbour=upper, **figures)
        below[upper] = Gap(neighbour=lower, **figures)
    return Neighbours(above, below)

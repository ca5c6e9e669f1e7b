"""The groups of a snapshot's leaderboards: models that chains of votes link. Only models of one group compare."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from uuid import UUID

from sqlalchemy import Connection, RowMapping

from app.errors import NotFoundError
from app.leaderboard import queries as store

ModelGroups = dict[tuple[str, str], list["ModelGroup"]]


@dataclass(frozen=True)
class ModelGroup:
    """A connected component of a leaderboard.

    Attributes
    ----------
    number : 1 has the most votes
    tag : the tag that all its votes have and no others; None where there is none
    models : how many are shown
    ranked : how many have a rank, archived ones too
    """

    number: int
    tag: str | None
    models: int
    ranked: int

    @property
    def key(self) -> str:
        """What an address calls it. The tag is there to stay; a number may be another group's after a refit."""
        return self.tag or str(self.number)

    @property
    def name(self) -> str:
        """What a page calls it."""
        return self.tag or f"group {self.number}"


def list_groups(conn: Connection, snapshot_id: UUID) -> ModelGroups:
    """Return the groups of each of a snapshot's leaderboards, by method and tag; "" means all votes.

    A tag with the same models and as many votes as one of several groups names that group, by every method.
    """
    rows = store.list_components(conn, snapshot_id)
    parts = Counter((row["method"], row["tag"]) for row in rows)
    tags = {_content(row): row["tag"] for row in rows if row["tag"] and parts[row["method"], row["tag"]] == 1}
    whole = [row for row in rows if (row["method"], row["tag"]) == ("am-elo", "")]
    names = {tuple(row["members"]): tags.get(_content(row)) for row in whole} if len(whole) > 1 else {}
    groups: ModelGroups = {}
    for row in rows:
        tag = None if row["tag"] else names.get(tuple(row["members"]))
        group = ModelGroup(row["component"] + 1, tag, row["models"], row["ranked"])
        groups.setdefault((row["method"], row["tag"]), []).append(group)
    return groups


def _content(row: RowMapping) -> tuple[tuple[int, ...], int]:
    return tuple(row["members"]), row["votes"]


def choose_group(groups: Sequence[ModelGroup], key: str) -> ModelGroup:
    """Return the group of this name or number; of an empty one the first. Raises NotFoundError."""
    if not key:
        return groups[0]
    named = [group for group in groups if group.tag == key] or [group for group in groups if str(group.number) == key]
    if not named:
        raise NotFoundError(f"this leaderboard has no group {key!r}; it has {', '.join(group.key for group in groups)}")
    return named[0]

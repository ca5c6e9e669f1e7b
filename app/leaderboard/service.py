from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any, cast, get_args

from pydantic import Field
from sqlalchemy import Connection, RowMapping

from app.leaderboard import queries as store
from app.leaderboard.schemas import Leaderboard, LeaderboardRow, Place, PublishedLeaderboard, Whose
from app.naming.aliases import read_names
from app.policy.service import stored_policy
from app.schemas import FrozenModel
from app.snapshots.freshness import CountNewVotes, freshness_of, next_refit_due_at
from app.snapshots.queries import list_leaderboards, list_placed_models
from app.snapshots.schemas import Freshness, LeaderboardMethod, SnapshotHead
from app.snapshots.service import NoSuchLeaderboardError, find_snapshot, missing_snapshot, parse_reference
from app.snapshots.vote_sets import new_votes_since

_NAMED_TAGS = 50  # that a problem lists


class NeighbourGap(FrozenModel):
    """The gap between a model and its neighbour on the leaderboard."""

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
    prompts: int | None = Field(description="The same for prompts; null where votes do not say theirs.")
    tied: bool = Field(description="Whether a handful of votes decides the order.")


Neighbours = tuple[dict[int, NeighbourGap], dict[int, NeighbourGap]]
"""Each model's gap to the one above it and to the one below it, by the model's number."""


def read_neighbours(conn: Connection, diagnostics: Mapping[str, Any]) -> Neighbours | None:
    """Return the gaps between neighbours on the am-elo leaderboard of all votes; None before the worker found them.

    Snapshots of early versions have none, or fewer figures. The diagnostics name models as they were called then; a
    renamed model has its old name as an alias.
    """
    pairs = diagnostics.get("fragility", [])
    if pairs is None:
        return None
    names = read_names(conn, sorted({pair[side] for pair in pairs for side in ("above", "below")}))
    above, below = {}, {}
    for pair in pairs:
        upper = names.own.get(pair["above"]) or names.number(pair["above"], None)
        lower = names.own.get(pair["below"]) or names.number(pair["below"], None)
        if upper is None or lower is None:
            continue  # its alias was removed
        figures = {name: pair.get(name) for name in NeighbourGap.model_fields if name != "neighbour"}
        above[lower] = NeighbourGap(neighbour=upper, **figures)
        below[upper] = NeighbourGap(neighbour=lower, **figures)
    return above, below


@dataclass(frozen=True)
class SnapshotState:
    """A snapshot, a hash of what is known of its models now, how fresh it is, and how old it may be."""

    snapshot: SnapshotHead
    models_hash: str
    freshness: Freshness
    stale_after_seconds: float

    @property
    def version(self) -> Hashable:
        """Changes with what is shown of a snapshot. For the newest snapshot: with whatever is shown to the public."""
        return self.snapshot.id, self.snapshot.published_at, self.models_hash

    def aged(self, seconds: float) -> "SnapshotState":
        """Return what is known of this state so many seconds later without the database: it may be out of date."""
        age = self.freshness.age_seconds + seconds
        return replace(self, freshness=self.freshness.model_copy(update={"age_seconds": age, "stale": True}))

    def freshness_of(self, other: "SnapshotState", votes_between: int) -> Freshness:
        """Return how fresh another snapshot is now that this is the newest state.

        `votes_between`: votes that this snapshot had read and the other one had not.
        """
        apart = (self.snapshot.published_at - other.snapshot.published_at).total_seconds()
        waiting = self.freshness.votes_not_in_board + votes_between
        age = self.freshness.age_seconds + apart
        due_at = self.freshness.next_refit_due_at
        fresh = freshness_of(other.snapshot.published_at, age, waiting, due_at, self.stale_after_seconds)
        return fresh.model_copy(update={"stale": True}) if self.freshness.stale else fresh


def find_state(
    conn: Connection,
    snapshot: str | None = None,
    as_of: datetime | None = None,
    *,
    count_new_votes: CountNewVotes = new_votes_since,
) -> SnapshotState:
    """Return the state of a snapshot, by id or number; of the newest at a time; or of the newest.

    Raises NotFoundError or NoSnapshotError.
    """
    named = None if snapshot is None else parse_reference(snapshot)
    row = None if snapshot is not None and named is None else store.find_state(conn, snapshot=named, as_of=as_of)
    if row is None:
        raise missing_snapshot(conn, snapshot, as_of)
    return _describe(conn, row, count_new_votes)


def find_newest_state(conn: Connection, *, count_new_votes: CountNewVotes) -> SnapshotState | None:
    """Return the state of the newest snapshot; None before the first."""
    row = store.find_state(conn)
    return None if row is None else _describe(conn, row, count_new_votes)


def _describe(conn: Connection, row: RowMapping, count_new_votes: CountNewVotes) -> SnapshotState:
    head, policy, age = SnapshotHead.model_validate(dict(row)), stored_policy(row["policy"]), row["age_seconds"]
    waiting = count_new_votes(conn, row["vote_set"])
    now = head.published_at + timedelta(seconds=age)
    due_at = next_refit_due_at(
        conn, policy, row["vote_set"], last_ended_at=row["last_refit_at"], now=now, waiting=waiting
    )
    fresh = freshness_of(head.published_at, age, waiting, due_at, policy.stale_after_seconds)
    return SnapshotState(head, row["models_hash"], fresh, policy.stale_after_seconds)


def read_leaderboard(
    conn: Connection,
    snapshot: str | None = None,
    method: LeaderboardMethod = "am-elo",
    tag: str | None = None,
    compare: Sequence[LeaderboardMethod] = (),
) -> Leaderboard:
    """Return a leaderboard of a snapshot, by default of the newest, and how fresh it is; see `read_published`.

    Raises NotFoundError, NoSnapshotError or NoSuchLeaderboardError.
    """
    state = find_state(conn, snapshot)
    published = read_published(conn, state.snapshot, method, tag, compare)
    return Leaderboard.model_validate({**dict(published), **dict(state.freshness)})


def read_published(
    conn: Connection,
    snapshot: SnapshotHead,
    method: LeaderboardMethod = "am-elo",
    tag: str | None = None,
    compare: Sequence[LeaderboardMethod] = (),
) -> PublishedLeaderboard:
    """Return a leaderboard as published, best first within each component.

    An empty tag means all votes. With `compare`, the models' ranks and scores by other methods stand beside. Raises
    NoSuchLeaderboardError.
    """
    tag = tag or ""
    check_leaderboard(conn, snapshot, method, *compare, tag=tag or None)
    diagnostics = find_snapshot(conn, str(snapshot.id)).diagnostics
    neighbours = read_neighbours(conn, diagnostics) if method == "am-elo" and not tag else None
    above = neighbours[0] if neighbours else {}
    others = {
        other: {row["model_id"]: Place(**row) for row in list_placed_models(conn, snapshot.id, other, tag)}
        for other in compare
    }
    placed = list_placed_models(conn, snapshot.id, method, tag, with_hidden=True)
    rows = [row for row in placed if not (row["archived"] or row["unreleased"])]
    names = {row["model_id"]: row["model"] for row in rows}
    models = [
        LeaderboardRow(
            **row,
            **_tie(above.get(row["model_id"]), names),
            compared={other: places.get(row["model_id"], Place()) for other, places in others.items()},
        )
        for row in rows
    ]
    return PublishedLeaderboard(
        snapshot=snapshot,
        method=method,
        tag=tag or None,
        of=_whose(method, diagnostics),
        models=models,
        archived=sum(row["archived"] and not row["unreleased"] for row in placed),
        diagnostics=diagnostics,
    )


def _whose(method: LeaderboardMethod, diagnostics: Mapping[str, Any]) -> Whose:
    """Return whose votes a leaderboard is of; snapshots of earlier versions knew of no judges."""
    if method in get_args(Whose):
        return cast("Whose", method)
    if method == "people+judges":
        return "all"
    whose: Whose = diagnostics.get("leaderboard_of", "people")
    return "all" if method == "m-elo-all" and diagnostics.get("votes", {}).get("of_others") is not None else whose


def check_leaderboard(
    conn: Connection, snapshot: SnapshotHead, *methods: LeaderboardMethod, tag: str | None = None
) -> None:
    """Check that the snapshot has these leaderboards; otherwise name those that it has.

    Raises NoSuchLeaderboardError.
    """
    kept = list_leaderboards(conn, snapshot.id)
    here = [method for method, name in kept if name == (tag or "")]
    missing = next((method for method in methods if method not in here), None)
    if missing is None:
        return
    if tag is not None and not here:
        tags = sorted({name for _, name in kept if name})
        listed = ", ".join(f"{name!r}" for name in tags[:_NAMED_TAGS]) or "none (old snapshots drop them)"
        more = f" and {len(tags) - _NAMED_TAGS} more" if len(tags) > _NAMED_TAGS else ""
        raise NoSuchLeaderboardError(
            f"snapshot {snapshot.number} has no leaderboard of the tag {tag!r}; its tags are {listed}{more}"
        )
    of_tag = "" if tag is None else f" of the tag {tag!r}"
    raise NoSuchLeaderboardError(
        f"snapshot {snapshot.number} has no {missing} leaderboard{of_tag}; it has {', '.join(here)}"
    )


def _tie(above: NeighbourGap | None, names: Mapping[int, str]) -> dict[str, Any]:
    """Return whether a model is tied, and with which model. An archived neighbour does not count."""
    if above is None or above.neighbour not in names:
        return {"tied": None, "tied_with": None}
    return {"tied": above.tied, "tied_with": names[above.neighbour] if above.tied else None}

"""An annotator's own order of the models, beside that of the newest leaderboard."""

from uuid import UUID

import numpy as np
from sqlalchemy import Connection, select

from app.auth.callers import Caller, ForeignAnnotatorError
from app.database.tables import snapshot_annotators
from app.errors import BadInputError
from app.invitations.voters import Voter
from app.models.contestants import read_contestants
from app.models.queries import list_unreleased, read_model_names
from app.naming.service import find_annotators
from app.rating.units import NATURAL_PER_ELO
from app.rating.verdict.own_order import order_own_votes
from app.review.me.schemas import OwnOrder, OwnPlace
from app.review.queries import read_votes
from app.snapshots.queries import list_placed_models, newest_snapshot
from app.votes.queries import read_undoable

ENOUGH_VOTES = 20
_MOST_VOTES = 10_000  # the newest, of an annotator with more
_WORTH = np.array([1.0, 0.0, 0.5, 0.5])
_INTERVAL = 1.96
_BASE = 1000.0


def find_own_number(conn: Connection, holder: Caller | Voter, annotator: str | None) -> int | None:
    """Return the number of the annotator who asks; None before the first vote.

    Raises ForeignAnnotatorError: the token is bound to another annotator.
    Raises BadInputError: an ingest token needs the annotator's key beside it.
    """
    if isinstance(holder, Voter):
        if isinstance(holder.annotator, int):
            return holder.annotator
        return find_annotators(conn, [holder.annotator]).get(holder.annotator)
    if annotator is None:
        raise BadInputError.at("/annotator", "is required")
    if not holder.may_vote_as(annotator):
        raise ForeignAnnotatorError("this token is bound to another annotator")
    return find_annotators(conn, [annotator]).get(annotator)


def order_of(conn: Connection, annotator_id: int | None) -> OwnOrder:
    """Return the order that an annotator's votes show, once there are enough, and everyone's beside it."""
    if annotator_id is None:
        return OwnOrder(votes=0, useful=0, votes_needed=ENOUGH_VOTES, models=[])
    hidden = read_undoable(conn, annotator_id)
    rows = read_votes(conn, annotator_id, most=_MOST_VOTES, contestants=read_contestants(conn))
    rows = [row for row in rows if row[1] != row[2] and row[0] not in hidden]
    number, snapshot = len({row[0] for row in rows}), newest_snapshot(conn)
    useful = 0 if snapshot is None else _counted(conn, snapshot["id"], annotator_id)
    if number < ENOUGH_VOTES:
        return OwnOrder(votes=number, useful=useful, votes_needed=ENOUGH_VOTES - number, models=[])
    a, b, outcome = (np.array([row[place] for row in rows]) for place in (1, 2, 3))
    ids, places = np.unique(np.concatenate([a, b]), return_inverse=True)
    first, second = places[: len(rows)], places[len(rows) :]
    found = order_own_votes(first, second, _WORTH[outcome], len(ids))
    battles = np.bincount(places, minlength=len(ids))
    score, reach = _BASE + found.R / NATURAL_PER_ELO, _INTERVAL * found.se / NATURAL_PER_ELO
    names, unreleased = read_model_names(conn, ids.tolist()), {one for one, _ in list_unreleased(conn)}
    board = {} if snapshot is None else _board(conn, snapshot["id"])
    return OwnOrder(
        votes=number,
        useful=useful,
        votes_needed=0,
        models=[
            OwnPlace(
                model=names[int(ids[place])],
                votes=int(battles[place]),
                score=score[place],
                lower=score[place] - reach[place],
                upper=score[place] + reach[place],
                **board.get(int(ids[place]), {}),
            )
            for place in np.argsort(-found.R, kind="stable").tolist()
            if int(ids[place]) not in unreleased
        ],
    )


def _counted(conn: Connection, snapshot_id: UUID, annotator_id: int) -> int:
    c = snapshot_annotators.c
    statement = select(c.votes).where(
        c.snapshot_id == snapshot_id, c.annotator_id == annotator_id, c.standing.not_in(("pending", "excluded"))
    )
    return int(conn.execute(statement).scalar() or 0)


def _board(conn: Connection, snapshot_id: UUID) -> dict[int, dict[str, float | int | None]]:
    shown, rows = ("rank", "score", "lower", "upper"), list_placed_models(conn, snapshot_id, with_hidden=True)
    return {row["model_id"]: {f"board_{name}": row[name] for name in shown} for row in rows}

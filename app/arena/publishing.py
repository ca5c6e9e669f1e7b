import dataclasses
from typing import Any
from uuid import UUID

import numpy as np
from numpy.typing import NDArray
from sqlalchemy import Connection, RowMapping

from app import __version__
from app.arena.audit import audit_head
from app.arena.fitting import Fitted
from app.arena.reading import Material
from app.arena.rows import finite
from app.arena.webhooks import events
from app.rating.results import Board
from app.store.erasure import clear_metadata_of_erased
from app.store.snapshots import insert_board, insert_crowd, insert_snapshot, list_standing_changes


def publish(
    conn: Connection, refit_id: UUID, material: Material, fitted: Fitted, seconds: dict[str, float]
) -> RowMapping:
    """Write a snapshot with its boards and its annotators; return its `id, number, published_at`.

    The caller's transaction holds the refit lease, so that this is the only publication under way.
    """
    rating = fitted.rating
    values = {
        "refit_id": refit_id,
        "policy_version": material.policy.version,
        "settings": dataclasses.asdict(rating.settings),
        "diagnostics": {
            **dataclasses.asdict(rating.diagnostics),
            "seconds": dict(seconds),
            "votes": account_votes(material, fitted),
            "audit": audit_head(conn),
        },
        "votes_read": material.votes_read,
        "votes_used": round(rating.votes_used),
        "vote_set": material.vote_set,
        "votes_hash": fitted.votes_hash,
        "code_version": __version__,
    }
    snapshot = insert_snapshot(conn, values)
    boards = {rating.settings.method: rating.board, material.task.plain_settings.method: fitted.plain}
    for method, board in boards.items():
        insert_board(conn, snapshot["id"], method, model_rows(board, material.task.model_ids))
    # Every board, and with it every vote that came in by the key of somebody just erased, passes here.
    clear_metadata_of_erased(conn)
    crowd = crowd_columns(fitted, material.task.annotator_ids, material.overrides)
    if events.wants_standings(conn):
        events.announce_standings(conn, snapshot, list_standing_changes(conn, crowd))
    insert_crowd(conn, snapshot["id"], crowd)
    events.announce(conn, "snapshot.published", _notice(snapshot, values))
    return snapshot


def _notice(snapshot: RowMapping, values: dict[str, Any]) -> dict[str, Any]:
    shown = {name: values[name] for name in ("policy_version", "votes_read", "votes_used", "votes_hash")}
    published = snapshot["published_at"].isoformat()
    return {"snapshot": str(snapshot["id"]), "number": snapshot["number"], "published_at": published, **shown}


def account_votes(material: Material, fitted: Fitted) -> dict[str, int]:
    """Say of the votes read how many the board counts and, of the rest, why not; these add up to those read.

    pending: of annotators with δ votes or fewer; excluded: of annotators whom the rule or a decision leaves out;
    retracted; over_quota: past the policy's votes per day.
    """
    used, votes = round(fitted.rating.votes_used), fitted.rating.crowd.votes
    few = (votes <= material.policy.settings.min_votes) & ~material.task.keep_never
    pending = int(votes[few].sum())
    return {
        "read": material.votes_read,
        "used": used,
        "pending": pending,
        "excluded": len(material.task.outcome) - used - pending,
        "retracted": material.retracted,
        "over_quota": material.over_quota,
    }


def model_rows(board: Board, model_ids: NDArray[np.int32]) -> list[dict[str, Any]]:
    """Return the models that the board counts as they are stored."""
    counted = board.votes > 0
    columns = {"model_id": model_ids[counted].tolist()}
    for field in dataclasses.fields(board):
        columns[field.name] = _plain(getattr(board, field.name)[counted])
    return [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]


def crowd_columns(
    fitted: Fitted, annotator_ids: NDArray[np.int32], overrides: list[str | None]
) -> dict[str, list[Any]]:
    """Return the annotators with votes as they are stored."""
    crowd = fitted.rating.crowd
    voted = crowd.votes > 0
    figures = ("ability", "se", "shadow_ability", "shadow_se", "probability_low")
    return {
        "annotator_id": annotator_ids[voted].tolist(),
        **{name: _plain(getattr(crowd, name)[voted]) for name in figures},
        "votes": crowd.votes[voted].astype(np.int64).tolist(),
        "rule_standing": crowd.standing[voted].tolist(),
        "override": [override for override, here in zip(overrides, voted, strict=True) if here],
    }


def _plain(values: NDArray[Any]) -> list[Any]:
    """Return Python values, None where a number is not finite."""
    return [finite(x) if isinstance(x, float) else x for x in values.tolist()]

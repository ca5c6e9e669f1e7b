import dataclasses
import json
from collections.abc import Mapping
from typing import Any
from uuid import UUID

import numpy as np
from numpy.typing import NDArray
from sqlalchemy import Connection, RowMapping

from app import __version__
from app.annotators.erasure.queries import clear_metadata_of_erased
from app.annotators.standings.queries import apply_standings as set_standings
from app.annotators.standings.queries import insert_snapshot_annotators, list_standing_changes
from app.audit.service import audit_head
from app.leaderboard.rows import finite
from app.models.queries import read_model_names
from app.rating.loop.results import ModelEstimates
from app.rating.robustness.fragility import Fragility
from app.refits.alarms.service import find_alarms
from app.refits.fit.evidence import count_rules, evidence_rows
from app.refits.fit.task import Fitted, PairTable
from app.refits.load import Material
from app.snapshots.queries import insert_boards, insert_matchups, insert_snapshot
from app.webhooks import events


def write_snapshot(
    conn: Connection, refit_id: UUID, material: Material, fitted: Fitted, seconds: dict[str, float]
) -> UUID:
    """Write a snapshot with its boards and its annotators, for nobody to see before the commit; return its id.

    It only adds rows, which nobody waits for: however long it takes, and if the process freezes in the middle of a
    statement, another one can take over and publish. `carry_out` does what must not be done twice.
    """
    rating = fitted.rating
    names = model_names(conn, material.task.model_ids)
    diagnostics: dict[str, Any] = {
        **dataclasses.asdict(rating.diagnostics),
        "warnings": [dataclasses.asdict(notice) for notice in (*rating.diagnostics.warnings, *fitted.notices)],
        "seconds": dict(seconds),
        "votes": account_votes(material, fitted),
        "rules": count_rules(rating),
        "fragility": None if fitted.fragility is None else fragility_rows(fitted.fragility, names),
        "audit": audit_head(conn),
    }
    values = {
        "refit_id": refit_id,
        "policy_version": material.policy.version,
        "settings": dataclasses.asdict(rating.settings),
        "diagnostics": diagnostics,
        "held": material.task.annotator_ids[rating.annotators.held].tolist(),
        "votes_read": material.votes_read,
        "votes_used": round(rating.votes_used),
        "vote_set": material.vote_set,
        "votes_hash": fitted.votes_hash,
        "code_version": __version__,
    }
    alarms = find_alarms(conn, diagnostics)
    diagnostics["alarms"] = [dataclasses.asdict(alarm) for alarm in alarms]
    snapshot = insert_snapshot(conn, values)
    events.announce_alarms(conn, snapshot, alarms)
    insert_boards(conn, snapshot["id"], board_rows(fitted, material.task.model_ids))
    insert_matchups(conn, snapshot["id"], matchup_columns(fitted.pairs, material.task.model_ids))
    crowd = crowd_columns(fitted, material.task.annotator_ids, material.overrides, names)
    if events.wants_standings(conn):
        events.announce_standings(conn, snapshot, list_standing_changes(conn, crowd))
    insert_snapshot_annotators(conn, snapshot["id"], crowd)
    events.announce(conn, "snapshot.published", _notice(snapshot, values))
    return UUID(str(snapshot["id"]))


def carry_out(conn: Connection, snapshot_id: UUID) -> None:
    """Do what a written snapshot asks for, in its transaction, which holds the refit lease by now.

    From here to the commit everybody who would take over waits, for at most as long as the lease still runs: every
    statement is short to send, so that a process that freezes does so between two of them, where the server notices.
    """
    set_standings(conn, snapshot_id)
    # Every board, and with it every vote that came in by the key of somebody just erased, passes here.
    clear_metadata_of_erased(conn)


def _notice(snapshot: RowMapping, values: dict[str, Any]) -> dict[str, Any]:
    shown = {name: values[name] for name in ("policy_version", "votes_read", "votes_used", "votes_hash")}
    published = snapshot["published_at"].isoformat()
    return {"snapshot": str(snapshot["id"]), "number": snapshot["number"], "published_at": published, **shown}


def account_votes(material: Material, fitted: Fitted) -> dict[str, int]:
    """Say of the votes read how many the board counts and, of the rest, why not; these add up to those read.

    pending: of annotators with δ votes or fewer; excluded: of annotators whom the rule or a decision leaves out;
    retracted; over_quota: past the policy's votes per day.
    """
    used, votes = round(fitted.rating.votes_used), fitted.rating.annotators.votes
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


def model_names(conn: Connection, model_ids: NDArray[np.int32]) -> dict[int, str]:
    """Return the models' names by their place in a task."""
    names = read_model_names(conn)
    return {place: names[model_id] for place, model_id in enumerate(model_ids.tolist())}


def board_rows(fitted: Fitted, model_ids: NDArray[np.int32]) -> list[dict[str, Any]]:
    """Return the models of every board as they are stored."""
    return [
        {"method": name.method, "tag": name.tag, **row}
        for name, board in fitted.boards.items()
        for row in model_rows(board, model_ids, spread=name.method != "elo")
    ]


def model_rows(board: ModelEstimates, model_ids: NDArray[np.int32], *, spread: bool = True) -> list[dict[str, Any]]:
    """Return the models that the board counts as they are stored; without a rank spread where there are no intervals.

    An m-elo board on which no interval was asked for has the spread of its ranks themselves.
    """
    counted = board.votes > 0
    columns = {"model_id": model_ids[counted].tolist()}
    for field in dataclasses.fields(board):
        columns[field.name] = _plain(getattr(board, field.name)[counted])
    if not spread:
        columns["best_rank"] = columns["worst_rank"] = [None] * int(counted.sum())
    return [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]


def matchup_columns(pairs: PairTable, model_ids: NDArray[np.int32]) -> dict[str, list[Any]]:
    """Return the pairs of models as they are stored."""
    counts = ("wins_a", "ties", "wins_b")
    return {
        "model_a_id": model_ids[pairs.model_a].tolist(),
        "model_b_id": model_ids[pairs.model_b].tolist(),
        **{name: np.rint(getattr(pairs, name)).astype(np.int64).tolist() for name in counts},
        **{name: _plain(getattr(pairs, name)) for name in ("predicted", "lower", "upper")},
    }


def crowd_columns(
    fitted: Fitted, annotator_ids: NDArray[np.int32], overrides: list[str | None], names: Mapping[int, str]
) -> dict[str, list[Any]]:
    """Return the annotators with votes as they are stored; `names` are the models', by their place in the task."""
    crowd = fitted.rating.annotators
    voted = crowd.votes > 0
    figures = ("ability", "se", "shadow_ability", "shadow_se", "probability_low")
    evidence = [row for row, here in zip(evidence_rows(fitted.rating, names), voted, strict=True) if here]
    return {
        "annotator_id": annotator_ids[voted].tolist(),
        **{name: _plain(getattr(crowd, name)[voted]) for name in figures},
        "votes": crowd.votes[voted].astype(np.int64).tolist(),
        "rule_standing": crowd.standing[voted].tolist(),
        "override": [override for override, here in zip(overrides, voted, strict=True) if here],
        "strength": [row and row["strength"] for row in evidence],
        "evidence": [row and json.dumps(row) for row in evidence],
    }


def fragility_rows(fragility: Fragility, names: Mapping[int, str]) -> list[dict[str, Any]]:
    """Return neighbours on the board and how many removals swap them, None where no number is known to."""
    columns = fragility.upper, fragility.lower, fragility.gap, fragility.votes, fragility.annotators, fragility.tied
    return [
        {
            "above": names[upper],
            "below": names[lower],
            "gap": gap,
            "votes": votes if votes >= 0 else None,
            "annotators": annotators if annotators >= 0 else None,
            "tied": tied,
        }
        for upper, lower, gap, votes, annotators, tied in zip(*(x.tolist() for x in columns), strict=True)
    ]


def _plain(values: NDArray[Any]) -> list[Any]:
    """Return Python values, None where a number is not finite."""
    return [finite(x) if isinstance(x, float) else x for x in values.tolist()]

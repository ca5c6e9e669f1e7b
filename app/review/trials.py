"""A policy tried: what the next refit would publish under it, against what comes without it."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, get_args

from sqlalchemy import Connection

from app.annotators.standings import Columns, list_standing_changes, standing_columns
from app.database.engine import Database
from app.leaderboard.diff.sentences import describe_moves
from app.leaderboard.diff.service import compare_leaderboards
from app.leaderboard.schemas import LeaderboardRow
from app.models.queries import read_archived, read_model_names
from app.policy.schemas import Policy
from app.policy.service import current_policy
from app.rating.errors import RatingError
from app.refits.fit.fit import fit_snapshot
from app.refits.fit.interface import FitInput, FitOutput
from app.refits.fit.process import FitProcess
from app.refits.guard import newly_excluded_share, reason_to_hold
from app.refits.load import load_fit_input
from app.refits.publish import model_names
from app.refits.rows import annotator_columns, model_rows
from app.review.schemas import Change, PolicyPreview, StandingChange
from app.snapshots.queries import list_placed_models, newest_snapshot
from app.snapshots.vote_sets import anything_new_since

MAX_LISTED = 1_000
_NO_METADATA = {"organization": None, "license": None, "link": None}


@dataclass(frozen=True)
class NextRefit:
    """What the next refit would publish under the policy in force; `vote_set` names what it read."""

    vote_set: str
    models: Sequence[Mapping[str, Any]]
    annotators: Columns


def try_policy(
    database: Database, process: FitProcess, settings: Policy, known: NextRefit | None
) -> tuple[PolicyPreview, NextRefit | None]:
    """Fit the votes under other settings, and return what would change; see `PolicyPreviews.preview`.

    `known`: what the next refit would publish, as an earlier call found it; the second value returned is for the next.
    Raises RatingError: the votes on record have no ranking under these settings.
    """
    with database.read() as conn:
        fit_input = load_fit_input(conn, settings)
        newest = newest_snapshot(conn)
        new = newest is None or anything_new_since(conn, newest["vote_set"])
        waits = new and settings != current_policy(conn).settings
    output = process.run(partial(fit_snapshot, fit_input, comparisons=False))
    without = _fit_next(database, process, known) if waits else None
    with database.read() as conn:
        return _compare(conn, settings, fit_input, output, without), without or known


def _fit_next(database: Database, process: FitProcess, known: NextRefit | None) -> NextRefit | None:
    """Return what the next refit would publish; None where it would publish nothing."""
    with database.read() as conn:
        if known is not None and not anything_new_since(conn, known.vote_set):
            return known
        fit_input = load_fit_input(conn)
    try:
        output = process.run(partial(fit_snapshot, fit_input, comparisons=False))
    except RatingError:
        return None  # this refit would fail, and the newest snapshot stay
    with database.read() as conn:
        names = model_names(conn, fit_input.model_ids)
    annotators = standing_columns(annotator_columns(fit_input, output, names))
    return NextRefit(fit_input.vote_set, model_rows(output.models, fit_input.model_ids), annotators)


def _compare(
    conn: Connection, settings: Policy, fit_input: FitInput, output: FitOutput, without: NextRefit | None
) -> PolicyPreview:
    columns = annotator_columns(fit_input, output, model_names(conn, fit_input.model_ids))
    changes = list_standing_changes(conn, columns, None if without is None else without.annotators)
    annotators = [StandingChange.model_validate(dict(row)) for row in changes]
    counts = Counter(one.change for one in annotators)
    snapshot = newest_snapshot(conn)
    if without is None:
        placed = [] if snapshot is None else list_placed_models(conn, snapshot["id"], with_hidden=True)
        shown = (row for row in placed if not row["archived"])  # unreleased ones too: an admin asks
        published = {row["model"]: LeaderboardRow.model_validate(dict(row)) for row in shown}
    else:
        published = _previewed(conn, without.models)
    models = list(compare_leaderboards(published, _previewed(conn, model_rows(output.models, fit_input.model_ids))))
    reason = reason_to_hold(fit_input, output)
    return PolicyPreview(
        policy_version=fit_input.policy_version,
        settings=settings,
        compared_with="next refit" if without else "snapshot" if snapshot else "nothing",
        snapshot=None if snapshot is None else snapshot["number"],
        votes_read=fit_input.votes_read,
        votes_used=round(output.votes_used),
        newly_excluded_share=newly_excluded_share(fit_input, output),
        needs_review=reason is not None,
        review_reason=reason,
        counts={change: counts[change] for change in get_args(Change)},
        annotators=annotators[:MAX_LISTED],
        summary=list(describe_moves(models)),
        models=models,
    )


def _previewed(conn: Connection, models: Sequence[Mapping[str, Any]]) -> dict[str, LeaderboardRow]:
    names, archived = read_model_names(conn), read_archived(conn)
    rows = [
        LeaderboardRow(model=names[row["model_id"]], **row, **_NO_METADATA)
        for row in models
        if row["model_id"] not in archived
    ]
    rows.sort(key=lambda row: (row.component, row.rank, row.model))
    # Some ranks are for order alone: see `placed_columns`.
    ranked = ((row.identified or row.class_rank is not None) and not row.provisional for row in rows)
    shown = (row if known else row.model_copy(update={"rank": None}) for row, known in zip(rows, ranked, strict=True))
    return {row.model: row for row in shown}

from collections import Counter
from functools import partial
from typing import get_args

from sqlalchemy import Connection

from app.annotators.standings import list_standing_changes
from app.database.engine import Database
from app.errors import UnavailableError
from app.leaderboard.diff.sentences import describe_moves
from app.leaderboard.diff.service import compare_leaderboards
from app.leaderboard.schemas import LeaderboardRow
from app.models.queries import read_archived, read_model_names
from app.policy.schemas import Policy
from app.refits.fit.fit import fit_snapshot
from app.refits.fit.interface import FitInput, FitOutput
from app.refits.fit.process import FitResources, OnDemandFits
from app.refits.guard import newly_excluded_share, reason_to_hold
from app.refits.load import load_fit_input
from app.refits.publish import model_names
from app.refits.rows import annotator_columns, model_rows
from app.review.schemas import Change, PolicyPreview, StandingChange
from app.settings import Settings
from app.snapshots.queries import list_placed_models, newest_snapshot
from app.state import ProcessState

MAX_LISTED = 1_000
_NO_METADATA = {"organization": None, "license": None, "link": None}


class PreviewBusyError(UnavailableError):
    """Another preview is being computed."""

    code = "preview-busy"
    title = "Another preview is under way"


class PolicyPreviews:
    """Fits the votes on record under other policies, one at a time, and compares the result with what is published."""

    def __init__(self, database: Database, resources: FitResources | None = None) -> None:
        self.database = database
        self._fits = OnDemandFits(resources, busy=PreviewBusyError)

    def preview(self, settings: Policy) -> PolicyPreview:
        """Fit the votes under other settings, publish nothing, and return what would change.

        No transaction is open while the fit runs.

        Raises
        ------
        PreviewBusyError
            Another preview is under way.
        CannotFitError
            The votes on record have no ranking under these settings.
        FitTooLargeError
            The fit exceeded its limits.
        """
        with self._fits.process() as process:
            with self.database.read() as conn:
                fit_input = load_fit_input(conn, settings)
            output = process.run(partial(fit_snapshot, fit_input, comparisons=False))
        with self.database.read() as conn:
            return _compare(conn, settings, fit_input, output)

    def stop(self) -> None:
        """End a fit under way."""
        self._fits.stop()


def _compare(conn: Connection, settings: Policy, fit_input: FitInput, output: FitOutput) -> PolicyPreview:
    columns = annotator_columns(fit_input, output, model_names(conn, fit_input.model_ids))
    annotators = [StandingChange.model_validate(dict(row)) for row in list_standing_changes(conn, columns)]
    counts = Counter(one.change for one in annotators)
    models = list(compare_leaderboards(_published(conn), _previewed(conn, fit_input, output)))
    reason = reason_to_hold(fit_input, output)
    return PolicyPreview(
        policy_version=fit_input.policy_version,
        settings=settings,
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


def _published(conn: Connection) -> dict[str, LeaderboardRow]:
    snapshot = newest_snapshot(conn)
    if snapshot is None:
        return {}
    return {row["model"]: LeaderboardRow.model_validate(dict(row)) for row in list_placed_models(conn, snapshot["id"])}


def _previewed(conn: Connection, fit_input: FitInput, output: FitOutput) -> dict[str, LeaderboardRow]:
    names, archived = read_model_names(conn), read_archived(conn)
    rows = [
        LeaderboardRow(model=names[row["model_id"]], **row, **_NO_METADATA)
        for row in model_rows(output.models, fit_input.model_ids)
        if row["model_id"] not in archived
    ]
    rows.sort(key=lambda row: (row.component, row.rank, row.model))
    # A provisional model's rank is for order alone: see `list_placed_models`.
    shown = (row.model_copy(update={"rank": None}) if row.provisional else row for row in rows)
    return {row.model: row for row in shown}


def provide_previews(state: ProcessState) -> None:
    """Hold the previews; a fit under way ends with the process."""
    state[PolicyPreviews] = previews = PolicyPreviews(state[Database], FitResources.chosen(state[Settings]))
    state.closing.callback(previews.stop)

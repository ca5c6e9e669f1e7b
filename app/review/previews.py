from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, get_args

from sqlalchemy import Connection, RowMapping

from app.annotators.standings import Columns, list_standing_changes, standing_columns
from app.database.engine import Database
from app.errors import UnavailableError
from app.leaderboard.diff.sentences import describe_moves
from app.leaderboard.diff.service import compare_leaderboards
from app.leaderboard.schemas import LeaderboardRow
from app.models.queries import read_archived, read_model_names
from app.policy.schemas import Policy
from app.policy.service import current_policy
from app.rating.errors import RatingError
from app.refits.fit.fit import fit_snapshot
from app.refits.fit.interface import FitInput, FitOutput
from app.refits.fit.process import FitProcess, FitResources, OnDemandFits
from app.refits.guard import newly_excluded_share, reason_to_hold
from app.refits.load import load_fit_input
from app.refits.publish import model_names
from app.refits.rows import annotator_columns, model_rows
from app.review.schemas import Change, PolicyPreview, StandingChange
from app.settings import Settings
from app.snapshots.queries import list_placed_models, newest_snapshot
from app.snapshots.vote_sets import anything_new_since
from app.state import ProcessState

MAX_LISTED = 1_000
_NO_METADATA = {"organization": None, "license": None, "link": None}


class PreviewBusyError(UnavailableError):
    """Another preview is being computed."""

    code = "preview-busy"
    title = "Another preview is under way"


@dataclass(frozen=True)
class _NextRefit:
    """What the next refit would publish under the policy in force; `vote_set` names what it read."""

    vote_set: str
    models: Sequence[Mapping[str, Any]]
    annotators: Columns


class PolicyPreviews:
    """Fits the votes on record under other policies, one at a time, and compares with what would come without them.

    Where nothing waits for a refit, that is the newest snapshot. Otherwise it is what the next refit would publish
    under the policy in force: this is fitted too, and kept until something new is on record.
    """

    def __init__(self, database: Database, resources: FitResources | None = None) -> None:
        self.database = database
        self._fits = OnDemandFits(resources, busy=PreviewBusyError)
        self._next: _NextRefit | None = None  # used by one preview at a time

    def preview(self, settings: Policy) -> PolicyPreview:
        """Fit the votes under other settings, publish nothing, and return what would change because of them.

        The policy in force itself is compared with the newest snapshot: that is what the next refit would do. No
        transaction is open while a fit runs.

        Raises PreviewBusyError: another preview is under way.
        Raises CannotFitError: the votes on record have no ranking under these settings.
        Raises FitTooLargeError: the fit exceeded its limits.
        """
        with self._fits.process() as process:
            with self.database.read() as conn:
                fit_input = load_fit_input(conn, settings)
                waits = settings != current_policy(conn).settings and _anything_waits(conn)
            output = process.run(partial(fit_snapshot, fit_input, comparisons=False))
            without = self._fit_next(process) if waits else None
        with self.database.read() as conn:
            return _compare(conn, settings, fit_input, output, without)

    def stop(self) -> None:
        """End a fit under way."""
        self._fits.stop()

    def _fit_next(self, process: FitProcess) -> _NextRefit | None:
        """Return what the next refit would publish; None where it would publish nothing."""
        with self.database.read() as conn:
            if self._next is not None and not anything_new_since(conn, self._next.vote_set):
                return self._next
            fit_input = load_fit_input(conn)
        try:
            output = process.run(partial(fit_snapshot, fit_input, comparisons=False))
        except RatingError:
            return None  # this refit would fail, and the newest snapshot stay
        with self.database.read() as conn:
            names = model_names(conn, fit_input.model_ids)
        annotators = standing_columns(annotator_columns(fit_input, output, names))
        self._next = _NextRefit(fit_input.vote_set, model_rows(output.models, fit_input.model_ids), annotators)
        return self._next


def _anything_waits(conn: Connection) -> bool:
    newest = newest_snapshot(conn)
    return newest is None or anything_new_since(conn, newest["vote_set"])


def _compare(
    conn: Connection, settings: Policy, fit_input: FitInput, output: FitOutput, without: _NextRefit | None
) -> PolicyPreview:
    columns = annotator_columns(fit_input, output, model_names(conn, fit_input.model_ids))
    changes = list_standing_changes(conn, columns, None if without is None else without.annotators)
    annotators = [StandingChange.model_validate(dict(row)) for row in changes]
    counts = Counter(one.change for one in annotators)
    snapshot = newest_snapshot(conn)
    published = _published(conn, snapshot) if without is None else _previewed(conn, without.models)
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


def _published(conn: Connection, snapshot: RowMapping | None) -> dict[str, LeaderboardRow]:
    if snapshot is None:
        return {}
    return {row["model"]: LeaderboardRow.model_validate(dict(row)) for row in list_placed_models(conn, snapshot["id"])}


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


def provide_previews(state: ProcessState) -> None:
    """Hold the previews; a fit under way ends with the process."""
    state[PolicyPreviews] = previews = PolicyPreviews(state[Database], FitResources.chosen(state[Settings]))
    state.closing.callback(previews.stop)

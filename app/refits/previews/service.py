import threading
from collections import Counter
from typing import Any, Literal, get_args
from uuid import UUID

from pydantic import BaseModel, ConfigDict, Field
from sqlalchemy import Connection

from app.database.engine import Database
from app.errors import ConflictError, UnavailableError
from app.leaderboard.diff.moves import describe_moves
from app.leaderboard.diff.schemas import ModelChange
from app.leaderboard.diff.service import compare_boards
from app.leaderboard.queries import read_board
from app.leaderboard.service import BoardRow
from app.models.queries import read_archived
from app.policy.service import Policy
from app.rating.errors import RatingError
from app.rating.loop.results import Standing
from app.refits.fit.process import FitLimits, FitProcess
from app.refits.fit.task import Fitted
from app.refits.guard import newly_excluded_share, reason_to_hold
from app.refits.load import Material, read_material
from app.refits.publish import crowd_columns, model_names, model_rows
from app.snapshots.queries import list_standing_changes, newest_snapshot, read_model_names

MAX_LISTED = 1_000
_NO_METADATA = {"organization": None, "license": None, "link": None}

Fate = Literal["flagged", "excluded", "pending", "back_in", "cleared"]
"""What becomes of an annotator whose standing changes."""


class PreviewBusyError(UnavailableError):
    """Another preview is being computed."""

    code = "preview-busy"
    title = "Another preview is under way"


class CannotFitError(ConflictError):
    """The votes on record have no ranking under these settings."""

    code = "cannot-fit"
    title = "The votes cannot be fitted"


class StandingChange(BaseModel):
    """One annotator whose standing would change."""

    model_config = ConfigDict(frozen=True)

    id: UUID
    annotator: str = Field(description="The key the votes carry.")
    before: Standing
    after: Standing
    ability: float | None = Field(description="Under the previewed policy; null outside its fit.")
    shadow_ability: float | None
    votes: int


class PolicyPreview(BaseModel):
    """What a policy would do to the votes on record now; nothing of it has happened."""

    model_config = ConfigDict(frozen=True)

    policy_version: int = Field(description="The policy in force, which this one was compared with.")
    settings: Policy = Field(description="The policy previewed.")
    votes_read: int
    votes_used: int
    newly_excluded_share: float = Field(description="Share of the votes past δ that would be newly excluded.")
    needs_review: bool = Field(description="Whether the refit would wait for an admin.")
    review_reason: str | None = Field(
        description="Why it would: because of that share, or because the crowd is two camps; null where it would not."
    )
    counts: dict[Fate, int] = Field(
        description="How many annotators would change to these, each counted once; back_in: to active or trusted, "
        "from pending or excluded; cleared: from flagged to active."
    )
    annotators: list[StandingChange] = Field(description="Those whose standing would change, most votes first.")
    summary: list[str] = Field(description="How the leaderboard would move, in words.")
    models: list[ModelChange] = Field(description="The leaderboard against the newest snapshot's.")


class PolicyPreviews:
    """Tries policies out on the votes on record, one at a time, in a process of its own."""

    def __init__(self, database: Database, limits: FitLimits | None = None) -> None:
        self._database = database
        self._limits = limits
        self._busy = threading.Lock()
        self._process: FitProcess | None = None

    def preview(self, settings: Policy) -> PolicyPreview:
        """Refit under other settings, publish nothing, and say what would change.

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
        if not self._busy.acquire(blocking=False):
            raise PreviewBusyError("another policy is being tried out; its fit takes as long as a refit")
        try:
            with self._database.read() as conn:
                material = read_material(conn, settings)
            self._process = FitProcess(self._limits)
            try:
                fitted = self._process.fit(material.task, comparisons=False)
            except RatingError as error:
                raise CannotFitError(str(error)) from error
            finally:
                self._process.stop()
            with self._database.read() as conn:
                return _compare(conn, material, fitted)
        finally:
            self._busy.release()

    def stop(self) -> None:
        """End a fit under way."""
        if self._process is not None:
            self._process.stop()


def _compare(conn: Connection, material: Material, fitted: Fitted) -> PolicyPreview:
    settings = material.policy.settings
    names = model_names(conn, material.task.model_ids)
    crowd = crowd_columns(fitted, material.task.annotator_ids, material.overrides, names)
    changes = [StandingChange.model_validate(dict(row)) for row in list_standing_changes(conn, crowd)]
    models = list(compare_boards(_published(conn), _previewed(conn, material, fitted)))
    fates = Counter(_fate(change) for change in changes)
    reason = reason_to_hold(fitted, material)
    return PolicyPreview(
        policy_version=material.policy.version,
        settings=settings,
        votes_read=material.votes_read,
        votes_used=round(fitted.rating.votes_used),
        newly_excluded_share=newly_excluded_share(fitted, material),
        needs_review=reason is not None,
        review_reason=reason,
        counts={fate: fates[fate] for fate in get_args(Fate)},
        annotators=changes[:MAX_LISTED],
        summary=list(describe_moves(models)),
        models=models,
    )


def _fate(change: StandingChange) -> Fate:
    if change.after in ("flagged", "excluded", "pending"):
        return change.after
    return "back_in" if change.before in ("pending", "excluded") else "cleared"


def _published(conn: Connection) -> dict[str, BoardRow]:
    snapshot = newest_snapshot(conn)
    if snapshot is None:
        return {}
    return {row["model"]: BoardRow.model_validate(dict(row)) for row in read_board(conn, snapshot["id"], "am-elo")}


def _previewed(conn: Connection, material: Material, fitted: Fitted) -> dict[str, BoardRow]:
    names, archived = read_model_names(conn), read_archived(conn)
    counted: list[dict[str, Any]] = model_rows(fitted.rating.models, material.task.model_ids)
    rows = [row for row in counted if row["model_id"] not in archived]
    rows.sort(key=lambda row: (row["component"], row["rank"], names[row["model_id"]]))
    return {names[row["model_id"]]: BoardRow(model=names[row["model_id"]], **row, **_NO_METADATA) for row in rows}

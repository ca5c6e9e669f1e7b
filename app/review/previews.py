from typing import TYPE_CHECKING

from app.database.engine import Database
from app.errors import BadInputError, UnavailableError
from app.policy.changes import anchor_error
from app.policy.schemas import Policy
from app.refits.fit.process import FitResources, OnDemandFits
from app.review.schemas import PolicyPreview
from app.settings import Settings
from app.state import ProcessState

if TYPE_CHECKING:
    from app.review.trials import NextRefit


class PreviewBusyError(UnavailableError):
    """Another preview is being computed."""

    code = "preview-busy"
    title = "Another preview is under way"


class PolicyPreviews(OnDemandFits):
    """Fits the votes on record under other policies, one at a time, and compares with what would come without them.

    Where nothing waits for a refit, that is the newest snapshot. Otherwise it is what the next refit would publish
    under the policy in force: this is fitted too, and kept until something new is on record.
    """

    def __init__(self, database: Database, resources: FitResources | None = None) -> None:
        super().__init__(resources, busy=PreviewBusyError)
        self.database = database
        self._next: NextRefit | None = None  # used by one preview at a time

    def preview(self, settings: Policy) -> PolicyPreview:
        """Fit the votes under other settings, publish nothing, and return what would change because of them.

        The policy in force itself is compared with the newest snapshot: that is what the next refit would do. No
        transaction is open while a fit runs.

        Raises BadInputError: the anchor is no model, or one that nothing public names.
        Raises PreviewBusyError: another preview is under way.
        Raises CannotFitError: the votes on record have no ranking under these settings.
        Raises FitTooLargeError: the fit exceeded its limits.
        """
        from app.review.trials import try_policy  # noqa: PLC0415  it loads the mathematics, and servers start without it

        with self.database.read() as conn:
            wrong = anchor_error(conn, settings)
        if wrong is not None:
            raise BadInputError.at("/settings/anchor", wrong)
        with self.process() as process:
            preview, self._next = try_policy(self.database, process, settings, self._next)
        return preview


def provide_previews(state: ProcessState) -> None:
    """Hold the previews; a fit under way ends with the process."""
    state[PolicyPreviews] = previews = PolicyPreviews(state[Database], FitResources.chosen(state[Settings]))
    state.closing.callback(previews.stop)

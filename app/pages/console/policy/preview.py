"""What a policy would do to the votes on record, as a part of the pages that move its thresholds."""

from starlette.requests import Request
from starlette.responses import Response

from app.auth.sessions.schemas import SignedIn
from app.pages.console.policy.fields import changed
from app.pages.console.rendering import render_console
from app.policy.schemas import Policy
from app.policy.service import past_policy
from app.review.previews import PolicyPreviews

WORDS = {
    "flagged": "newly flagged",
    "excluded": "newly excluded",
    "pending": "with too few votes now",
    "back_in": "back in the fit",
    "cleared": "cleared of a flag",
}
_LISTED = 50


def show_preview(request: Request, visitor: SignedIn, previews: PolicyPreviews, settings: Policy) -> Response:
    """Fit the votes under these settings and return the page that says what would change."""
    preview = previews.preview(settings)
    with previews.database.read() as conn:
        before = past_policy(conn, preview.policy_version).settings
    moves = [one for one in preview.models if one.rank_before != one.rank_after or one.beyond_interval]
    return render_console(
        request,
        visitor,
        "console/policy/preview.html",
        preview=preview,
        changes=changed(before, settings),
        words=WORDS,
        annotators=preview.annotators[:_LISTED],
        more=sum(preview.counts.values()) - len(preview.annotators[:_LISTED]),
        moves=moves,
    )

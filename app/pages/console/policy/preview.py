"""What a policy would do to the votes on record, as the pages that move its thresholds show it."""

from typing import Any

from app.pages.console.policy.fields import changed
from app.policy.schemas import Policy
from app.policy.service import past_policy
from app.review.previews import PolicyPreviews

TEMPLATE = "console/policy/preview.html"
WORDS = {
    "flagged": "newly flagged",
    "excluded": "newly excluded",
    "pending": "with too few votes now",
    "back_in": "back in the fit",
    "cleared": "cleared of a flag",
}
_LISTED = 50


def preview_policy(previews: PolicyPreviews, settings: Policy) -> dict[str, Any]:
    """Fit the votes under these settings and return what the template `TEMPLATE` shows of the result."""
    preview = previews.preview(settings)
    with previews.database.read() as conn:
        before = past_policy(conn, preview.policy_version).settings
    annotators = preview.annotators[:_LISTED]
    return {
        "preview": preview,
        "changes": changed(before, settings),
        "words": WORDS,
        "annotators": annotators,
        "more": sum(preview.counts.values()) - len(annotators),
        "moves": [one for one in preview.models if one.rank_before != one.rank_after or one.beyond_interval],
    }

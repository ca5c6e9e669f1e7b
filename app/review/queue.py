"""The review queue: open flags with their reasons, the strongest reason first."""

from sqlalchemy import Connection

from app.review.evidence.reasons import describe_findings, describe_reasons
from app.review.evidence.schemas import Findings
from app.review.queries import list_by_reason, read_evidence
from app.review.schemas import FoundReview, Reason, Review
from app.snapshots.queries import newest_snapshot
from app.snapshots.service import find_snapshot


def list_reviews(
    conn: Connection, *, limit: int, after: tuple[float, int] | None = None
) -> list[tuple[FoundReview, Review]]:
    """Return open flags, the strongest reason first; of equal reasons the older annotator first."""
    rows = list_by_reason(conn, standing="flagged", limit=limit, after=after)
    found = [FoundReview.model_validate(dict(row)) for row in rows]
    newest = newest_snapshot(conn)
    if newest is None or not found:
        return []
    evidence = read_evidence(conn, newest["id"], [one.annotator_id for one in found])
    threshold = find_snapshot(conn).settings.get("min_ability")
    return [(one, _review(one, describe_findings(evidence.get(one.annotator_id)), threshold)) for one in found]


def _review(found: FoundReview, findings: Findings, threshold: float | None) -> Review:
    reason = Reason(
        strength=found.reason_strength,
        rule=findings.rule,
        held=findings.held,
        words=describe_reasons(found, findings, threshold),
    )
    return Review(**found.public().model_dump(), evidence=reason)

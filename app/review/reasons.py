"""The review queue: open flags with their reasons, the strongest reason first."""

import math

from pydantic import BaseModel, ConfigDict, Field
from sqlalchemy import Connection

from app.annotators.schemas import Annotator, FoundAnnotator
from app.review.evidence.findings import Laboratory, tell, worth_telling
from app.review.queries import MOST_DIGITS, list_by_reason, read_evidence
from app.snapshots.queries import newest_snapshot
from app.snapshots.service import find_snapshot

_LOW_ENOUGH = 0.5  # of the probability that the ability is at or below ε, to speak of it


class Reason(BaseModel):
    """Why an annotator is in the queue, from what the newest refit stored."""

    model_config = ConfigDict(frozen=True)

    strength: float = Field(
        description="Logarithm to base 10: of the strongest test's likelihood ratio, or of the odds that the ability "
        "is at or below ε, whichever is larger; 0 for neither."
    )
    rule: str | None = Field(description="What flags: `ability`, or a test's name; null where nothing is noted.")
    held: bool = Field(description="Whether the flag stands only because it stood before: within the rule's margin.")
    words: list[str] = Field(description="The reasons in words, the strongest first.")


class Review(Annotator):
    """An open flag, with its reason."""

    evidence: Reason


class FoundReview(FoundAnnotator):
    """An open flag and where it stands in the queue."""

    reason_strength: float

    @property
    def position(self) -> tuple[float, int]:
        """Where the flag stands, the strongest reason first."""
        return self.reason_strength, self.annotator_id


def list_reviews(
    conn: Connection, *, limit: int, after: tuple[float, int] | None = None
) -> list[tuple[FoundReview, Review]]:
    """Return open flags, the strongest reason first; of equally strong ones the annotator who came first."""
    rows = list_by_reason(conn, standing="flagged", limit=limit, after=after)
    found = [FoundReview.model_validate(dict(row)) for row in rows]
    newest = newest_snapshot(conn)
    if newest is None or not found:
        return []
    noted = read_evidence(conn, newest["id"], [one.annotator_id for one in found])
    threshold = find_snapshot(conn).settings.get("min_ability")
    return [(one, _review(one, tell(noted.get(one.annotator_id)), threshold)) for one in found]


def _review(found: FoundReview, laboratory: Laboratory, threshold: float | None) -> Review:
    reason = Reason(
        strength=found.reason_strength,
        rule=laboratory.rule,
        held=laboratory.held,
        words=reasons_in_words(found, laboratory, threshold),
    )
    return Review(**found.public().model_dump(), evidence=reason)


def strength_of(laboratory: Laboratory, probability_low: float | None) -> float:
    """Return the strength of the reason, as the queue is ordered by it."""
    ratios = [] if laboratory.strength is None else [laboratory.strength]
    if probability_low is not None:
        least = 10.0**-MOST_DIGITS
        ratios.append(math.log10(max(probability_low, least) / max(1.0 - probability_low, least)))
    return max([0.0, *ratios])


def reasons_in_words(found: Annotator, laboratory: Laboratory, threshold: float | None) -> list[str]:
    """Say what the refit holds against the annotator, the strongest first."""
    words = [finding.words for finding in worth_telling(laboratory)]
    if laboratory.held:
        words.append("The flag stands because it stood before: the figures are within the rule's margin.")
    low = found.probability_low
    if low is None or threshold is None or (low < _LOW_ENOUGH and laboratory.rule != "ability"):
        return words
    about_ability = _ability_in_words(found, low, threshold)
    first = laboratory.rule in (None, "ability")
    return [about_ability, *words] if first else [*words, about_ability]


def _ability_in_words(found: Annotator, low: float, threshold: float) -> str:
    inside = found.ability is not None
    ability, se = (found.ability, found.se) if inside else (found.shadow_ability, found.shadow_se)
    kind = "ability" if inside else "shadow ability"
    return f"The {kind} is {ability:.2f} (standard error {se:.2f}); it is at or below {threshold:g} with {share(low)}."


def share(probability: float) -> str:
    """Say a probability, without claiming certainty."""
    if probability > 0.999:  # noqa: PLR2004
        return "more than 99.9 % probability"
    return f"{100 * probability:.1f} % probability" if probability >= 0.001 else "less than 0.1 % probability"  # noqa: PLR2004

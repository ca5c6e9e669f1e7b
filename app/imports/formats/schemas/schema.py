"""The description of a format: its columns, its outcome words, and their conversion."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Literal

Clock = Literal["iso", "seconds", "either"]

Input = Literal[
    "annotator", "model_a", "model_b", "winner", "battle_id", "voted_at", "tags", "metadata", "propensity", "vote_id",
    "won_a", "won_b", "tied", "equal", "siblings", "shown_a", "shown_b", "first_score", "second_score", "second_number",
    "preference", "annotator_kind", "question", "turn", "cost", "label", "features", "criterion", "category", "ranking",
    "model", "grade", "rank", "weight", "asked",
]  # fmt: skip
"""The inputs that are read from a record: the fields of a vote, and other columns from which formats derive them."""

OF_JUDGES: tuple[Input, ...] = ("question", "turn", "cost", "category")
"""Read only where judges are compared: what was asked, of which kind that is, and what the verdict cost."""

POOLED_ANNOTATOR = "pooled"

A, B, TIE, BOTH_BAD = range(4)
"""Outcome codes as stored with a vote: model_a won, model_b won, tie, tie (bothbad)."""

OUTCOME_WORDS: Mapping[str, int] = {
    "model_a": A,
    "model_b": B,
    "tie": TIE,
    "both_good": TIE,
    "both_equal": TIE,
    "tie (bothbad)": BOTH_BAD,
    "tie (both bad)": BOTH_BAD,
    "bothbad": BOTH_BAD,
    "both_bad": BOTH_BAD,
    "both bad": BOTH_BAD,
}

FIRST, SECOND = "model_a's name", "model_b's name"
"""Outcome words for a winner that is given by its name."""

SAY_MORE: tuple[str, ...] = ("both_good", "both_equal", "A>>B", "B<<A", "B>>A", "A<<B")
"""Words that say more than their outcome code; they are kept as `raw_winner` in the vote's metadata."""


@dataclass(frozen=True)
class Schema:
    """One format of vote files. The column with the annotator is detected separately, for all formats alike.

    Attributes
    ----------
    name : of the format.
    required : input → the file's column (`data.rating` and `models.0` reach into objects and lists); a file of this
        format has all of them.
    optional : input → the file's column, where the file has it.
    marks : columns that are not read, but distinguish the format from others.
    kind : the only kind of file with this format; None for any.
    clock : how `voted_at` is written: ISO 8601 (without an offset: UTC), seconds since 1970, or either.
    winners : the file's outcome words → outcome codes.
    no_vote : words of records without a vote; the empty text is a missing word.
    annotator : who voted, where no column says it; None: there must be one.
    derive : name of the function in `derive` that makes the fields of a vote from the inputs; it may make several votes
        of one record, whose number is in the column `row`.
    """

    name: str
    required: Mapping[Input, str]
    optional: Mapping[Input, str] = field(default_factory=dict)
    marks: frozenset[str] = frozenset()
    kind: str | None = None
    clock: Clock = "iso"
    winners: Mapping[str, int] = field(default_factory=lambda: OUTCOME_WORDS)
    no_vote: frozenset[str] = frozenset()
    annotator: str | None = None
    derive: str | None = None

    def missing(self, has: Callable[[str], bool]) -> list[str]:
        """Return the required columns that the file does not have."""
        return [column for column in (*self.required.values(), *sorted(self.marks)) if not has(column)]

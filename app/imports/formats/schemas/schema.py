"""The description of a format: its columns, its outcome words, and their conversion."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Literal

Clock = Literal["iso", "seconds", "either"]

Input = Literal[
    "annotator", "model_a", "model_b", "winner", "battle_id", "voted_at", "tags", "metadata", "propensity", "vote_id",
    "equal", "shown_a", "shown_b", "first_score", "second_score", "swapped", "annotator_kind", "question", "turn",
    "cost", "label", "features", "criterion", "category", "ranking", "model", "grade", "rank", "passed", "weight",
    "wins_a", "wins_b", "ties", "best", "worst", "option", "asked",
]  # fmt: skip
"""The inputs that are read from a record: the fields of a vote, and other columns from which formats derive them."""

OF_JUDGES: tuple[Input, ...] = ("question", "turn", "cost", "category")
"""Read only where judges are compared: what was asked, of which kind that is, and what the verdict cost."""

POOLED_ANNOTATOR = "pooled"

A, B, TIE, BOTH_BAD = range(4)
"""Outcome codes as stored with a vote: model_a won, model_b won, tie, tie (bothbad)."""


@dataclass(frozen=True)
class Scale:
    """Numbers for verdicts: `left` is a win of model_a, `right` one of model_b, and the middle between them a tie.

    A number between two ends that are at most 1 apart is a probability; on a wider scale it is a strength.
    """

    left: float
    right: float


@dataclass(frozen=True)
class Schema:
    """One format of vote files. The column with the annotator is detected separately, for all formats alike.

    Attributes
    ----------
    name : of the format.
    required : input → the file's column (`data.rating` and `models.0` reach into objects and lists, `completions[]`
        takes every item of a list, `scores.*` every value of an object); a file of this format has all of them.
    optional : input → the file's column, where the file has it.
    rows : the inputs of each row that a record makes, over those above; `=owl` is the text owl, not a column.
    marks : columns that are not read, but distinguish the format from others.
    kind : the only kind of file with this format; None for any.
    clock : how `voted_at` is written: ISO 8601 (without an offset: UTC), seconds since 1970, or either.
    winners : the file's outcome words, in lower case, beside those that every format knows → outcome codes.
    scale : what numbers mean as verdicts; None: to be found in the column.
    no_vote : words of records without a vote, as is a missing word.
    annotator : who voted, where no column says it; None: there must be one.
    derive : name of the function in `derive` that makes the fields of a vote from the inputs; it may make several votes
        of one record, whose number is in the column `row`.
    """

    name: str
    required: Mapping[Input, str]
    optional: Mapping[Input, str] = field(default_factory=dict)
    rows: tuple[Mapping[Input, str], ...] = ()
    marks: frozenset[str] = frozenset()
    kind: str | None = None
    clock: Clock = "iso"
    winners: Mapping[str, int] = field(default_factory=dict)
    scale: Scale | None = None
    no_vote: frozenset[str] = frozenset()
    annotator: str | None = None
    derive: str | None = None

    @property
    def inputs(self) -> frozenset[Input]:
        """The inputs that every file of this format has."""
        return frozenset(self.required).union(*self.rows)

    @property
    def graded(self) -> bool:
        """Whether a row is a grade or a rank of one model, and several make a ranking."""
        return not self.inputs.isdisjoint(("grade", "rank", "best"))

    @property
    def by_record(self) -> bool:
        """Whether the grades of a record are those of one item."""
        paths = (self.required.get(name, "") for name in ("model", "grade", "rank"))
        return bool(self.rows) or any(ITEMS in path or KEYS in path for path in paths)

    def missing(self, has: Callable[[str], bool]) -> list[str]:
        """Return the required columns that the file does not have."""
        return [column for column in (*self.required.values(), *sorted(self.marks)) if not has(column)]


ITEMS, KEYS = "[]", ".*"
"""What stands in a path for every item of a list, and for every value of an object."""

from datetime import datetime
from typing import Literal
from uuid import UUID

from pydantic import Field

from app.annotators.schemas import PastEvidence
from app.review.me.schemas import OwnVote
from app.schemas import FrozenModel
from app.votes.rules import Winner

MOST_VOTES = 100_000
"""Only this many votes of an annotator, the last ones, are compared with the leaderboard."""


class JudgedAbility(FrozenModel):
    """The ability by which the rule judges."""

    kind: Literal["ability", "shadow"]
    value: float
    lower: float | None = Field(description="Lower end of its 95 % interval.")
    upper: float | None = Field(description="Upper end of it.")


class Finding(FrozenModel):
    """The result of one test: how much likelier a bad behaviour makes the votes than an honest annotator does."""

    test: str
    log10_ratio: float = Field(description="Logarithm to base 10 of 100 times the odds against honesty.")
    about: str | None = Field(description="The model or the side that the test is about.")
    explains: float | None = Field(
        None,
        description="Share of the votes that are as the behaviour has them, such as those for the model. Null for "
        "snapshots from before.",
    )
    words: str


class VoteWeights(FrozenModel):
    """How the votes that count weigh in the scores; `full`, `pushed` and `many` are all of them, pairs of rankings."""

    full: float = Field(description="Votes that count in full.")
    pushed: float = Field(description="Those that weigh less because they seem to push a model, or to bury it.")
    pushed_worth: float = Field(description="As how many votes they count.")
    many: float = Field(description="Those that weigh less because a model has too many from this annotator.")
    many_worth: float = Field(description="As how many votes they count.")


class Findings(FrozenModel):
    """What the newest refit found against the annotator."""

    rule: str | None = Field(description="What flags or excludes: `ability`, or a test's name; null for nothing.")
    held: bool = Field(description="Whether the flag only remains from before: the figures are in the rule's margin.")
    strength: float | None = Field(description="`log10_ratio` of the strongest test.")
    judges: float | None = Field(
        description="Effective number of judges behind the scores of the annotator's models, where it is below 20: "
        "then a low ability does not flag. Null where it is not."
    )
    findings: list[Finding] = Field(description="The strongest first; only tests that speak against the annotator.")
    weights: VoteWeights | None = Field(None, description="Where votes weigh less; null where all count in full.")


class Comparison(FrozenModel):
    """What was observed, compared with what an ability makes likely."""

    of: Literal["own", "typical"] = Field(description="The annotator's own ability, or the mean ability 1.")
    accuracy: float | None = Field(description="Expected share of decided votes that follow the leaderboard.")
    accuracy_z: float | None = Field(description="Observed minus expected, in standard deviations of chance.")
    log_loss: float | None = Field(description="Expected −log of the probability of a decided vote, on average.")
    observed_log_loss: float | None = Field(description="Observed −log of that probability, on average.")
    log_loss_z: float | None = Field(description="Observed minus expected, in standard deviations of chance.")


class Agreement(FrozenModel):
    """How the decided votes (no ties) between models with a score follow the leaderboard."""

    votes: int = Field(description="Decided votes between models with a score.")
    accuracy: float | None = Field(description="Share of them for the model with the higher score.")
    expected: list[Comparison]


class Sides(FrozenModel):
    """Whether the annotator prefers one side of the page."""

    votes: int = Field(description="Decided votes between models with a score.")
    left: float | None = Field(description="Share of them that the left model won.")
    expected_left: float | None = Field(description="The share that the scores of the models shown make likely.")
    p_value: float | None = Field(description="Probability of a share as far from the expected one, by chance.")


class Ties(FrozenModel):
    """How often the annotator calls a tie."""

    votes: int = Field(description="Votes between models with a score, ties included.")
    share: float | None
    expected: float | None = Field(description="The share among all annotators, on the same models.")
    z: float | None = Field(description="Observed minus expected, in standard deviations of chance.")


class ModelFigures(FrozenModel):
    """The annotator's decided votes on one model."""

    model: str
    votes: int = Field(description="Votes on the model, ties included.")
    decided: int
    wins: int = Field(description="Decided votes for it.")
    expected_wins: float = Field(description="What the scores and the annotator's ability make likely.")
    residual: float | None = Field(
        description="Wins minus expected wins, in standard deviations of chance; beyond ±3 is unusual."
    )


class BusiestHour(FrozenModel):
    """The sixty minutes with the most votes."""

    since: datetime
    votes: int


class Burst(FrozenModel):
    """Votes that followed each other within 5 seconds."""

    since: datetime
    votes: int
    seconds: float


class Gap(FrozenModel):
    """How many votes came so long after the one before."""

    seconds: float | None = Field(description="At most so long, and longer than in the row before; null: any longer.")
    votes: int


class Pace(FrozenModel):
    """How fast the votes came, by `voted_at` where given, otherwise by the arrival of live votes."""

    votes: int = Field(description="Votes whose time is known; unknown is that of votes sent together, undated.")
    median_seconds: float | None = Field(None, description="Between one vote and the next.")
    hasty: float | None = Field(None, description="Share of votes within 5 seconds of the one before.")
    typical_hasty: float | None = Field(
        None, description="The same share of other annotators, the median; null where too few have timed votes."
    )
    hasty_z: float | None = Field(None, description="`hasty` minus `typical_hasty`, in standard deviations.")
    hurried: bool = Field(
        False,
        description="Whether the haste stands out: against other annotators or, where too few are known, by itself, "
        "unless most votes have the timestamp of another.",
    )
    gaps: list[Gap] = Field(description="How long after the one before votes came.")
    busiest_hour: BusiestHour | None = None
    longest_burst: Burst | None = Field(None, description="Null where no vote came within 5 seconds of the one before.")


class Drift(FrozenModel):
    """Whether the ability changed: the likeliest change, over the decided votes between models with a score."""

    votes: int = Field(description="The votes that are compared, in the order in which they were cast.")
    log10_ratio: float = Field(
        description="Logarithm to base 10 of how much likelier a change at some vote makes the votes than one ability."
    )
    votes_before: int = Field(description="Votes before the likeliest change.")
    changed_at: datetime | None = Field(description="When the first vote after it was cast; null where unknown.")
    before: float = Field(description="Ability before it, by these votes alone; 1 is the mean.")
    before_sd: float = Field(description="Its standard deviation, given the votes.")
    after: float = Field(description="Ability after it.")
    after_sd: float


class Chance(FrozenModel):
    """How likely a verdict was, by the newest leaderboard, which the annotator's votes helped to make."""

    probability: float = Field(description="That this annotator, with the estimated ability, gives this verdict.")
    typical_probability: float = Field(description="That a typical annotator, with ability 1, gives it.")
    surprising: bool = Field(description="Whether a typical annotator gives it in fewer than one of ten cases.")


class ListedVote(OwnVote):
    """One vote of an annotator, without its metadata, under the models' current names."""

    chance: Chance | None = Field(
        description="Null where a model has no score on the newest leaderboard, by another criterion, and of a ranking."
    )


class SurprisingVote(FrozenModel):
    """A vote that a typical annotator would hardly give."""

    id: UUID
    model_a: str
    model_b: str
    winner: Winner
    voted_at: datetime | None = Field(description="As the sender said; null where unknown.")
    chance: Chance


class Case(FrozenModel):
    """The evidence for and against an annotator, compared with the newest leaderboard."""

    snapshot: int = Field(description="Number of the snapshot whose leaderboard the votes are compared with.")
    summary: list[str] = Field(description="What stands out, in sentences; empty where nothing does.")
    strength: float = Field(
        description="Strength of the reason, by which the review queue is ordered: logarithm to base 10 of odds."
    )
    laboratory: Findings = Field(description="Results of the tests of the newest refit.")
    ability_used: float = Field(description="Ability, or shadow ability, behind `own` figures; 1 if neither is known.")
    votes_considered: int = Field(description=f"Votes that are not retracted, at most the last {MOST_VOTES:,}.")
    agreement: Agreement
    surprising: list[SurprisingVote] = Field(description="The ten that a typical annotator is least likely to give.")
    sides: Sides
    ties: Ties
    pace: Pace
    drift: Drift | None = Field(description="Null for fewer than two decided votes between models with a score.")
    models: list[ModelFigures] = Field(description="The furthest from the expected wins first.")
    history: list[PastEvidence] = Field(description="Ability and standing in the last 20 snapshots, newest first.")

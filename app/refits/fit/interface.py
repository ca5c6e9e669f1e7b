"""What goes into the fit of a refit, and what comes out. Both cross a process boundary."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from app.policy.schemas import Policy
from app.rating.arrays import Floats, Indices, Mask
from app.rating.errors import RatingNotice
from app.rating.sampling.pair_weights import PairWeights
from app.rating.settings import TASTE_TESTS, LoopSettings
from app.rating.types.evidence import Evidence, Weigher
from app.rating.uncertainty.results import AnnotatorEstimates, Diagnostics, ModelEstimates, Start
from app.rating.verdict.calibration import CalibrationBin
from app.rating.verdict.counted import CountedVotes
from app.rating.verdict.order import Confidence
from app.rating.verdict.rating import Rating
from app.rating.verdict.round import fit_round_again, run_round
from app.rating.verdict.style import Styled
from app.rating.votes.cells import Cells, aggregate
from app.rating.votes.features import SidedCells
from app.rating.votes.indexed import IndexedVotes
from app.rating.votes.prompts import PromptCells

Ids = NDArray[np.int32]
Whose = Literal["people", "judges", "all"]


@dataclass(frozen=True)
class FitInput:
    """The votes that count, and what a refit knows of annotators and policy, all as one transaction saw it.

    Attributes
    ----------
    annotator, model_a, model_b : int32 arrays, shape (n_votes,); positions in `annotator_ids` and `model_ids`. model_a
        is the left side
    outcome : float64 array, shape (n_votes,); W of each vote
    annotator_ids, model_ids : int32 arrays, in order; every annotator and model on record
    overrides : standings that decisions set, shape (n_annotators,); "" where the rule holds
    judges : annotators who are judges, shape (n_annotators,); empty where none is
    measures : float64 array, shape (n_votes, 2 n), of both answers by each of the policy's style_features but the side;
        NaN where not given. None without
    rule_standings : standings by the rule after the last published refit, shape (n_annotators,)
    settings : of the fit of the main leaderboard
    policy, policy_version : in force then
    vote_set : names the votes exactly, so that they can be read again
    retracted, unsealed, over_quota, same_model : how many votes on record are left out, by reason
    sealed : sealed votes among those that count, by annotator, shape (n_annotators,)
    dimensions : the tags of the categories of each
    tags : those of all dimensions
    tag_bits : int32 array, shape (n_votes,); bit i is set where the vote has the i-th tag. None without tags
    unoffered : ids of the models that battles no longer show
    criteria : the votes by each criterion but overall, none of which is among the votes here
    battles : int64 array, shape (n_votes,); see `VoteArrays.battle`. None where no judge is on record
    share : see `IndexedVotes.share`
    prompts : int64 array, shape (n_votes,); number of what the models were asked, −1 where it is not known. None where
        no vote says it
    """

    annotator: Ids
    model_a: Ids
    model_b: Ids
    outcome: Floats
    annotator_ids: Ids
    model_ids: Ids
    overrides: NDArray[np.str_]
    rule_standings: NDArray[np.str_]
    settings: LoopSettings
    policy: Policy
    policy_version: int
    vote_set: str
    retracted: int = 0
    unsealed: int = 0
    over_quota: int = 0
    same_model: int = 0
    sealed: NDArray[np.int64] = field(default_factory=lambda: np.zeros(0, dtype=np.int64))
    dimensions: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    tags: tuple[str, ...] = ()
    tag_bits: NDArray[np.int32] | None = None
    unoffered: Ids = field(default_factory=lambda: np.empty(0, dtype=np.int32))
    judges: Mask = field(default_factory=lambda: np.zeros(0, dtype=np.bool_))
    criteria: "Mapping[str, FitInput]" = field(default_factory=dict)
    measures: Floats | None = None
    battles: NDArray[np.int64] | None = None
    share: Floats | None = None
    prompts: Indices | None = None

    def cells(self, votes: Mask | None = None) -> Cells:
        """Return the votes as cells: all of them, or those that a mask of shape (n_votes,) picks."""
        return self._all_cells if votes is None else self._aggregate(votes)

    @cached_property
    def _all_cells(self) -> Cells:
        return self._aggregate()

    def _aggregate(self, votes: Mask | None = None) -> Cells:
        return aggregate(*self._columns(votes), n_annotators=len(self.annotator_ids), n_models=len(self.model_ids))

    def indexed(self, votes: Mask) -> IndexedVotes:
        """Return the votes that a mask of shape (n_votes,) picks, one by one; names are the ids."""
        annotators, models = ([str(number) for number in ids] for ids in (self.annotator_ids, self.model_ids))
        share = None if self.share is None else self.share[votes]
        prompt = None if self.prompts is None else self.prompts[votes]
        return IndexedVotes(annotators, models, *self._columns(votes), share=share, prompt=prompt)

    def by_prompt(self, votes: Mask | None = None) -> PromptCells | None:
        """Return the votes with a prompt as cells, all or those of a mask; None where none has one."""
        if self.prompts is None:
            return None
        prompt = self.prompts if votes is None else self.prompts[votes]
        return PromptCells.of_votes(
            prompt, *self._columns(votes), n_annotators=len(self.annotator_ids), n_models=len(self.model_ids)
        )

    def _columns(self, votes: Mask | None = None) -> tuple[Ids, Ids, Ids, Floats]:
        picked = slice(None) if votes is None else votes
        return self.annotator[picked], self.model_a[picked], self.model_b[picked], self.outcome[picked]

    @cached_property
    def votes_by_annotator(self) -> Floats | None:
        """The votes of each annotator, a ranking counted once, shape (n_annotators,); None without rankings."""
        every = np.ones(len(self.outcome), dtype=np.bool_)
        return None if self.share is None else self.indexed(every).rankings_by_annotator()

    def find_category(self, tags: Sequence[str]) -> Indices:
        """Return the place among these tags of the first that each vote has, their number if none, shape (n_votes,)."""
        place = np.full(len(self.outcome), len(tags))
        for number, tag in reversed(list(enumerate(tags))):
            if self.tag_bits is not None:
                place[((self.tag_bits >> self.tags.index(tag)) & 1).astype(np.bool_)] = number
        return place

    def weigher(self, tests: tuple[str, ...]) -> Weigher:
        """Return what weighs the evidence in all votes by these tests."""
        votes = SidedCells.of_votes(
            *self._columns(), n_annotators=len(self.annotator_ids), n_models=len(self.model_ids)
        )
        return Weigher(votes, tests)

    def run_round(
        self, settings: LoopSettings, overrides: NDArray[np.str_] | None = None, let_in: Indices | None = None
    ) -> Rating:
        """Run the round of a refit, with these overrides in place of the input's.

        A refit, the preview of a decision and the impact of an annotator are this one function.
        `let_in`: annotators who count with however few votes.
        Raises RatingError.
        """
        task, cells, votes = self, self.cells(), self.votes_by_annotator
        if overrides is not None:
            task = replace(self, overrides=overrides)
        if let_in is not None:
            votes = np.array(cells.votes_by_annotator() if votes is None else votes)
            votes[let_in] = np.where(votes[let_in] > 0.0, votes[let_in] + settings.min_votes, 0.0)
        return run_round(
            cells,
            settings,
            keep_always=task.keep_always,
            keep_never=task.keep_never,
            was_low=task.was_low,
            was_excluded=task.was_excluded,
            weigher=task.weigher(settings.evidence_tests),
            votes=votes,
            prompts=None if settings.interval == "none" else task.by_prompt(),
        )

    def fit_again(self, counted: Mask, start: Start | None = None, votes: Mask | None = None) -> Rating:
        """Fit the main leaderboard again without its rules and intervals.

        `counted`: annotators whose votes count, shape (n_annotators,).
        `votes`: which of their votes count, shape (n_votes,); None for all.
        Raises RatingError.
        """
        on_models = tuple(test for test in self.settings.evidence_tests if test in TASTE_TESTS)
        picked = counted[self.annotator] if votes is None else counted[self.annotator] & votes
        settings, weigher = replace(self.settings, interval="none"), self.weigher(on_models)
        return fit_round_again(
            self.cells(picked), settings, spared=self.keep_always, weigher=weigher, start=start,
            prompts=self.by_prompt(picked),
        )  # fmt: skip

    @property
    def unreleased(self) -> Ids:
        """Ids of the models that are unreleased, and so have no rank."""
        return self.model_ids[list(self.settings.unranked)]

    @property
    def votes_read(self) -> int:
        """How many votes were on record, counted or not."""
        return len(self.outcome) + self.retracted + self.unsealed + self.over_quota + self.same_model

    @property
    def keep_always(self) -> Mask:
        """Annotators that the rule cannot flag or exclude, shape (n_annotators,)."""
        return np.isin(self.overrides, ("active", "trusted"))

    @property
    def keep_never(self) -> Mask:
        """Annotators excluded by a decision, or not of the main leaderboard's kind, shape (n_annotators,)."""
        return self.left_out(self.whose)

    def left_out(self, whose: Whose) -> Mask:
        """Return who does not count on the leaderboard of these: excluded by a decision, or others."""
        excluded: Mask = self.overrides == "excluded"
        if whose == "all" or not self.mixed:
            return excluded
        out: Mask = excluded | (self.judges == (whose == "people"))
        return out

    @cached_property
    def mixed(self) -> bool:
        """Whether people and judges both vote."""
        if not len(self.judges):
            return False
        by_judges = self.judges[self.annotator]
        return bool(by_judges.any() and not by_judges.all())

    @cached_property
    def whose(self) -> Whose:
        """Whose votes make the main leaderboard."""
        wanted = self.policy.leaderboard_of
        if not self.mixed or wanted == "all":
            return "all" if self.mixed else self._only_kind
        votes = self.votes_by_annotator
        if votes is None:
            votes = np.bincount(self.annotator, minlength=len(self.annotator_ids)).astype(np.float64)
        enough = (votes > self.settings.min_votes) & ~self.left_out(wanted)
        return wanted if int(enough.sum()) >= self.policy.min_board_annotators else "all"

    @property
    def _only_kind(self) -> Whose:
        return "judges" if len(self.judges) and len(self.annotator) and self.judges[self.annotator].all() else "people"

    @property
    def was_low(self) -> Mask:
        """Annotators that the rule had flagged or excluded before, shape (n_annotators,)."""
        return np.isin(self.rule_standings, ("flagged", "excluded"))

    @property
    def was_excluded(self) -> Mask:
        """Annotators that the rule had excluded before, shape (n_annotators,)."""
        excluded: Mask = self.rule_standings == "excluded"
        return excluded


class LeaderboardName(NamedTuple):
    """One of a snapshot's leaderboards: its method, and the tag of its votes ("" for all votes)."""

    method: str
    tag: str = ""


@dataclass(frozen=True)
class MatchupTable:
    """Counted votes between pairs of models, and what the fit predicts of them; arrays of shape (n_pairs,).

    Attributes
    ----------
    model_a, model_b : indices, model_a < model_b
    wins_a, ties, wins_b : votes
    predicted, lower, upper : probability that model_a beats model_b for the mean annotator, with its interval; NaN
        where the votes do not determine it. Where one of the two has no score, the ends are one-sided bounds
    """

    model_a: Indices
    model_b: Indices
    wins_a: Floats
    ties: Floats
    wins_b: Floats
    predicted: Floats
    lower: Floats
    upper: Floats


class StandingOut(NamedTuple):
    """A model whose score in a category differs from that of all votes beyond its error.

    Attributes
    ----------
    model : index
    difference, lower, upper : Elo points; the intervals of all models and categories of a dimension hold together
    """

    model: int
    tag: str
    difference: float
    lower: float
    upper: float


@dataclass(frozen=True)
class DimensionResult:
    """How the categories of a dimension differ.

    Attributes
    ----------
    votes : counted votes of each tag; "" for those of no category
    spread : standard deviation of a model's scores over the categories, Elo points; None where all votes are of one
    outliers : what stands out, the largest difference first
    """

    votes: dict[str, int]
    spread: float | None
    outliers: tuple[StandingOut, ...]


@dataclass(frozen=True)
class StyleBoard:
    """What the features are worth on the leaderboard with style control.

    Attributes
    ----------
    found : None where it has no fit
    votes, left_out : how many votes of the main leaderboard are in it, and how many lack a feature
    """

    found: Styled | None
    votes: int
    left_out: int


@dataclass(frozen=True)
class FitOutput:
    """Everything that a snapshot publishes of a fit.

    Attributes
    ----------
    leaderboards : all of the snapshot's leaderboards, the main one first
    annotators, evidence, diagnostics, votes_used : of the main leaderboard's fit (`Rating`)
    matchups : of the votes that count in the main leaderboard; None where they are left out
    confidence : how sure the order of the main leaderboard ("") and of each tag's is; without those that have no
        intervals, fewer than 2 or more than 500 models with a score
    votes_hash : SHA-256 of the cells of every vote in the input
    verdicts : on the best k models of the main leaderboard, by k
    seconds : stage → seconds; `compile`, within the others, where kernels had to be compiled
    notices : about other parts than the main leaderboard, whose own are in its diagnostics
    categories : of each dimension how its categories differ
    pair_weights : how likely each pair is to be a battle, by tag; "" for battles without a tag
    style : None where the policy declares no features
    sharpened : how judges sharpen the people's leaderboard; None where they do not
    calibration : how often votes came as the scores and abilities predict
    counted : how much each annotator's votes weigh in the main leaderboard
    """

    leaderboards: dict[LeaderboardName, ModelEstimates]
    annotators: AnnotatorEstimates
    evidence: Evidence | None
    diagnostics: Diagnostics
    votes_used: float
    matchups: MatchupTable | None
    confidence: dict[tuple[str, int], Confidence]
    votes_hash: str
    verdicts: dict[str, str] = field(default_factory=dict)
    seconds: dict[str, float] = field(default_factory=dict)
    notices: tuple[RatingNotice, ...] = ()
    categories: dict[str, DimensionResult] = field(default_factory=dict)
    pair_weights: dict[str, PairWeights] = field(default_factory=dict)
    style: StyleBoard | None = None
    sharpened: dict[str, Any] | None = None
    calibration: tuple[CalibrationBin, ...] = ()
    counted: CountedVotes | None = None

    @property
    def models(self) -> ModelEstimates:
        """The main leaderboard."""
        return next(iter(self.leaderboards.values()))

from dataclasses import dataclass, field
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from app.rating.detection.judge import LEAST, SERVICE_TESTS, Evidence

Method = Literal["am-elo", "m-elo"]
Interval = Literal["clustered", "sandwich", "information", "none"]
Standing = Literal["pending", "active", "flagged", "excluded", "trusted"]
FlagRule = Literal["threshold", "probability", "evidence"]

LEAST_CAP = 1.1


@dataclass(frozen=True)
class LoopSettings:
    """Settings of one turn of the Stable Arena loop.

    Attributes
    ----------
    method : "am-elo" estimates abilities, "m-elo" (Bradley-Terry) takes every ability as 1.
    min_votes : δ; annotators with more than this many votes enter the fit.
    min_ability : ε, in published units; annotators at or below it are flagged or excluded.
    flag_rule : who is flagged or excluded: "threshold", the paper's, abilities at or below ε; "probability", where
        P(a ≤ ε) is at least `flag_probability` (which needs an interval); "evidence", whoever a test of
        `app.rating.detection` marks and then, on the board of the others, whoever is at or below ε.
    flag_probability : in (0, 1).
    evidence_ratio : likelihood ratio from which a test marks, above 1.
    evidence_tests : the tests that mark.
    release_margin : who was flagged or excluded before stays so until the ability is this much above ε, and the
        evidence below the square root of `evidence_ratio`; 0 for abilities without a margin.
    exclude : refit once without those the rule marks; else they are only marked flagged.
    prior_sd : standard deviation of the prior θ_k ~ N(1, sd²); "estimated" from the abilities at hand; None for the
        paper's plain estimator.
    ability_cap : upper bound on θ_k, in units of the typical ability, at least 1.1, or nearly everybody would be at
        it and nothing set the scale; None for none. Needs a prior.
    bias_correction : take the first-order bias out of scores and abilities (am-elo with a prior; the plain estimator
        and m-elo are never corrected).
    interval : how intervals are made; "clustered" falls back to "sandwich" below 20 annotators (the result says so).
    confidence : coverage the intervals aim at, in (0, 1).
    base : Elo points at which the identified models' mean sits, in each component; finite.
    anchor : (model index, finite Elo points) to shift that model's component so that the model sits there.
    """

    method: Method = "am-elo"
    min_votes: int = 50
    min_ability: float = 0.2
    flag_rule: FlagRule = "threshold"
    flag_probability: float = 0.95
    evidence_ratio: float = LEAST
    evidence_tests: tuple[str, ...] = SERVICE_TESTS
    release_margin: float = 0.0
    exclude: bool = False
    prior_sd: float | Literal["estimated"] | None = 1.0
    ability_cap: float | None = 1.75
    bias_correction: bool = True
    interval: Interval = "clustered"
    confidence: float = 0.95
    base: float = 1000.0
    anchor: tuple[int, float] | None = None


@dataclass(frozen=True)
class Start:
    """An earlier turn's published results, to start the next from; NaN, or anything not finite, for what is not known.

    Attributes
    ----------
    score : Elo points, any base, shape (n_models,)
    ability : published units, shape (n_annotators,)
    median_ability : what published abilities were divided by
    """

    score: NDArray[np.float64]
    ability: NDArray[np.float64]
    median_ability: float


@dataclass(frozen=True)
class Board:
    """Models' results, arrays of shape (n_models,), index order as in the votes.

    A model without a counted vote has `votes` 0 and component −1. A model that is not identified has score and
    se NaN; of lower and upper, those that its votes against identified models give are finite, the others infinite.

    Attributes
    ----------
    score, se, lower, upper : Elo points
    rank : 1 is best, within the component; best_rank and worst_rank the rank spread of the intervals
    votes, wins, ties, losses : counted votes that named the model
    component : index of the connected component, 0 the one with most votes; −1 for none
    identified : whether the data give the model a finite score
    """

    score: NDArray[np.float64]
    se: NDArray[np.float64]
    lower: NDArray[np.float64]
    upper: NDArray[np.float64]
    rank: NDArray[np.int64]
    best_rank: NDArray[np.int64]
    worst_rank: NDArray[np.int64]
    votes: NDArray[np.float64]
    wins: NDArray[np.float64]
    ties: NDArray[np.float64]
    losses: NDArray[np.float64]
    component: NDArray[np.int64]
    identified: NDArray[np.bool_]


@dataclass(frozen=True)
class Crowd:
    """Annotators' results, arrays of shape (n_annotators,), index order as in the votes; NaN where undefined.

    Attributes
    ----------
    ability, se : published units (1 is the typical annotator); NaN outside the fit
    shadow_ability, shadow_se : of annotators outside the fit, against the published scores
    probability_low : P(a ≤ ε), normal approximation, from whichever of the two is defined
    votes : every vote of the annotator, counted or not
    rule : what the rule marks flagged and excluded annotators by: "ability" or the name of a test; "" for others
    held : for whom a verdict of this turn would have been another had the rule not marked them the last time
    standing : by the rule alone, whatever the caller decided about them: pending, active, flagged or excluded; those
        outside the fit are judged by their shadow ability
    """

    ability: NDArray[np.float64]
    se: NDArray[np.float64]
    shadow_ability: NDArray[np.float64]
    shadow_se: NDArray[np.float64]
    probability_low: NDArray[np.float64]
    votes: NDArray[np.float64]
    standing: NDArray[np.str_]
    rule: NDArray[np.str_]
    held: NDArray[np.bool_]


@dataclass(frozen=True)
class RatingNotice:
    """Something to know when reading a result that is defined all the same.

    Attributes
    ----------
    code : one of docs/math.md, "Notices"; never changes its meaning
    detail : one sentence
    """

    code: str
    detail: str


@dataclass(frozen=True)
class Diagnostics:
    """How the fit went.

    Attributes
    ----------
    log_likelihood : of the counted votes alone, natural log, no prior term
    components : connected components of the comparison graph of the counted votes
    interval : the kind of interval that was made
    median_ability : in the solver's units; what published abilities were divided by (1 for m-elo)
    published_cap : ability_cap / median_ability, None without a cap
    prior_sd : of the prior in force, in the solver's units; None without one
    ability_spread, ability_spread_se : estimated spread of abilities, and its standard error; None where prior_sd was
        given, or the votes do not tell
    excluded_share : share of the votes past δ that the ε rule took out (or would, when it only flags)
    seconds : stage → seconds ("fit", "intervals")
    warnings : what to know when reading the result
    """

    log_likelihood: float
    iterations: int
    converged: bool
    components: int
    interval: Interval
    median_ability: float
    published_cap: float | None
    prior_sd: float | None
    ability_spread: float | None
    ability_spread_se: float | None
    excluded_share: float
    seconds: dict[str, float] = field(default_factory=dict)
    warnings: tuple[RatingNotice, ...] = ()


@dataclass(frozen=True)
class Rating:
    """One turn of the loop: the settings it was made with, models, annotators, diagnostics.

    Attributes
    ----------
    votes_used : counted votes
    optimum : where the solver stood, before bias was taken out: the best start for the next turn
    evidence : what the tests say of every annotator past δ; None where they were not asked
    """

    settings: LoopSettings
    board: Board
    crowd: Crowd
    diagnostics: Diagnostics
    votes_used: float
    optimum: Start
    evidence: Evidence | None = None

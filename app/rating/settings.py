"""The settings of the mathematics: of one round of the loop, of verdicts and of sampling."""

import math
from collections.abc import Iterable
from dataclasses import dataclass
from numbers import Real
from typing import Literal, get_args

Method = Literal["am-elo", "m-elo"]
Interval = Literal["clustered", "sandwich", "information", "none"]
Standing = Literal["pending", "active", "flagged", "excluded", "trusted"]
FlagRule = Literal["threshold", "evidence"]
PairPolicy = Literal["uniform", "balanced", "lmarena", "information", "top_k", "mixed"]

LEAST_CAP = 1.1
EVIDENCE_TESTS = ("coin", "contrary", "equal", "follower", "favour", "against", "mimic", "side")
"""The tests on annotators' votes; docs/laboratory-attacks.md has their error rates."""
TASTE_TESTS = ("favour", "against", "mimic")
"""The tests about a model. They flag and never exclude: an opinion of a model is for a reviewer to judge."""
EVIDENCE_RATIO = 100.0
NUMBERS = (
    "min_votes", "min_ability", "evidence_ratio", "release_margin", "confidence", "base",
)  # fmt: skip
"""The settings that are always numbers."""


@dataclass(frozen=True)
class LoopSettings:
    """Settings of one round of the Stable Arena loop.

    Attributes
    ----------
    method : "am-elo" estimates abilities; "m-elo" (Bradley-Terry) takes every ability as 1.
    min_votes : δ; annotators with more than this many votes enter the fit.
    min_ability : ε, in published units; annotators at or below it are flagged or excluded.
    flag_rule : how annotators are flagged (am-elo only; m-elo has no abilities). "evidence": a test of
        `app.rating.detection` flags first; then annotators whose adjusted ability is more likely than not at or below
        ε, with `exclude` on the leaderboard fitted without the annotators that tests exclude. "threshold" is the
        paper's rule: abilities at or below ε.
    evidence_ratio : likelihood ratio from which a test flags, above 1.
    evidence_tests : the tests that flag.
    release_margin : an annotator who was flagged or excluded stays so until the ability is this much above ε and the
        evidence is below the square root of `evidence_ratio`; 0 gives abilities no margin.
    exclude : fit again without the flagged annotators, apart from those that only `TASTE_TESTS` flag; False flags
        them and keeps their votes.
    prior_sd : standard deviation of the prior θ_k ~ N(1, sd²); "estimated" estimates it from the abilities; None is
        the paper's maximum likelihood.
    ability_cap : upper bound on θ_k in units of the typical ability, at least 1.1 (a lower cap would hold nearly every
        annotator, and nothing would set the scale); None for no cap. Needs a prior.
    influence_limit : votes of an annotator on a model that count in full, as a multiple of those of the model's mean
        judge, and some votes beside; votes beyond them weigh less, and so do those of able annotators. None: all votes
        weigh 1 (am-ELO with a prior only; under maximum likelihood and m-elo they always do).
    seek_higher : whether to climb from four other starts too, for the highest maximum, where fewer than 20,000 votes
        count; a maximum nearly as high with another order is a notice (am-elo with a prior only).
    bias_correction : take the first-order bias out of scores and abilities (am-elo with a prior only; maximum
        likelihood and m-elo are never corrected).
    interval : how intervals are made; "clustered" becomes "sandwich" for one annotator (a notice says so).
    confidence : coverage of the intervals, in (0, 1).
    base : Elo points of the mean of the identified models in each component; finite.
    anchor : (model index, finite Elo points): shifts that model's component so that the model has these points.
    min_model_votes, min_model_annotators : a model with fewer counted votes, or with votes of fewer annotators, is
        provisional: it comes after the others of its component, and they are ranked without it.
    max_interval_width : Elo points; a model with a wider interval is provisional too. None for no limit.
    """

    method: Method = "am-elo"
    min_votes: int = 50
    min_ability: float = 0.2
    flag_rule: FlagRule = "evidence"
    evidence_ratio: float = EVIDENCE_RATIO
    evidence_tests: tuple[str, ...] = EVIDENCE_TESTS
    release_margin: float = 0.0
    exclude: bool = False
    prior_sd: float | Literal["estimated"] | None = 1.0
    ability_cap: float | None = 1.75
    influence_limit: float | None = 1.25
    seek_higher: bool = False
    bias_correction: bool = True
    interval: Interval = "clustered"
    confidence: float = 0.95
    base: float = 1000.0
    anchor: tuple[int, float] | None = None
    min_model_votes: int = 0
    min_model_annotators: int = 0
    max_interval_width: float | None = None


@dataclass(frozen=True)
class VerdictRule:
    """What a verdict asks for.

    Attributes
    ----------
    confidence : 1 − the probability that "decided" ever names wrong models, however often the leaderboard is looked at
    margin : Elo points; two models this close or closer are practically equal
    """

    confidence: float = 0.95
    margin: float = 20.0

    def __post_init__(self) -> None:
        """Raise ValueError where a value is out of range."""
        if not 0.0 < self.confidence < 1.0:
            raise ValueError("confidence must lie between 0 and 1")
        if not 0.0 <= self.margin < math.inf:
            raise ValueError("margin must not be negative, and finite")


@dataclass(frozen=True)
class SamplingSettings:
    """How the pairs of the next battles are chosen.

    Attributes
    ----------
    policy : the formula of the weights (`app.rating.sampling.policies`); "mixed" is half "information", half "top_k"
    floor : share of the battles that are drawn uniformly over all pairs, in (0, 1]
    k : how many leading models "top_k" tells from the others, at least 1
    """

    policy: PairPolicy = "mixed"
    floor: float = 0.1
    k: int = 3


def check_settings(settings: LoopSettings, n_models: int) -> None:
    """Raise ValueError, naming the setting, where a setting is unknown, out of range or contradicts another.

    Parameters
    ----------
    n_models : number of models in the votes; the anchor must be one of them
    """
    for name, choices in (("method", Method), ("interval", Interval), ("flag_rule", FlagRule)):
        if getattr(settings, name) not in get_args(choices):
            known = ", ".join(get_args(choices))
            raise ValueError(f"{name} {getattr(settings, name)!r} is unknown; known are {known}")
    check_numbers(settings, NUMBERS)
    for name in ("min_votes", "release_margin", "min_model_votes", "min_model_annotators"):
        if not getattr(settings, name) >= 0:
            raise ValueError(f"{name} must not be negative")
    _check_prior(settings)
    _check_rule(settings)
    if not 0 < settings.confidence < 1:
        raise ValueError("confidence must lie between 0 and 1")
    _check_points(settings, n_models)


def check_numbers(settings: object, names: Iterable[str]) -> None:
    """Raise ValueError for the first of these settings that is not a number."""
    for name in names:
        if not isinstance(getattr(settings, name), Real):
            raise ValueError(f"{name} must be a number, is {getattr(settings, name)!r}")  # noqa: TRY004  as documented


def _check_prior(settings: LoopSettings) -> None:
    sd: object = settings.prior_sd
    cap: object = settings.ability_cap
    if not (sd is None or sd == "estimated" or (isinstance(sd, int | float) and 0 < sd < math.inf)):
        raise ValueError("prior_sd must be greater than 0 and finite, or estimated; None for no prior")
    if cap is not None and sd is None:
        raise ValueError("ability_cap needs prior_sd: without a prior nothing sets the scale of abilities")
    if cap is not None and not (isinstance(cap, int | float) and LEAST_CAP <= cap < math.inf):
        raise ValueError(
            f"ability_cap must be at least {LEAST_CAP} times the typical ability, and finite; None for no cap"
        )
    limit: object = settings.influence_limit
    if limit is not None and not (isinstance(limit, int | float) and 0 < limit < math.inf):
        raise ValueError("influence_limit must be greater than 0, and finite; None for no limit")


def _check_rule(settings: LoopSettings) -> None:
    if math.isnan(settings.min_ability):
        raise ValueError("min_ability must be a number")
    if not settings.evidence_ratio > 1:
        raise ValueError("evidence_ratio must be greater than 1")
    if unknown := set(settings.evidence_tests) - set(EVIDENCE_TESTS):
        raise ValueError(f"test {', '.join(sorted(unknown))} is unknown; known are {', '.join(EVIDENCE_TESTS)}")


def _check_points(settings: LoopSettings, n_models: int) -> None:
    if not math.isfinite(settings.base):
        raise ValueError("base must be finite")
    if settings.anchor is None:
        return
    model, points = settings.anchor
    if not 0 <= model < n_models:
        raise ValueError(f"anchor: model {model} is not one of the {n_models} models")
    if not math.isfinite(points):
        raise ValueError("anchor: its points must be finite")

"""The settings of the mathematics: of one round of the loop, of verdicts and of sampling."""

import math
import operator
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, fields
from numbers import Real
from typing import Any, Literal, get_args

Method = Literal["am-elo", "m-elo"]
Interval = Literal["clustered", "sandwich", "information", "none"]
Standing = Literal["pending", "active", "flagged", "excluded", "trusted"]
FlagRule = Literal["threshold", "evidence"]
PairPolicy = Literal["uniform", "balanced", "lmarena", "information", "top_k", "mixed"]

LEAST_SPREAD, MOST_SPREAD = 0.05, 0.6  # of honest abilities; a wider law would take coins for honest annotators
EVIDENCE_TESTS = ("coin", "equal", "follower", "favour", "against", "side")
"""The tests on annotators' votes; docs/laboratory-attacks.md has their error rates."""
TASTE_TESTS = ("favour", "against")
"""The tests about a model. They flag and never exclude: an opinion of a model is for a reviewer to judge."""
EVEN_ODDS = 100.0
"""The ratio of a test where a behaviour is as likely as not: a ratio is so many times the odds."""
EVIDENCE_RATIO = 100.0
BY_ABILITY = "ability"
"""The reason of a flag by ability; the reason of a flag by evidence is the name of the strongest test."""
SIDE = "side"
"""The feature of a vote that needs no measures: which answer was on the left."""
MAX_FEATURES = 16  # of a vote, or of a policy
MOST_MODELS, MOST_RANKS = 500, 50  # with more ranked models no verdict is made; the best k of a verdict


class SettingError(ValueError):
    """A setting is unknown, out of range, or contradicts another: its name, and what is wrong with it."""

    def __init__(self, name: str, detail: str) -> None:
        super().__init__(f"{name} {detail}")
        self.name, self.detail = name, detail


@dataclass(frozen=True)
class Definition:
    """What is known of a setting of the fit, wherever it is offered: the policy, `rate`, the estimators, the docs.

    Attributes
    ----------
    text : what it does
    none : what no value means; "" where there must be one
    bounds : `ge`, `gt`, `le` and `lt`, for every caller
    stored : narrower bounds, `ge` and `le`, of what a policy may hold: there a slip of the hand would stay
    service : the default of a policy, where it is another one
    """

    text: str
    none: str
    bounds: Mapping[str, float]
    stored: Mapping[str, float]
    service: Any

    def explain(self, none: str) -> str:
        """Return what it does, and what `none`, the caller's word for no value, means."""
        return f"{self.text} {none}: {self.none}." if self.none else self.text


def define(
    default: Any,
    text: str,
    *,
    none: str = "",
    stored: Mapping[str, float] | None = None,
    service: Any = ...,
    **bounds: float,
) -> Any:
    """Return the field of a dataclass with this default and definition."""
    definition = Definition(text, none, bounds, stored or {}, default if service is ... else service)
    return field(default=default, metadata={"definition": definition})


@dataclass(frozen=True)
class LoopSettings:
    """Settings of one round of the Stable Arena loop.

    The policy's schema, the options of `rate`, the parameters of the estimators and their documentation are made from
    these definitions. The defaults are those of a fit of its own; the service's are others where `service` says so:
    it keeps standings from one refit to the next, and withholds ranks that few votes support, while a file or a table
    is rated once, for an owner who sees how many votes a model has.

    Attributes
    ----------
    method : "am-elo" estimates abilities; "m-elo" (Bradley-Terry) takes every ability as 1.
    anchor : (model index, finite Elo points): shifts that model's component so that the model has these points.
    unranked : indices of models without a rank, however many votes they have; the others are ranked without them.
    """

    method: Method = "am-elo"
    min_votes: int = define(
        50, "δ: annotators with more than this many votes enter the fit.", ge=0, stored={"le": 10**9}
    )
    min_ability: float = define(
        0.2,
        "ε: annotators at or below this ability are flagged or excluded; 1 is the mean.",
        stored={"ge": -100, "le": 100},
    )
    min_probability: float = define(
        0.95,
        "Probability of an ability at or below ε from which the rule evidence flags. Lower finds more of the bad, and "
        "wrongs more of the honest. The test coin flags besides, from the odds of its ratio.",
        ge=0.5,
        le=0.999,
    )
    flag_rule: FlagRule = define(
        "evidence",
        "Which annotators are flagged or excluded. threshold: those with an ability at or below ε (the paper's rule). "
        "evidence: those whose ability lies at or below ε with a probability of min_probability or more, beside 20 "
        "judges or more, and those that a test on the votes finds; favour and against flag, and never exclude.",
    )
    evidence_ratio: float = define(
        EVIDENCE_RATIO,
        "Ratio from which a test flags: 100 times the odds of a behaviour against honesty. 100 flags what is likelier "
        "than not.",
        gt=1,
        stored={"le": 1e12},
    )
    evidence_tests: tuple[str, ...] = define(EVIDENCE_TESTS, "The tests that are run on the votes.")
    release_margin: float = define(
        0.0,
        "A flag or an exclusion ends once the ability is this much above ε, and the evidence is weak too.",
        ge=0,
        stored={"le": 10},
        service=0.1,
    )
    exclude: bool = define(
        False, "Fit again without the flagged annotators, apart from those that only a test about a model flags."
    )
    prior_sd: float | Literal["estimated"] | None = define(
        "estimated",
        "Spread of honest annotators' abilities around 1. estimated: from the votes. A number: the spread that is "
        "assumed before any vote, and counts as four annotators.",
        none="the paper's estimator, without a limit on influence",
        ge=LEAST_SPREAD,
        le=MOST_SPREAD,
    )
    influence_limit: float | None = define(
        1.25,
        "Votes of an annotator on a model that count in full: this multiple of those of the model's mean judge, and "
        "five more. Further votes weigh less, and so do those of able annotators.",
        none="no limit",
        gt=0,
        stored={"le": 1000},
    )
    interval: Interval = define(
        "clustered",
        "How the scores' intervals are made: clustered by annotator, sandwich by vote, information or none.",
    )
    confidence: float = define(0.95, "Coverage of the intervals.", gt=0, lt=1)
    base: float = define(
        1000.0, "Elo points at which the mean of the models with enough votes sits.", stored={"ge": -1e6, "le": 1e6}
    )
    anchor: tuple[int, float] | None = None
    unranked: tuple[int, ...] = ()
    min_model_votes: int = define(
        0,
        "A model with fewer counted votes is provisional: it has no rank.",
        ge=0,
        stored={"le": 10**9},
        service=30,
    )
    min_model_annotators: int = define(
        0, "A model with counted votes of fewer annotators is provisional.", ge=0, stored={"le": 10**6}, service=5
    )
    max_interval_width: float | None = define(
        None,
        "Elo points; a model whose interval is wider is provisional.",
        none="no width makes it so",
        gt=0,
        stored={"le": 1e6},
        service=800.0,
    )

    @property
    def integrates_abilities(self) -> bool:
        """Whether abilities are random and integrated out; else they are known, or maximised with the scores."""
        return self.method == "am-elo" and self.prior_sd is not None

    @property
    def weighs_evidence(self) -> bool:
        """Whether the evidence in the votes is the rule."""
        return self.method == "am-elo" and self.flag_rule == "evidence"


DEFINITIONS: Mapping[str, Definition] = {
    each.name: each.metadata["definition"] for each in fields(LoopSettings) if "definition" in each.metadata
}
"""The settings that callers choose, by name."""
NUMBERS = (
    "min_votes", "min_ability", "min_probability", "evidence_ratio", "release_margin", "prior_sd", "influence_limit",
    "confidence", "base", "min_model_votes", "min_model_annotators", "max_interval_width",
)  # fmt: skip
_BOUNDS: Mapping[str, tuple[Callable[[Any, float], bool], str]] = {
    "ge": (operator.ge, "at least"),
    "gt": (operator.gt, "more than"),
    "le": (operator.le, "at most"),
    "lt": (operator.lt, "less than"),
}


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
        """Raise SettingError where a value is out of range."""
        if not 0.0 < self.confidence < 1.0:
            raise SettingError("confidence", "must lie between 0 and 1")
        if not 0.0 <= self.margin < math.inf:
            raise SettingError("margin", "must not be negative, and finite")


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


def check_settings(settings: LoopSettings, n_models: int | None = None) -> None:
    """Raise SettingError where a setting is unknown, out of range or contradicts another.

    Parameters
    ----------
    n_models : number of models in the votes; the anchor must be one of them. None: the anchor is not checked.
    """
    for name, choices in (("method", Method), ("interval", Interval), ("flag_rule", FlagRule)):
        if getattr(settings, name) not in get_args(choices):
            known = ", ".join(get_args(choices))
            raise SettingError(name, f"{getattr(settings, name)!r} is unknown; known are {known}")
    if unknown := set(settings.evidence_tests) - set(EVIDENCE_TESTS):
        tests = ", ".join(EVIDENCE_TESTS)
        raise SettingError("evidence_tests", f"{', '.join(sorted(unknown))} is unknown; known are {tests}")
    for name in NUMBERS:
        _check_number(name, getattr(settings, name))
    if settings.anchor is not None and n_models is not None:
        model, points = settings.anchor
        if not 0 <= model < n_models:
            raise SettingError("anchor", f"names model {model}, which is not one of the {n_models} models")
        if not math.isfinite(points):
            raise SettingError("anchor", "must have finite points")


def check_numbers(settings: object, names: Iterable[str]) -> None:
    """Raise SettingError for the first of these settings that is not a number."""
    for name in names:
        if not isinstance(getattr(settings, name), Real):
            raise SettingError(name, f"must be a number, is {getattr(settings, name)!r}")


def _check_number(name: str, value: object) -> None:
    """Raise SettingError unless the value is a finite number in the bounds, or what else the setting may be."""
    definition = DEFINITIONS[name]
    if (value is None and definition.none) or (name == "prior_sd" and value == "estimated"):
        return
    if not isinstance(value, Real) or not math.isfinite(value):
        raise SettingError(name, f"must be a finite number, is {value!r}")
    for kind, bound in definition.bounds.items():
        within, words = _BOUNDS[kind]
        if not within(value, bound):
            raise SettingError(name, f"must be {words} {bound:g}, is {value}")

from collections.abc import Mapping
from datetime import datetime
from typing import Annotated, Any, Literal, Self

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    StrictBool,
    StrictInt,
    ValidationError,
    field_validator,
    model_validator,
)
from pydantic_core import InitErrorDetails, PydanticCustomError

from app.api.texts import Reason
from app.naming.names import Name, name_error
from app.rating.settings import (
    DEFINITIONS,
    EVIDENCE_TESTS,
    MAX_FEATURES,
    FlagRule,
    Interval,
    LoopSettings,
    Method,
    PairPolicy,
    SamplingSettings,
    VerdictRule,
)
from app.schemas import ClosedModel, FrozenModel

MOST_TAGS = 31
"""How many tags a refit can tell apart: each is a bit of what PostgreSQL calls an integer."""

CRITERION = "criterion"
"""The dimension whose categories are the criteria of votes; no policy declares it."""

REMOVED: Mapping[str, str] = {
    "ability_cap": "was a setting of releases up to 0.2.0; scores need no cap on abilities any more: leave it out",
    "bias_correction": "was a setting of releases up to 0.2.0; scores have no such bias any more: leave it out",
}
"""Settings that are gone, and what the answer to a caller who names one says. Policies on record may have them."""

_Number = Annotated[float, Field(strict=True)]  # neither "7" nor true


def bounds_of(name: str) -> dict[str, Any]:
    """Return the bounds of a setting of the fit in a policy, as pydantic calls them."""
    bounds, stored = DEFINITIONS[name].bounds, DEFINITIONS[name].stored
    return {kind: bound for kind, bound in bounds.items() if not (kind == "gt" and "ge" in stored)} | dict(stored)


def of_fit(name: str, *, bounded: bool = True) -> Any:
    """Return the policy's field for a setting of the fit: its default in the service, its bounds, what it does."""
    definition, elsewhere = DEFINITIONS[name], getattr(LoopSettings, name)
    text = definition.explain("null")
    if elsewhere != definition.service:
        text += f" {'No limit' if elsewhere is None else f'{elsewhere:g}'} in `rate` and in a notebook."
    return Field(definition.service, description=text, **(bounds_of(name) if bounded else {}))


class Anchor(FrozenModel):
    """A model with a fixed score."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    model: Name
    score: Annotated[_Number, Field(**bounds_of("base"))] = Field(description="Elo points.")

    @model_validator(mode="before")
    @classmethod
    def is_written_as_in_rate(cls, value: Any) -> Any:
        """Take MODEL=SCORE too, divided at the last equals sign: names may contain others."""
        model, equals, score = value.rpartition("=") if isinstance(value, str) else ("", "", "")
        if not equals:
            return value
        try:
            return {"model": model, "score": float(score)}
        except ValueError:
            raise ValueError(f"must be MODEL=SCORE, is {value!r}") from None

    def __str__(self) -> str:
        """Return it as `rate` takes it."""
        return f"{self.model}={self.score:g}"


class Policy(BaseModel):
    """The thresholds for refits, and for flagging and excluding annotators."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    min_votes: StrictInt = of_fit("min_votes")
    min_ability: _Number = of_fit("min_ability")
    min_probability: _Number = of_fit("min_probability")
    prior_sd: Annotated[_Number, Field(**bounds_of("prior_sd"))] | Literal["estimated"] | None = of_fit(
        "prior_sd", bounded=False
    )
    influence_limit: _Number | None = of_fit("influence_limit")
    flag_rule: FlagRule = of_fit("flag_rule")
    evidence_ratio: _Number = of_fit("evidence_ratio")
    evidence_tests: tuple[str, ...] = of_fit("evidence_tests")
    release_margin: _Number = of_fit("release_margin")
    on_low_ability: Literal["flag", "exclude"] = Field(
        "flag",
        description="flag: flagged annotators stay in the fit. exclude: they are left out, unless only a test about a "
        "model finds them.",
    )
    max_excluded_share: _Number = Field(
        0.1, ge=0, le=1, description="A refit that would newly exclude a larger share of the votes waits for an admin."
    )
    interval: Interval = of_fit("interval")
    decision_confidence: _Number = Field(
        VerdictRule.confidence,
        ge=0.5,
        lt=1,
        description="Confidence of the verdict that the best models are decided, over all refits together.",
    )
    equal_margin: _Number = Field(
        VerdictRule.margin,
        ge=0,
        le=1000,
        description="Elo points; two models that are certainly this close or closer are practically equal.",
    )
    min_board_annotators: StrictInt = Field(
        5,
        ge=1,
        le=10**6,
        description="A first leaderboard is published once this many annotators have more than min_votes votes.",
    )
    min_board_votes: StrictInt = Field(
        200, ge=1, le=10**9, description="A first leaderboard is published once those annotators have this many votes."
    )
    min_model_votes: StrictInt = of_fit("min_model_votes")
    min_model_annotators: StrictInt = of_fit("min_model_annotators")
    max_interval_width: _Number | None = of_fit("max_interval_width")
    base: _Number = of_fit("base")
    anchor: Anchor | None = Field(
        None,
        description="A model and the score that it keeps, in place of base; null for none. A refit without it fails.",
    )
    refit_interval_seconds: _Number = Field(
        600,
        gt=0,
        le=31_536_000,
        description="Time between scheduled refits. They run only if there is something new.",
    )
    on_conflict: Literal["reject", "replace"] = Field(
        "reject",
        description="Another verdict by the same annotator on the same battle is refused, or replaces the first one.",
    )
    max_votes_per_day: StrictInt | None = Field(
        None, ge=1, le=10**9, description="How many votes of one annotator count in one day (UTC); null for all."
    )
    refit_after_votes: StrictInt | None = Field(
        None,
        ge=1,
        le=10**9,
        description="This many new votes start a refit before the interval has passed; null for never.",
    )
    stale_after_seconds: _Number = Field(
        7200,
        gt=0,
        le=31_536_000,
        description="A leaderboard older than this is stale while votes wait that are not in it.",
    )
    dimensions: dict[Name, tuple[Name, ...]] = Field(
        {},
        description='By what votes fall into categories: `{"language": ["fr", "en"]}` makes leaderboards of the tags '
        "`language=fr` and `language=en`. At most 31 categories in all.",
    )
    category_weights: dict[Name, Annotated[_Number, Field(gt=0, le=10**6)]] = Field(
        {},
        description='Weights of the categories of one dimension in the leaderboard `weighted`: `{"language=fr": 1, '
        '"language=en": 3}`; or of criteria: `{"criterion=helpful": 1, "criterion=overall": 2}`.',
    )
    max_tag_boards: StrictInt = Field(
        20,
        ge=0,
        le=MOST_TAGS,
        description="Without dimensions: how many tags get a leaderboard of their own, those with the most votes.",
    )
    battle_policy: PairPolicy = Field(
        "mixed",
        description="Which pairs of models battles show. uniform: all alike. balanced: models with few votes. lmarena: "
        "Chatbot Arena's rule. information: pairs that narrow the intervals of all scores most. top_k: pairs that tell "
        "the first battle_top_k models from the others. mixed: half information, half top_k.",
    )
    battle_floor: _Number = Field(
        0.1, ge=0.01, le=1, description="Share of the battles that is drawn uniformly over all pairs."
    )
    battle_top_k: StrictInt = Field(
        3,
        ge=1,
        le=1000,
        description="How many leading models the battle policies top_k and mixed tell from the others.",
    )
    battle_repeat_gap: StrictInt = Field(
        20, ge=0, le=1000, description="For how many battles an annotator does not see the same pair again."
    )
    leaderboard_of: Literal["people", "judges", "all"] = Field(
        "people",
        description="Whose votes make the leaderboard where people and judges vote. Until min_board_annotators of them "
        "have more than min_votes votes it is of all.",
    )
    style_features: Annotated[tuple[Name, ...], Field(max_length=MAX_FEATURES)] = Field(
        (),
        description="What the leaderboards style and judges control for: features of votes, such as length, and side, "
        "which every vote has.",
    )
    sealed_only: StrictBool = Field(
        False, description="Whether refits count only sealed votes, on pairs that the service drew."
    )
    max_unreleased: StrictInt | None = Field(
        None,
        ge=0,
        le=10**6,
        description="Unreleased models that an organization may have; null for no limit.",
    )
    calibration_share: _Number = Field(
        0.2,
        ge=0,
        le=0.9,
        description="Share of a new annotator's battles, up to min_votes votes, that is drawn to learn about them.",
    )

    @model_validator(mode="before")
    @classmethod
    def removed_settings_are_left_out(cls, values: Any) -> Any:
        """Refuse the settings of earlier releases, each by its name."""
        if gone := [name for name in REMOVED if isinstance(values, Mapping) and name in values]:
            errors = [
                InitErrorDetails(type=PydanticCustomError("removed", REMOVED[name]), loc=(name,), input=values[name])
                for name in gone
            ]
            raise ValidationError.from_exception_data(cls.__name__, errors)
        return values

    @field_validator("evidence_tests")
    @classmethod
    def tests_are_known(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        """Refuse unknown tests and an empty list: a policy without tests has the rule threshold."""
        if strange := sorted(set(value) - set(EVIDENCE_TESTS)):
            raise ValueError(f"unknown test: {', '.join(strange)}; the tests are {', '.join(EVIDENCE_TESTS)}")
        if not value:
            raise ValueError("must name at least one test; the flag_rule threshold uses no tests")
        return tuple(test for test in EVIDENCE_TESTS if test in value)

    @model_validator(mode="after")
    def style_is_possible(self) -> Self:
        """Refuse a feature given twice, and features without what style control needs."""
        if len(set(self.style_features)) < len(self.style_features):
            raise ValueError("style_features must name each feature once")
        if self.style_features and (self.prior_sd is None or self.interval not in ("clustered", "none")):
            raise ValueError("style_features need a prior_sd, and the interval clustered or none")
        return self

    @model_validator(mode="after")
    def categories_are_known(self) -> Self:
        """Refuse too many categories, and weights of categories of no dimension or of several."""
        for name, values in self.dimensions.items():
            if "=" in name or name == CRITERION or not values or len(set(values)) < len(values):
                raise ValueError(f"the dimension {name!r} needs another name, without =, and values, each of them once")
        if wrong := next((error for tag in self.category_tags if (error := name_error(tag))), None):
            raise ValueError(f"a dimension and its value, with = between them, {wrong}")
        if sum(map(len, self.dimensions.values())) > MOST_TAGS:
            raise ValueError(f"dimensions must have at most {MOST_TAGS} values together")
        weighted = set(self.category_weights)
        of_criteria = all(tag.partition("=")[0] == CRITERION and tag != f"{CRITERION}=" for tag in weighted)
        if not of_criteria and not any(weighted <= set(tags) for tags in self.categories.values()):
            raise ValueError(
                "category_weights must be of categories of one of the dimensions, such as language=fr, or of criteria, "
                "such as criterion=helpful"
            )
        return self

    @property
    def categories(self) -> dict[str, tuple[str, ...]]:
        """The tags of each dimension: language=fr, language=en."""
        return {name: tuple(f"{name}={value}" for value in values) for name, values in self.dimensions.items()}

    @property
    def category_tags(self) -> list[str]:
        """The tags of all dimensions."""
        return [tag for tags in self.categories.values() for tag in tags]

    def verdict_rule(self) -> VerdictRule:
        """Return what the verdict on the leaderboard asks for."""
        return VerdictRule(self.decision_confidence, self.equal_margin)

    def loop_settings(self, method: Method) -> LoopSettings:
        """Return the settings of a fit under this policy."""
        shared = {name: getattr(self, name) for name in DEFINITIONS if name in type(self).model_fields}
        exclude = self.on_low_ability == "exclude" and method == "am-elo"
        return LoopSettings(method=method, exclude=exclude, **shared)

    def sampling_settings(self) -> SamplingSettings:
        """Return how pairs of models are chosen under this policy."""
        return SamplingSettings(policy=self.battle_policy, floor=self.battle_floor, k=self.battle_top_k)


class PolicyVersion(FrozenModel):
    """A policy on record: its settings, who set it, when and why."""

    version: int = Field(description="Grows by one with every change.")
    settings: Policy
    reason: str = Field(description="Why it was set.")
    created_by: str = Field(description="Name of the key it was set with.")
    created_at: datetime


class PolicySettings(ClosedModel):
    """A whole policy."""

    settings: Policy

    @model_validator(mode="after")
    def settings_are_complete(self) -> Self:
        """Refuse a policy with a setting left out: the setting would fall back to its default unnoticed."""
        missing = sorted(set(Policy.model_fields) - self.settings.model_fields_set)
        if missing:
            raise ValueError(f"a policy is replaced as a whole; missing: {', '.join(missing)}")
        return self


class PolicyChange(PolicySettings):
    """A policy to put in force, and why. What `GET /policy` answers is one: its other fields are ignored."""

    reason: Reason
    version: int | None = Field(None, description="Ignored. `If-Match` says which version is to be replaced.")
    created_by: str | None = Field(None, description="Ignored.")
    created_at: datetime | None = Field(None, description="Ignored.")

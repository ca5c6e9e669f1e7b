from datetime import datetime
from typing import Annotated, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, StrictBool, StrictInt, field_validator, model_validator

from app.api.texts import Reason
from app.rating.settings import (
    EVIDENCE_RATIO,
    EVIDENCE_TESTS,
    LEAST_CAP,
    FlagRule,
    Interval,
    LoopSettings,
    Method,
    PairPolicy,
    SamplingSettings,
    VerdictRule,
)

MOST_TAGS = 31
"""How many tags a refit can tell apart: each is a bit of what PostgreSQL calls an integer."""

_Number = Annotated[float, Field(strict=True)]  # neither "7" nor true


class Policy(BaseModel):
    """The thresholds for refits, and for flagging and excluding annotators."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    min_votes: StrictInt = Field(
        50, ge=0, le=10**9, description="δ: annotators with more than this many votes enter the fit."
    )
    min_ability: _Number = Field(
        0.2, ge=-100, le=100, description="ε: annotators at or below this ability are flagged or excluded."
    )
    ability_cap: _Number | None = Field(
        1.75,
        ge=LEAST_CAP,
        le=1000,
        description="Upper bound on an ability, in units of the typical one; null for none.",
    )
    prior_sd: Annotated[_Number, Field(ge=1e-3, le=1e3)] | Literal["estimated"] | None = Field(
        1.0,
        description="Standard deviation of the abilities' prior around 1. estimated: each refit estimates it from its "
        "votes. null: no prior, which is the paper's estimator.",
    )
    influence_limit: Annotated[_Number, Field(gt=0, le=1000)] | None = Field(
        LoopSettings.influence_limit,
        description="Votes of an annotator on a model that count in full, as a multiple of those of the model's mean "
        "judge; five votes beside are free. Votes beyond them weigh less, and so do those of able annotators. null: no "
        "limit.",
    )
    bias_correction: StrictBool = Field(
        True,
        description="Whether scores and abilities are corrected for the first-order bias that few votes an annotator "
        "cause.",
    )
    flag_rule: FlagRule = Field(
        "evidence",
        description="Which annotators are flagged or excluded. threshold: those with an ability at or below ε (the "
        "paper's rule). evidence: those that a test on the votes finds, and then those whose adjusted ability is more "
        "likely than not at or below ε. The tests favour, against and mimic are about a model: they flag, and never "
        "exclude.",
    )
    evidence_ratio: _Number = Field(
        EVIDENCE_RATIO,
        gt=1,
        le=1e12,
        description="Likelihood ratio L against honesty from which a test on the votes flags. An honest annotator "
        "reaches it in one test with a probability of at most 1/L, in any of eight with at most 8/L.",
    )
    evidence_tests: tuple[str, ...] = Field(EVIDENCE_TESTS, description="The tests that are run on the votes.")
    release_margin: _Number = Field(
        0.1,
        ge=0,
        le=10,
        description="A flagged or excluded annotator stays so until the ability is this much above ε. This keeps an "
        "annotator near ε from changing at every refit.",
    )
    on_low_ability: Literal["flag", "exclude"] = Field(
        "flag",
        description="flag: annotators found by the rule stay in the fit. exclude: they are left out of it, apart from "
        "those that only a test about a model finds.",
    )
    max_excluded_share: _Number = Field(
        0.1, ge=0, le=1, description="A refit that would newly exclude a larger share of the votes waits for an admin."
    )
    interval: Interval = Field("clustered", description="How the scores' intervals are made.")
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
    min_model_votes: StrictInt = Field(
        30, ge=0, le=10**9, description="A model with fewer counted votes is provisional: it has no rank."
    )
    min_model_annotators: StrictInt = Field(
        5, ge=0, le=10**6, description="A model with counted votes of fewer annotators is provisional."
    )
    max_interval_width: _Number | None = Field(
        800.0,
        gt=0,
        le=1e6,
        description="Elo points; a model whose interval is wider is provisional. null: no width makes it so.",
    )
    base: _Number = Field(1000.0, ge=-1e6, le=1e6, description="Elo points at which the models' mean sits.")
    refit_interval_seconds: _Number = Field(
        600,
        gt=0,
        le=31_536_000,
        description="Time between scheduled refits. A scheduled refit runs only if there is something new.",
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
    max_tag_boards: StrictInt = Field(
        20, ge=0, le=MOST_TAGS, description="How many tags get a leaderboard of their own: those with the most votes."
    )
    battle_policy: PairPolicy = Field(
        "mixed",
        description="Which pairs of models battles show. uniform: all alike. balanced: models with few votes. lmarena: "
        "Chatbot Arena's rule. information: pairs whose next vote narrows the intervals of all scores most. top_k: "
        "pairs that tell the first battle_top_k models from the others. mixed: half information, half top_k.",
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
        20, ge=0, le=1000, description="A pair is not among an annotator's next battles, this many, after it was shown."
    )
    sealed_only: StrictBool = Field(
        False, description="Whether refits count only votes that a battle's token cast, on pairs that the service drew."
    )
    calibration_share: _Number = Field(
        0.2,
        ge=0,
        le=0.9,
        description="Share of an annotator's battles that is drawn to learn about the annotator, until they have more "
        "than min_votes votes.",
    )

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
    def cap_needs_prior(self) -> Self:
        """Refuse a cap without a prior: nothing fixes the scale of the cap then."""
        if self.ability_cap is not None and self.prior_sd is None:
            raise ValueError("an ability_cap needs a prior_sd")
        return self

    def decision_rule(self) -> VerdictRule:
        """Return what the verdict on the leaderboard asks for."""
        return VerdictRule(self.decision_confidence, self.equal_margin)

    def loop_settings(self, method: Method) -> LoopSettings:
        """Return the settings of a fit under this policy."""
        return LoopSettings(
            method=method,
            min_votes=self.min_votes,
            min_ability=self.min_ability,
            flag_rule=self.flag_rule,
            evidence_ratio=self.evidence_ratio,
            evidence_tests=self.evidence_tests,
            release_margin=self.release_margin,
            exclude=self.on_low_ability == "exclude" and method == "am-elo",
            prior_sd=self.prior_sd,
            ability_cap=self.ability_cap,
            influence_limit=self.influence_limit,
            seek_higher=True,
            bias_correction=self.bias_correction,
            interval=self.interval,
            base=self.base,
            min_model_votes=self.min_model_votes,
            min_model_annotators=self.min_model_annotators,
            max_interval_width=self.max_interval_width,
        )

    def sampling_settings(self) -> SamplingSettings:
        """Return how pairs of models are chosen under this policy."""
        return SamplingSettings(policy=self.battle_policy, floor=self.battle_floor, k=self.battle_top_k)


class PolicyVersion(BaseModel):
    """A policy on record: its settings, who set it, when and why."""

    model_config = ConfigDict(frozen=True)

    version: int = Field(description="Grows by one with every change.")
    settings: Policy
    reason: str = Field(description="Why it was set.")
    created_by: str = Field(description="Name of the key it was set with.")
    created_at: datetime


class PolicySettings(BaseModel):
    """A whole policy."""

    model_config = ConfigDict(extra="forbid")

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

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
from sqlalchemy import Connection, RowMapping

from app.audit import service as audit
from app.policy import queries as policies
from app.rating.settings import (
    EVIDENCE_RATIO,
    EVIDENCE_TESTS,
    LEAST_CAP,
    SERVICE_TESTS,
    FlagRule,
    Interval,
    LoopSettings,
    Method,
)
from app.votes.arrays import MOST_TAGS

TESTS_OF_CELLS = tuple(test for test in EVIDENCE_TESTS if test != "copy")
"""The tests that a refit can ask: whose copies somebody's votes are would need the order of all of them."""

_Number = Annotated[float, Field(strict=True)]  # neither "7" nor true


class Policy(BaseModel):
    """The thresholds by which refits run and annotators are judged."""

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
        description="Standard deviation of the abilities' prior around 1; estimated: from the votes of every refit; "
        "null for the paper's estimator.",
    )
    bias_correction: StrictBool = Field(
        True, description="Whether the first-order bias of few votes an annotator is taken out of scores and abilities."
    )
    flag_rule: FlagRule = Field(
        "evidence",
        description="Who is marked: threshold, abilities at or below ε (the paper's rule); probability, where that is "
        "as probable as flag_probability; evidence, whoever a test on the votes speaks against and then, on the board "
        "of the others, whoever is at or below ε.",
    )
    flag_probability: _Number = Field(
        0.95, gt=0, lt=1, description="Of an ability at or below ε; from here on the rule probability marks."
    )
    evidence_ratio: _Number = Field(
        EVIDENCE_RATIO,
        gt=1,
        le=1e12,
        description="Likelihood ratio against honesty from which a test on the votes marks.",
    )
    evidence_tests: tuple[str, ...] = Field(SERVICE_TESTS, description="The tests that are asked of the votes.")
    release_margin: _Number = Field(
        0.1,
        ge=0,
        le=10,
        description="Who is marked stays so until the ability is this much above ε, so that nobody flaps on it.",
    )
    on_low_ability: Literal["flag", "exclude"] = Field(
        "flag", description="Whether annotators whom the rule marks are only flagged or left out of the board."
    )
    max_excluded_share: _Number = Field(
        0.1, ge=0, le=1, description="A refit that would exclude a larger share of the votes waits for an admin."
    )
    interval: Interval = Field("clustered", description="How the scores' intervals are made.")
    base: _Number = Field(1000.0, ge=-1e6, le=1e6, description="Elo points at which the models' mean sits.")
    refit_interval_seconds: _Number = Field(
        600,
        gt=0,
        le=31_536_000,
        description="Scheduled refits are at least this far apart, and only if there is something new.",
    )
    on_conflict: Literal["reject", "replace"] = Field(
        "reject",
        description="Whether another verdict on a battle already judged is refused or replaces the one on record.",
    )
    max_votes_per_day: StrictInt | None = Field(
        None, ge=1, le=10**9, description="Votes of one annotator in one day (UTC) that count; null for all of them."
    )
    refit_after_votes: StrictInt | None = Field(
        None,
        ge=1,
        le=10**9,
        description="So many new votes start a refit before the interval has passed; null for never.",
    )

    stale_after_seconds: _Number = Field(
        7200,
        gt=0,
        le=31_536_000,
        description="A board older than this, with votes waiting that are not in it, is stale.",
    )

    max_tag_boards: StrictInt = Field(
        20, ge=0, le=MOST_TAGS, description="Tags, those with the most votes, for which boards of their own are made."
    )

    @field_validator("evidence_tests")
    @classmethod
    def tests_are_known(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        """Refuse tests that there are not, and none at all: the rule threshold says that."""
        if strange := sorted(set(value) - set(TESTS_OF_CELLS)):
            raise ValueError(f"there is no test {', '.join(strange)}; there are {', '.join(TESTS_OF_CELLS)}")
        if not value:
            raise ValueError("names no test; flag_rule threshold asks none")
        return tuple(test for test in TESTS_OF_CELLS if test in value)

    @model_validator(mode="after")
    def cap_needs_prior(self) -> Self:
        """Without a prior nothing fixes the scale on which the cap is given."""
        if self.ability_cap is not None and self.prior_sd is None:
            raise ValueError("an ability_cap needs a prior_sd")
        return self

    @model_validator(mode="after")
    def probability_needs_interval(self) -> Self:
        """Without intervals abilities have no standard errors, and nobody would be probable enough to mark."""
        if self.flag_rule == "probability" and self.interval == "none":
            raise ValueError("flag_rule probability needs an interval other than none")
        return self

    def loop_settings(self, method: Method) -> LoopSettings:
        """Return the settings of one turn of the loop under this policy."""
        return LoopSettings(
            method=method,
            min_votes=self.min_votes,
            min_ability=self.min_ability,
            flag_rule=self.flag_rule,
            flag_probability=self.flag_probability,
            evidence_ratio=self.evidence_ratio,
            evidence_tests=self.evidence_tests,
            release_margin=self.release_margin,
            exclude=self.on_low_ability == "exclude" and method == "am-elo",
            prior_sd=self.prior_sd,
            ability_cap=self.ability_cap,
            bias_correction=self.bias_correction,
            interval=self.interval,
            base=self.base,
        )


class PolicyVersion(BaseModel):
    """A policy as it went into force: who set it, when and why."""

    model_config = ConfigDict(frozen=True)

    version: int = Field(description="Grows by one with every change.")
    settings: Policy
    reason: str = Field(description="Why it was set.")
    created_by: str = Field(description="Name of the key it was set with.")
    created_at: datetime


def current_policy(conn: Connection) -> PolicyVersion:
    """Return the policy in force."""
    return _on_record(policies.newest_policy(conn))


def past_policy(conn: Connection, version: int) -> PolicyVersion:
    """Return a version that is on record."""
    return _on_record(policies.get_policy(conn, version))


def set_policy(conn: Connection, settings: Policy, *, reason: str, created_by: str) -> PolicyVersion:
    """Put another policy in force, from the next refit on; earlier versions stay on record."""
    before, after = current_policy(conn).settings.model_dump(mode="json"), settings.model_dump(mode="json")
    row = policies.add_policy(conn, after, reason, created_by)
    changes = {name: [before[name], value] for name, value in after.items() if before[name] != value}
    detail = {"reason": reason, "changes": changes}
    audit.record(conn, actor=created_by, action="policy.set", subject=str(row["version"]), detail=detail)
    return _on_record(row)


def _on_record(row: RowMapping) -> PolicyVersion:
    return PolicyVersion.model_construct(**{**row, "settings": as_it_was_set(row["settings"])})


def as_it_was_set(settings: Mapping[str, Any]) -> Policy:
    """Return a policy that is on record, by the rules of its time: no later one keeps it from being read or changed."""
    settings = {"evidence_tests": SERVICE_TESTS} | dict(settings)
    try:
        return Policy.model_validate(settings)
    except ValidationError:
        return Policy.model_construct(**{**settings, "evidence_tests": tuple(settings["evidence_tests"])})

"""What `stable-arena rate` estimates, and how: its options as one object."""

import math
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Annotated, Any, Literal

import typer

from app.cli.inputs import features_of
from app.errors import BadInputError
from app.rating.settings import DEFINITIONS, FlagRule, Interval, LoopSettings, SettingError, check_settings

DEFAULTS = LoopSettings()
PLAIN = replace(DEFAULTS, prior_sd=None, influence_limit=None)
MAX_SHUFFLES = 1_000_000
_OF_THE_LOOP = ("min_votes", "min_ability", "min_probability", "flag_rule", "exclude", "interval", "confidence", "base")


def of_fit(name: str, *declarations: str, none: str = "", **more: Any) -> Any:
    """Return the option of a setting of the fit; `none` is how the command says no value."""
    if none:
        more["show_default"] = str(getattr(DEFAULTS, name))
    return typer.Option(*declarations, help=DEFINITIONS[name].explain(none), **more)


@dataclass(frozen=True)
class FitOptions:
    """The options of `rate` that say what is estimated; `loop`, `anchored` and `features` are what they mean.

    Raises BadInputError: a value is out of range, or is not for the method.
    """

    method: Annotated[
        Literal["am-elo", "m-elo", "elo"],
        typer.Option(
            help="am-elo estimates annotators too; m-elo is Bradley-Terry; elo starts at --base and depends on the "
            "order of votes."
        ),
    ] = "am-elo"
    min_votes: Annotated[int, of_fit("min_votes")] = DEFAULTS.min_votes
    min_ability: Annotated[float, of_fit("min_ability")] = DEFAULTS.min_ability
    min_probability: Annotated[float, of_fit("min_probability")] = DEFAULTS.min_probability
    flag_rule: Annotated[FlagRule, of_fit("flag_rule")] = DEFAULTS.flag_rule
    exclude: Annotated[bool, of_fit("exclude", "--exclude")] = DEFAULTS.exclude
    plain: Annotated[
        bool, typer.Option("--plain", help="The am-ELO paper's own estimator: no prior, no limit of influence.")
    ] = False
    prior_sd: Annotated[str | None, of_fit("prior_sd", none="--plain", metavar="NUMBER|estimated")] = None
    influence_limit: Annotated[float | None, of_fit("influence_limit", none="inf")] = None
    interval: Annotated[Interval, typer.Option(help=DEFINITIONS["interval"].text)] = DEFAULTS.interval
    confidence: Annotated[float, of_fit("confidence")] = DEFAULTS.confidence
    base: Annotated[float, of_fit("base")] = DEFAULTS.base
    anchor: Annotated[
        str | None, typer.Option(metavar="MODEL=SCORE", help="Shift the scores so that MODEL has SCORE.")
    ] = None
    inverse_propensity: Annotated[
        bool,
        typer.Option(
            "--inverse-propensity", help="Weigh each vote by 1/propensity, a column of the file: as of uniform pairs."
        ),
    ] = False
    style: Annotated[
        str | None,
        typer.Option(
            metavar="FEATURE,…",
            help="Show a leaderboard with style control too: side, and columns such as length for length_a and "
            "length_b.",
        ),
    ] = None
    by: Annotated[
        str, typer.Option(metavar="COLUMN", help="Show the scores by this column's categories, or criterion's, too.")
    ] = ""
    category_weights: Annotated[
        str,
        typer.Option(
            metavar="VALUE=WEIGHT,…",
            help="Weights of values of --by: show their weighted scores too, such as en=3,fr=1.",
        ),
    ] = ""
    portfolio: Annotated[
        float | None,
        typer.Option(
            metavar="MARGIN",
            help="Find the fewest models of which one is within so many points of the best in each category of --by.",
        ),
    ] = None
    scheduler: Annotated[
        str | None,
        typer.Option(
            metavar="ADDRESS", help="Dask scheduler (tcp://…) whose workers hold the votes; for files of many millions."
        ),
    ] = None
    seed: Annotated[int, typer.Option(min=0, help="Seed of the shuffles of elo.")] = 0
    shuffles: Annotated[
        int, typer.Option(min=2, max=MAX_SHUFFLES, help="Orders of the votes that elo averages over.")
    ] = 1000

    def __post_init__(self) -> None:
        """Refuse values out of range, and what the method does not have."""
        method, interval, loop = self.method, self.interval, self.loop
        try:
            check_settings(loop)
        except SettingError as error:
            raise BadInputError(f"--{error.name.replace('_', '-')} {error.detail}") from None
        if self.scheduler is not None and method != "am-elo":
            raise BadInputError(f"--scheduler is for am-elo; {method} needs one machine whatever the number of votes")
        self._check_by()
        if self.inverse_propensity and method == "elo":
            raise BadInputError("--inverse-propensity is for am-elo and m-elo; elo has no weights")
        if self.inverse_propensity and interval not in ("clustered", "none"):
            raise BadInputError(f"--inverse-propensity needs --interval clustered or none, not {interval}")
        if self.features:
            plain = method == "elo" or (method == "am-elo" and loop.prior_sd is None)
            if plain or self.inverse_propensity:
                raise BadInputError("--style is for m-elo, and am-elo with a prior, without --inverse-propensity")
            if interval not in ("clustered", "none"):
                raise BadInputError(f"--style needs --interval clustered or none, not {interval}")

    def _check_by(self) -> None:
        if self.by and (self.method == "elo" or self.inverse_propensity):
            raise BadInputError("--by is for am-elo and m-elo, without --inverse-propensity")
        if self.by_criterion and self.features:
            raise BadInputError("--by criterion goes without --style")
        if self.portfolio is not None and (not self.by or self.by_criterion or self.interval == "none"):
            raise BadInputError("--portfolio needs categories (--by COLUMN) and intervals")
        if self.portfolio is not None and not 0.0 < self.portfolio < math.inf:
            raise BadInputError(f"--portfolio must be a number of points above 0, is {self.portfolio:g}")
        if self.weights and not self.by:
            raise BadInputError("--category-weights needs --by COLUMN")

    @cached_property
    def features(self) -> tuple[str, ...]:
        """The features of --style."""
        return features_of(self.style)

    @property
    def by_criterion(self) -> bool:
        """Whether --by names the criteria, each of which has its own votes."""
        return self.by == "criterion"

    @cached_property
    def weights(self) -> dict[str, float]:
        """The weights of --category-weights by value."""
        found = dict[str, float]()
        for part in filter(None, self.category_weights.split(",")):
            value, _, weight = part.rpartition("=")
            try:
                found[value] = float(weight)
            except ValueError:
                found[value] = math.nan
            if not value or not 0.0 < found[value] < math.inf:
                raise BadInputError(f"--category-weights must be VALUE=WEIGHT,…, numbers above 0, has {part!r}")
        return found

    @cached_property
    def anchored(self) -> tuple[str, float] | None:
        """The model and the score of --anchor, divided at the last equals sign: names may contain others."""
        if self.anchor is None:
            return None
        model, _, score = self.anchor.rpartition("=")
        try:
            points = float(score)
        except ValueError:
            points = math.nan
        if not model or not math.isfinite(points):
            raise BadInputError(f"--anchor must be MODEL=SCORE, a finite number, is {self.anchor!r}")
        return model, points

    @cached_property
    def loop(self) -> LoopSettings:
        """The settings of the round; of them elo uses min_votes and base alone."""
        given: dict[str, Any] = {"prior_sd": self.prior_sd, "influence_limit": self.influence_limit}
        given = {name: value for name, value in given.items() if value is not None}
        if self.plain and given:
            options = " and ".join(f"--{name.replace('_', '-')}" for name in given)
            raise BadInputError(f"--plain means no prior and no limit of influence: leave out {options}")
        if self.prior_sd not in (None, "estimated"):
            try:
                given["prior_sd"] = float(self.prior_sd)
            except ValueError:
                raise BadInputError(f"--prior-sd must be a number or 'estimated', is {self.prior_sd!r}") from None
        if self.influence_limit == math.inf:
            given["influence_limit"] = None
        given |= {name: getattr(self, name) for name in _OF_THE_LOOP}
        given["method"] = "m-elo" if self.method == "m-elo" else "am-elo"
        return replace(PLAIN if self.plain else DEFAULTS, **given)

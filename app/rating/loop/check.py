"""Whether settings of the loop are such as there are, within range, and fit each other."""

import math
from typing import get_args

from app.rating.detection.judge import TESTS
from app.rating.results import LEAST_CAP, FlagRule, Interval, LoopSettings, Method


def check_settings(settings: LoopSettings, n_models: int) -> None:
    """Raise ValueError, naming the setting, where `LoopSettings` does not allow what they are.

    Parameters
    ----------
    n_models : of the votes, among whom the anchor must be
    """
    for name, choices in (("method", Method), ("interval", Interval), ("flag_rule", FlagRule)):
        if getattr(settings, name) not in get_args(choices):
            known = ", ".join(get_args(choices))
            raise ValueError(f"there is no {name} {getattr(settings, name)!r}; there are {known}")
    for name in ("min_votes", "release_margin"):
        if not getattr(settings, name) >= 0:
            raise ValueError(f"{name} must not be negative")
    _check_prior(settings)
    _check_rule(settings)
    if not 0 < settings.confidence < 1:
        raise ValueError("confidence must lie between 0 and 1")
    _check_points(settings, n_models)


def _check_prior(settings: LoopSettings) -> None:
    sd: object = settings.prior_sd
    cap = settings.ability_cap
    if not (sd is None or sd == "estimated" or (isinstance(sd, int | float) and 0 < sd < math.inf)):
        raise ValueError("prior_sd must be greater than 0 and finite, or estimated; None for no prior")
    if cap is not None and sd is None:
        raise ValueError("ability_cap needs prior_sd: without a prior nothing sets the scale of abilities")
    if cap is not None and not LEAST_CAP <= cap < math.inf:
        raise ValueError(
            f"ability_cap must be at least {LEAST_CAP} times the typical ability, and finite; None for none"
        )


def _check_rule(settings: LoopSettings) -> None:
    if math.isnan(settings.min_ability):
        raise ValueError("min_ability must be a number")
    if not 0 < settings.flag_probability < 1:
        raise ValueError("flag_probability must lie between 0 and 1")
    if settings.flag_rule == "probability" and settings.interval == "none":
        raise ValueError("flag_rule 'probability' needs an interval: without one abilities have no standard errors")
    if not settings.evidence_ratio > 1:
        raise ValueError("evidence_ratio must be greater than 1")
    if strange := set(settings.evidence_tests) - set(TESTS):
        raise ValueError(f"there is no test {', '.join(sorted(strange))}; there are {', '.join(TESTS)}")


def _check_points(settings: LoopSettings, n_models: int) -> None:
    if not math.isfinite(settings.base):
        raise ValueError("base must be finite")
    if settings.anchor is None:
        return
    model, points = settings.anchor
    if not 0 <= model < n_models:
        raise ValueError(f"anchor: there is no model {model} among {n_models}")
    if not math.isfinite(points):
        raise ValueError("anchor: its points must be finite")

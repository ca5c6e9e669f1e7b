"""What a reviewer should look at in the exposure of models."""

import math
from collections.abc import Iterator

from app.battles.exposure.schemas import Counts, ExposureAlarm, ModelExposure

FEWEST = 50  # battles below which nothing is said
DROPPED = 0.5  # of the earlier share
UNFINISHED = 0.8  # of the others' share of votes
BY_CHANCE = 5.0  # standard deviations: with 1,000 models and a look every hour, less than one false alarm in a year


def find_alarms(
    models: list[ModelExposure], total: Counts, earlier_battles: int, variance: list[float]
) -> Iterator[ExposureAlarm]:
    """Yield the alarms, by model.

    `total`: of all battles of the period.
    `earlier_battles`: in the period before.
    `variance`: of the number of battles under the policy, for each model.
    """
    for model, spread in zip(models, variance, strict=True):
        if not model.archived and min(total.offered, earlier_battles) >= FEWEST:
            yield from _dropped(model)
        yield from _unfinished(model, total)
        yield from _off_policy(model, spread)


def _dropped(model: ModelExposure) -> Iterator[ExposureAlarm]:
    before, now = model.earlier_candidate_share, model.candidate_share
    if before and now < DROPPED * before:
        detail = f"a candidate in {now:.0%} of the battles, in {before:.0%} in the period before; it is not archived"
        yield ExposureAlarm(code="dropped", model=model.model, detail=detail)


def _unfinished(model: ModelExposure, total: Counts) -> Iterator[ExposureAlarm]:
    """Compare the share of votes among ended battles with that of all, by the normal approximation."""
    ended, all_ended = _ended(model), _ended(total)
    if ended < FEWEST:
        return
    share, usual = model.voted / ended, total.voted / all_ended
    error = math.sqrt(usual * (1.0 - usual) / ended)
    if share < UNFINISHED * usual and share < usual - BY_CHANCE * error:
        detail = f"{share:.0%} of its battles that ended have a vote, {usual:.0%} of all"
        yield ExposureAlarm(code="unfinished", model=model.model, detail=detail)


def _off_policy(model: ModelExposure, variance: float) -> Iterator[ExposureAlarm]:
    if model.intended is None or variance < 1.0:
        return
    if abs(model.compared - model.intended) > BY_CHANCE * math.sqrt(variance):
        detail = f"{model.compared:,} battles where the policy intended {model.intended:,.0f}"
        yield ExposureAlarm(code="off-policy", model=model.model, detail=detail)


def _ended(counts: Counts) -> int:
    return counts.voted + counts.skipped + counts.expired

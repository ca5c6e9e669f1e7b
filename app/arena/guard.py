"""The guard on publication: a rule that suddenly excludes many is more often a broken filter than a crowd gone bad."""

from app.arena.fits.task import Fitted
from app.arena.reading import Material


def newly_excluded_share(fitted: Fitted, material: Material) -> float:
    """Share of the votes past δ that the rule would newly exclude; who was excluded before was accepted."""
    task, crowd = material.task, fitted.rating.crowd
    counted = (crowd.votes > material.policy.settings.min_votes) & ~task.keep_never
    newly = counted & (crowd.standing == "excluded") & ~task.keep_always & ~material.excluded_before
    return float(crowd.votes[newly].sum() / crowd.votes[counted].sum())

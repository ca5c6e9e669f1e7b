"""The guard on publication: which boards nobody but an admin should publish.

A rule that suddenly excludes many is more often a broken filter than a crowd gone bad; and of two camps votes do not
tell which is right.
"""

from app.refits.fit.task import Fitted
from app.refits.load import Material


def reason_to_hold(fitted: Fitted, material: Material) -> str | None:
    """Say why the board waits for an admin's word, None if it need not."""
    share, most = newly_excluded_share(fitted, material), material.policy.settings.max_excluded_share
    if share > most:
        return f"it would newly exclude {share:.1%} of the votes, more than the policy's {most:.1%}"
    notices = fitted.rating.diagnostics.warnings
    return next((notice.detail for notice in notices if notice.code == "opposed-camps"), None)


def newly_excluded_share(fitted: Fitted, material: Material) -> float:
    """Share of the votes past δ that the rule would newly exclude; who was excluded before was accepted."""
    task, crowd = material.task, fitted.rating.annotators
    counted = (crowd.votes > material.policy.settings.min_votes) & ~task.keep_never
    newly = counted & (crowd.standing == "excluded") & ~task.keep_always & ~material.excluded_before
    return float(crowd.votes[newly].sum() / crowd.votes[counted].sum())

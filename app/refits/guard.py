"""Checks on a fit before it is published: what holds it back for an admin, and what raises an alarm."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import median

import structlog
from sqlalchemy import Connection

from app.refits.fit.interface import FitInput, FitOutput
from app.refits.queries import list_rules

log = structlog.get_logger()

USUAL_SNAPSHOTS = 10
"""A rule's usual share of the votes is its median share in this many past snapshots."""

TIMES_USUAL = 3.0
POINTS_ABOVE_USUAL = 0.05

RuleCounts = Mapping[str, Mapping[str, int]]
"""Of each rule the `annotators` that it flags or excludes, and their `votes`."""


@dataclass(frozen=True)
class RuleAlarm:
    """A rule whose share of the votes has jumped. A broken filter is more likely than so many bad annotators.

    Attributes
    ----------
    annotators, votes : that the rule flags or excludes now
    share : of the votes read, now
    usual : the median of the last snapshots' shares
    """

    rule: str
    annotators: int
    votes: int
    share: float
    usual: float


def reason_to_hold(fit_input: FitInput, output: FitOutput) -> str | None:
    """Return why an admin has to accept this fit before it is published; None if there is no such reason."""
    excluded, of = _newly_excluded(fit_input, output)
    share, limit = excluded / of, fit_input.policy.max_excluded_share
    if share > limit:
        votes = f"{share:.1%} of the votes ({excluded:,} of {of:,})"
        return f"it would newly exclude {votes}, more than the policy's {limit:.1%}"
    # With two camps the votes do not tell which one is right.
    notices = output.diagnostics.warnings
    return next((notice.detail for notice in notices if notice.code == "opposed-camps"), None)


def newly_excluded_share(fit_input: FitInput, output: FitOutput) -> float:
    """Return the share of votes by annotators past δ that the rule excludes and did not exclude before."""
    excluded, of = _newly_excluded(fit_input, output)
    return excluded / of


def _newly_excluded(fit_input: FitInput, output: FitOutput) -> tuple[int, int]:
    """Return the number of these votes, and of all votes by annotators past δ; without any there is no fit."""
    annotators = output.annotators
    past = (annotators.votes > fit_input.settings.min_votes) & ~fit_input.keep_never
    newly = past & (annotators.standing == "excluded") & (fit_input.rule_standings != "excluded")
    newly &= ~fit_input.keep_always
    return int(annotators.votes[newly].sum()), int(annotators.votes[past].sum())


def find_alarms(conn: Connection, rules: RuleCounts, votes_read: int) -> list[RuleAlarm]:
    """Compare a fit with the last snapshots; return the rules whose share of the votes has jumped."""
    past = [_shares(past_rules, read) for past_rules, read in list_rules(conn, limit=USUAL_SNAPSHOTS)]
    alarms = judge_rules(rules, votes_read, past)
    for alarm in alarms:
        log.warning("rule_jumped", rule=alarm.rule, share=round(alarm.share, 4), usual=round(alarm.usual, 4))
    return alarms


def judge_rules(rules: RuleCounts, votes_read: int, past: Sequence[Mapping[str, float]]) -> list[RuleAlarm]:
    """Return the rules whose share is above three times the usual and five points above it, the largest first.

    A rule that a past snapshot does not name had a share of 0 in it. Without a past nothing is unusual.
    """
    if not past:
        return []
    found = []
    for rule, share in _shares(rules, votes_read).items():
        usual = median(each.get(rule, 0.0) for each in past)
        if share > max(TIMES_USUAL * usual, usual + POINTS_ABOVE_USUAL):
            found.append(RuleAlarm(rule, rules[rule]["annotators"], rules[rule]["votes"], share, usual))
    return sorted(found, key=lambda alarm: -alarm.share)


def _shares(rules: RuleCounts, votes_read: int) -> dict[str, float]:
    return {rule: counts["votes"] / max(1, votes_read) for rule, counts in rules.items()}

"""A rule that suddenly flags or excludes many: more often a filter that fails than a crowd gone bad."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any

import structlog
from sqlalchemy import Connection

from app.refits.alarms.queries import list_rules

log = structlog.get_logger()

USUAL_SNAPSHOTS = 10
"""How many of the last snapshots say what is usual: the median of their shares."""

TIMES_USUAL = 3.0
POINTS_ABOVE_USUAL = 0.05


@dataclass(frozen=True)
class RuleAlarm:
    """A rule whose share of the votes has jumped.

    Attributes
    ----------
    annotators, votes : whom the rule flags or excludes now, and their votes
    share : of the votes read, now
    usual : the median of the last snapshots' shares
    """

    rule: str
    annotators: int
    votes: int
    share: float
    usual: float


def find_alarms(conn: Connection, diagnostics: Mapping[str, Any]) -> list[RuleAlarm]:
    """Hold a snapshot that is about to be published against the last ones; return the rules that jumped.

    Parameters
    ----------
    diagnostics : with `rules`, {rule: {"annotators": n, "votes": n}}, and `votes`, where `read` is how many were read
    """
    past = [_shares(rules, read) for rules, read in list_rules(conn, limit=USUAL_SNAPSHOTS)]
    alarms = judge_rules(diagnostics["rules"], diagnostics["votes"]["read"], past)
    for alarm in alarms:
        log.warning("rule_jumped", rule=alarm.rule, share=round(alarm.share, 4), usual=round(alarm.usual, 4))
    return alarms


def judge_rules(
    rules: Mapping[str, Mapping[str, int]], votes_read: int, past: Sequence[Mapping[str, float]]
) -> list[RuleAlarm]:
    """Return the rules whose share lies above three times and five points more than the usual, the largest first.

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


def _shares(rules: Mapping[str, Mapping[str, int]], votes_read: int) -> dict[str, float]:
    return {rule: told["votes"] / max(1, votes_read) for rule, told in rules.items()}

"""Why an annotator is flagged, or is not, in sentences: the results of the tests, and the ability."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from app.annotators.schemas import Annotator, FoundAnnotator
from app.rating.errors import counted
from app.rating.settings import EVEN_ODDS, EVIDENCE_RATIO, TASTE_TESTS, LoopSettings
from app.review.evidence.schemas import Finding, Findings, JudgedAbility, VoteWeights
from app.wording import MINUS, points

BEHAVIOURS: dict[str, str] = {
    "coin": "an annotator who votes at random or against the leaderboard",
    "equal": "an annotator who always calls a tie",
    "follower": "an annotator who looks up the leaderboard and follows it more closely than honest annotators do",
    "favour": "an annotator who always votes for {about} and otherwise honestly",
    "against": "an annotator who always votes against {about} and otherwise honestly",
    "side": "an annotator who always takes the {about} side",
}
_STRONG = 1.0  # log10 of the ratio: ten times
_MILLION, _BEYOND = 6.0, 300.0  # log10 of the largest odds that are stated, and of the largest that are computed with
_LOW_ENOUGH = 0.5  # probability of an ability at or below ε from which a sentence says so
_KEPT = {"trusted": "an admin trusts this annotator", "active": "an admin reinstated this annotator"}


@dataclass(frozen=True)
class RuleUsed:
    """The rule on abilities of a refit.

    Attributes
    ----------
    threshold : ε; None where the snapshot does not name it
    by_evidence : whether it asks for a probability and tests the votes
    bar : ratio of a test from which it flags
    min_votes : δ; None where the snapshot does not name it
    least_probability : P(a ≤ ε) from which it flags
    """

    threshold: float | None
    by_evidence: bool
    bar: float
    min_votes: int | None = None
    least_probability: float = LoopSettings.min_probability

    @classmethod
    def of(cls, snapshot: Mapping[Any, Any] | None) -> "RuleUsed":
        """Return the rule of a snapshot, a row of it, by its settings."""
        settings: Mapping[str, Any] = {} if snapshot is None else snapshot["settings"]
        by_evidence = settings.get("flag_rule", "evidence") == "evidence"
        bar, min_votes = settings.get("evidence_ratio", EVIDENCE_RATIO), settings.get("min_votes")
        least = settings.get("min_probability", LoopSettings.min_probability)
        return cls(settings.get("min_ability"), by_evidence, bar, min_votes, least)

    def judged(self, annotator: Annotator) -> JudgedAbility | None:
        """Return the ability by which the rule judges; None where none is known."""
        one = annotator
        if one.ability is not None:
            return JudgedAbility(kind="ability", value=one.ability, lower=one.ability_lower, upper=one.ability_upper)
        if one.shadow_ability is not None:
            ends = {"lower": one.shadow_lower, "upper": one.shadow_upper}
            return JudgedAbility(kind="shadow", value=one.shadow_ability, **ends)
        return None


def describe_findings(evidence: Mapping[str, Any] | None) -> Findings:
    """Return what a refit stored about an annotator, with a sentence for each test."""
    evidence = evidence or {}
    about, explains = evidence.get("about") or {}, evidence.get("explains") or {}
    tests = sorted((evidence.get("tests") or {}).items(), key=lambda item: -item[1])
    return Findings(
        rule=evidence.get("rule"),
        held=bool(evidence.get("held")),
        strength=evidence.get("strength"),
        judges=evidence.get("judges"),
        findings=[_finding(test, ratio, about.get(test), explains.get(test)) for test, ratio in tests],
        weights=evidence.get("weights"),
    )


def _finding(test: str, ratio: float, about: str | None, explains: float | None) -> Finding:
    found = Finding(test=test, log10_ratio=ratio, about=about, explains=explains, words="")
    return found.model_copy(update={"words": _describe_finding(found, _odds(found))})


def _describe_finding(finding: Finding, log10_odds: float) -> str:
    behaviour = BEHAVIOURS.get(finding.test, f"an annotator with the behaviour {finding.test}")
    what = behaviour.format(about=finding.about or "one model")
    share = "" if finding.explains is None else f": that explains {100 * finding.explains:.0f} % of the votes"
    return f"The odds are {format_odds(log10_odds)} that this is {what}{share}."


def _odds(finding: Finding) -> float:
    return finding.log10_ratio - math.log10(EVEN_ODDS)


def strong_findings(findings: Findings) -> list[Finding]:
    """Return the findings with a ratio of ten or more."""
    return [finding for finding in findings.findings if finding.log10_ratio >= _STRONG]


def describe_reasons(annotator: Annotator, findings: Findings, rule: RuleUsed) -> list[str]:
    """Describe what the refit found against the annotator: the diagnosis first, then what else might be.

    The diagnosis is the likeliest explanation. The odds of another one are those beside it: types exclude each other.
    """
    strong = strong_findings(findings)
    telling = [one for one in findings.findings if one in strong or one.test == findings.rule]
    words = [one.words for one in telling[:1]]
    words += [_describe_finding(one, _odds_beside(one, telling[0])) for one in telling[1:]]
    if findings.held:
        words.append("The flag remains from before: the figures are within the rule's margin.")
    low, judged = annotator.probability_low, rule.judged(annotator)
    if low is None or judged is None or rule.threshold is None or (low < _LOW_ENOUGH and findings.rule != "ability"):
        return words
    about_ability = _describe_ability(judged, low, rule.threshold)
    likely = telling and _odds(telling[0]) > 0.0
    return [*words[:1], about_ability, *words[1:]] if likely else [about_ability, *words]


def _odds_beside(one: Finding, first: Finding) -> float:
    """Return log10 of the odds of a finding against all else, the diagnosis too.

    Those of a test on a model are stored against honesty alone; of the others they are against all else already.
    """
    if one.test not in TASTE_TESTS:
        return _odds(one)
    return _odds(one) - math.log10(1.0 + 10.0 ** min(_odds(first), _BEYOND))


def _describe_ability(judged: JudgedAbility, low: float, threshold: float) -> str:
    lower, upper = points(judged.lower, 2), points(judged.upper, 2)
    ends = "" if judged.lower is None or lower == upper else f" (95 % interval {lower} to {upper})"
    below = f"{threshold:g}".replace("-", MINUS)
    return f"The ability is {points(judged.value, 2)}{ends}; it is at or below {below} with {format_probability(low)}."


def describe_weights(annotator: Annotator, weights: VoteWeights | None) -> str:
    """Say how many of the votes on record count in the newest leaderboard: in full, less, or not."""
    votes = counted(annotator.votes, "vote")
    if annotator.standing in ("pending", "excluded"):
        return f"Of {votes} none counts."
    if weights is None:
        return f"Of {votes} all count in full."
    total = weights.full + weights.pushed + weights.many
    said = [f"{points(weights.full)} count in full"]
    for number, worth, why in (
        (weights.pushed, weights.pushed_worth, "as they seem to push a model or to bury it"),
        (weights.many, weights.many_worth, "as they are far more on a model than its other judges have"),
    ):
        if number:
            said.append(f"{points(number)} count as {points(worth)}, {why}")
    what = votes if round(total) == annotator.votes else counted(round(total), "pair")
    return f"Of {what} {'; '.join(said)}."


def explain_unflagged(found: FoundAnnotator, findings: Findings, rule: RuleUsed) -> str | None:
    """Say why an annotator has no flag, though the ability is at or below ε; None for all others."""
    judged = rule.judged(found)
    if judged is None or rule.threshold is None or found.standing in ("flagged", "excluded"):
        return None
    if judged.value > rule.threshold:
        return None
    if found.standing == "pending":
        least = (
            "" if rule.min_votes is None else f": with {counted(found.votes, 'vote')}, not more than {rule.min_votes:,}"
        )
        why = f"the rule does not judge this annotator yet{least}"
    elif found.override is not None:
        why = _KEPT[found.override]
    elif found.dismissed_below is not None and found.rule_standing == "flagged":
        why = "an admin dismissed the flag"
    elif rule.by_evidence and (low := found.probability_low or 0.0) < rule.least_probability:
        asked = f"the rule asks for {100 * rule.least_probability:g} %"
        why = f"the ability is at or below ε with {format_probability(low)}; {asked}"
    elif findings.judges is not None:
        stand = "judge stands" if int(findings.judges) == 1 else "judges stand"
        why = f"only {int(findings.judges)} {stand} behind the scores of these models"
    else:
        why = "the next refit judges anew"
    return f"Not flagged: {why}."


def format_odds(log10_odds: float) -> str:
    """Return odds in words: "63 to 1", "1 to 4", "more than a million to one"."""
    if abs(log10_odds) >= _MILLION:
        return "more than a million to one" if log10_odds > 0.0 else "less than one to a million"
    return f"1 to {_count(-log10_odds)}" if log10_odds < 0.0 else f"{_count(log10_odds)} to 1"


def format_ratio(log10_ratio: float) -> str:
    """Return a likelihood ratio in words: "2.5 times", "1,585 times", "more than a million times"."""
    return "more than a million times" if log10_ratio >= _MILLION else f"{_count(log10_ratio)} times"


def _count(log10: float) -> str:
    value = 10.0**log10
    return f"{value:,.0f}" if value >= 10 else f"{value:.1f}".removesuffix(".0")  # noqa: PLR2004  from ten on without decimals


def format_probability(probability: float) -> str:
    """Return a probability in words, never as a certainty."""
    if probability > 0.999:  # noqa: PLR2004
        return "more than 99.9 % probability"
    return f"{100 * probability:.1f} % probability" if probability >= 0.001 else "less than 0.1 % probability"  # noqa: PLR2004

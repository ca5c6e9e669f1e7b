"""Why an annotator is flagged, in sentences: the results of the tests, and the ability."""

import math
from collections.abc import Mapping
from typing import Any

from app.annotators.schemas import Annotator
from app.review.evidence.schemas import Finding, Findings
from app.review.queries import MAX_LOG10_ODDS

BEHAVIOURS: dict[str, str] = {
    "coin": "an annotator who votes at random",
    "contrary": "an annotator who votes against the leaderboard",
    "equal": "an annotator who always calls a tie",
    "follower": "an annotator who looks up the leaderboard and follows it more closely than honest annotators do",
    "favour": "an annotator who always votes for {about} and otherwise honestly",
    "against": "an annotator who always votes against {about} and otherwise honestly",
    "mimic": "an annotator who always votes for {about} and otherwise follows the leaderboard",
    "side": "an annotator who always takes the {about} side",
}
_STRONG = 1.0  # log10 of the likelihood ratio: ten times
_LOW_ENOUGH = 0.5  # probability of an ability at or below ε from which a sentence says so


def describe_findings(evidence: Mapping[str, Any] | None) -> Findings:
    """Return what a refit stored about an annotator, with a sentence for each test."""
    if evidence is None:
        return Findings(rule=None, held=False, strength=None, findings=[])
    about = evidence.get("about") or {}
    tests = sorted((evidence.get("tests") or {}).items(), key=lambda item: -item[1])
    return Findings(
        rule=evidence.get("rule"),
        held=bool(evidence.get("held")),
        strength=evidence.get("strength"),
        findings=[_finding(test, ratio, about.get(test)) for test, ratio in tests],
    )


def _finding(test: str, ratio: float, about: str | None) -> Finding:
    behaviour = BEHAVIOURS.get(test, f"an annotator with the behaviour {test}").format(about=about or "one model")
    words = f"The votes are {format_ratio(ratio)} likelier from {behaviour} than from an honest annotator."
    return Finding(test=test, log10_ratio=ratio, about=about, words=words)


def strong_findings(findings: Findings) -> list[Finding]:
    """Return the findings with a likelihood ratio of ten or more."""
    return [finding for finding in findings.findings if finding.log10_ratio >= _STRONG]


def strength_of(findings: Findings, probability_low: float | None) -> float:
    """Return the strength of the reason, by which the queue is ordered; `queries.list_by_reason` computes the same."""
    ratios = [] if findings.strength is None else [findings.strength]
    if probability_low is not None:
        least = 10.0**-MAX_LOG10_ODDS
        ratios.append(math.log10(max(probability_low, least) / max(1.0 - probability_low, least)))
    return max([0.0, *ratios])


def describe_reasons(annotator: Annotator, findings: Findings, threshold: float | None) -> list[str]:
    """Describe what the refit found against the annotator, the strongest first; `threshold` is ε."""
    words = [finding.words for finding in strong_findings(findings)]
    if findings.held:
        words.append("The flag remains from before: the figures are within the rule's margin.")
    low = annotator.probability_low
    if low is None or threshold is None or (low < _LOW_ENOUGH and findings.rule != "ability"):
        return words
    about_ability = _describe_ability(annotator, low, threshold)
    return [about_ability, *words] if findings.rule in (None, "ability") else [*words, about_ability]


def _describe_ability(annotator: Annotator, low: float, threshold: float) -> str:
    kind, ability, lower, upper = "adjusted ability", *_interval(annotator, "adjusted")
    if ability is None:
        kind = "ability" if annotator.ability is not None else "shadow ability"
        ability, lower, upper = _interval(annotator, kind.split()[0])
    probability = format_probability(low)
    ends = "" if lower is None else f" (95 % interval {lower:.2f} to {upper:.2f})".replace("-", "−")
    value = f"{ability:.2f}".replace("-", "−")
    return f"The {kind} is {value}{ends}; it is at or below {threshold:g} with {probability}."


def _interval(annotator: Annotator, name: str) -> tuple[float | None, float | None, float | None]:
    value = annotator.ability if name == "ability" else getattr(annotator, f"{name}_ability")
    return value, getattr(annotator, f"{name}_lower"), getattr(annotator, f"{name}_upper")


def format_ratio(log10_ratio: float) -> str:
    """Return a likelihood ratio in words: "2.5 times", "1,585 times", "10^9 times"."""
    if log10_ratio < 6:  # noqa: PLR2004  a million
        ratio = 10.0**log10_ratio
        return f"{ratio:,.0f} times" if ratio >= 10 else f"{ratio:.1f} times"  # noqa: PLR2004
    return f"10^{log10_ratio:.0f} times"


def format_probability(probability: float) -> str:
    """Return a probability in words, never as a certainty."""
    if probability > 0.999:  # noqa: PLR2004
        return "more than 99.9 % probability"
    return f"{100 * probability:.1f} % probability" if probability >= 0.001 else "less than 0.1 % probability"  # noqa: PLR2004

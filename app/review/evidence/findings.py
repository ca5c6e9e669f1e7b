"""What the laboratory's tests found against an annotator, in words."""

from collections.abc import Mapping
from typing import Any

from pydantic import BaseModel, ConfigDict, Field

BEHAVIOURS: dict[str, str] = {
    "coin": "somebody who votes at random, whatever is shown",
    "contrary": "somebody who votes against the board",
    "equal": "somebody who always calls a tie",
    "follower": "somebody who looks up the board and votes by it, more faithfully than honest people do",
    "favour": "somebody who votes for {about} whenever it is shown and honestly otherwise",
    "against": "somebody who votes against {about} whenever it is shown and honestly otherwise",
    "mimic": "somebody who votes for {about} and by the board otherwise, to look honest",
    "group": "somebody who always favours or always opposes a group of neighbours on the board, {about} first",
    "side": "somebody who always takes the {about} side",
    "copy": "somebody who repeats another annotator's earlier votes",
}
_WORTH_TELLING = 1.0  # log10: ten times


class Finding(BaseModel):
    """One test's verdict: how much likelier the votes are from such a behaviour than from an honest annotator."""

    model_config = ConfigDict(frozen=True)

    test: str
    log10_ratio: float = Field(description="Logarithm to base 10 of the likelihood ratio; 2 is a hundred times.")
    about: str | None = Field(description="The model or the side that it is about.")
    words: str


class Laboratory(BaseModel):
    """What the newest refit noted against the annotator."""

    model_config = ConfigDict(frozen=True)

    rule: str | None = Field(description="What flags or excludes: `ability`, or a test's name; null for nothing.")
    held: bool = Field(description="Whether that is only because it did before: within the rule's margin.")
    strength: float | None = Field(description="Logarithm to base 10 of the strongest test's likelihood ratio.")
    findings: list[Finding] = Field(description="The strongest first; only tests that speak against the annotator.")


def tell(evidence: Mapping[str, Any] | None) -> Laboratory:
    """Put what a refit stored into words."""
    if evidence is None:
        return Laboratory(rule=None, held=False, strength=None, findings=[])
    about = evidence.get("about") or {}
    tests = sorted((evidence.get("tests") or {}).items(), key=lambda item: -item[1])
    return Laboratory(
        rule=evidence.get("rule"),
        held=bool(evidence.get("held")),
        strength=evidence.get("strength"),
        findings=[_finding(test, ratio, about.get(test)) for test, ratio in tests],
    )


def worth_telling(laboratory: Laboratory) -> list[Finding]:
    """Return the findings that make honest votes at least ten times less likely."""
    return [finding for finding in laboratory.findings if finding.log10_ratio >= _WORTH_TELLING]


def _finding(test: str, ratio: float, about: str | None) -> Finding:
    behaviour = BEHAVIOURS.get(test, f"what the test {test} looks for").format(about=about or "one model")
    words = f"The votes are {times(ratio)} likelier from {behaviour} than from an honest annotator."
    return Finding(test=test, log10_ratio=ratio, about=about, words=words)


def times(log10_ratio: float) -> str:
    """Say a ratio as people say it."""
    if log10_ratio < 6:  # noqa: PLR2004  a million
        ratio = 10.0**log10_ratio
        return f"{ratio:,.0f} times" if ratio >= 10 else f"{ratio:.1f} times"  # noqa: PLR2004
    return f"10^{log10_ratio:.0f} times"

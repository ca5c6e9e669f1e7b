"""What is aimed at: the most that attackers gain, and the largest share of honest annotators wronged."""

from stable_arena_lab.judging.versions import EXCLUDED, NOW

GAINED, BEYOND = "ranks gained", "ranks beyond Bradley-Terry"
WRONGED, UNSURE = "honest wronged, %", "honest wronged by ability with an error of .3 or more, %"
LEANERS = "leaners wronged, %"  # the few who lean in a crowd that does not

BY_ANY_ATTACK = 0.3  # ranks beyond Bradley-Terry while flagged annotators stay in
NEAR_THE_TOP = 0.1  # the same by attackers among the leaders, with exclusion
LEADERS = ("able favourers", "tuned mimics")  # rows of the table
MOST_WRONGED = {"tiers": 2.0, "niche": 2.0}  # rows; % of the honest annotators
IN_FAMILIES = 3.0  # tastes that whole families of models share
ELSEWHERE = 1.0


def find_target(row: str, case: str, measure: str, version: str) -> float | None:
    """Return the largest mean that is aimed at; None where there is no target, so before."""
    if measure == BEYOND and version == NOW:
        return BY_ANY_ATTACK
    if measure == BEYOND and version == EXCLUDED and row in LEADERS:
        return NEAR_THE_TOP
    if measure in (WRONGED, UNSURE, LEANERS) and version in (NOW, EXCLUDED):
        return IN_FAMILIES if "families" in case else MOST_WRONGED.get(row, ELSEWHERE)
    return None

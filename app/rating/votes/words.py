"""The words for the outcome of a vote, in files and tables alike. Servers load it: no numba."""

from collections.abc import Mapping

from app.rating.arrays import OUTCOME_VALUES

A, B, TIE, BOTH_BAD = range(len(OUTCOME_VALUES))

WORDS: Mapping[str, int] = {
    **dict.fromkeys(("model_a", "a", "left", "first", "a_better", "a_win", "a>b", "a>>b", "b<a", "b<<a"), A),
    **dict.fromkeys(("model_b", "b", "right", "second", "b_better", "b_win", "b>a", "b>>a", "a<b", "a<<b"), B),
    **dict.fromkeys(("tie", "draw", "equal", "same", "both_good", "both_equal", "a=b", "b=a"), TIE),
    **dict.fromkeys(("tie (bothbad)", "tie (both bad)", "bothbad", "both_bad", "both bad", "neither"), BOTH_BAD),
}
"""Outcome words in lower case → outcome codes: model_a won, model_b won, tie, tie (bothbad)."""

STRONG = frozenset({"a>>b", "b<<a", "b>>a", "a<<b"})
"""Words of a verdict that is more than a preference: with soft verdicts it counts three times, as arena-hard does."""
